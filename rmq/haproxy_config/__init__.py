"""`rmq haproxy-config`: the configuration of an HAProxy that leads role addresses to masters."""
