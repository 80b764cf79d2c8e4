"""The NameServer: who is alive, and which queues are where."""
