"""Puts the offset manager together."""
