"""The NameServer: who is alive, and which queues are where."""

__version__ = "0.1.0"
