"""Repairs of offsets after the master of a broker set has changed."""
