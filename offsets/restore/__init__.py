"""Restores of offsets that readings have, their undo, and lags."""
