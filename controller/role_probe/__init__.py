"""Measures how long a set takes no messages at a change of its master, as a producer sees it."""
