"""Tells from the history how things were: the route of a topic at any moment, and the story of a broker."""
