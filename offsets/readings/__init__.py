"""Readings: how far all groups were at a master at one moment, kept for 14 days."""
