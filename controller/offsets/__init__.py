"""Consumer offsets and queue locks: kept for clients that want it, mirrored from brokers, right after role changes."""
