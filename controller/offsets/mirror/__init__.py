"""The offsets of all masters, read again and again: what changed, and what went back."""
