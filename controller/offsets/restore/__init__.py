"""Puts offsets at brokers back, shows it before, undoes it, and shows how far groups are behind."""
