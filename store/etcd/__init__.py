"""The etcd store and its lease."""
