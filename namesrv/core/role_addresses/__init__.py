"""Addresses that stay while the role of a broker moves: which rules there are, for whom, and what a route becomes."""
