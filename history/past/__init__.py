"""Reads the history back: the route of a topic at any moment, and the timeline of a broker."""
