"""Counters, and the text in which Prometheus reads them."""
