"""The lock service: sessions of clients, queues that they hold, and the fencing tokens of their commits. Pure."""
