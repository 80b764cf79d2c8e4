"""Sets the offsets of groups right after a role change, a restart or the replacement of a broker."""
