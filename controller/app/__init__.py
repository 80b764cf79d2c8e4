"""Wiring of a controller."""
