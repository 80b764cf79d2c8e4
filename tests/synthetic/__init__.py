"""Synthetic history with known truth: rows of all families, made from a seed, and what was planted in them."""
