"""Learns from what the servers recorded: PySpark jobs over the history, their results, and a report."""
