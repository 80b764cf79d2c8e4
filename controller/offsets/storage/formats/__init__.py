"""How offsets are written: records of the journal, keys and values of rows, requests to etcd, their limits. Pure."""
