"""Wiring of a NameServer, and what carries out its effects."""
