"""Locks of queues: who holds which, replayed to a new master, and overlaps found."""
