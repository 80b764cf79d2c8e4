"""Offsets that clients commit over HTTP: rules, the table in memory, and the one store behind it."""
