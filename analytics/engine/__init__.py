"""Runs analyses: inputs, parts of days, results."""
