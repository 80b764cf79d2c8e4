"""Intervals between heartbeats, counted."""
