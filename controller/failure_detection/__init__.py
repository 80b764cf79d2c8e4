"""Heartbeats, and which brokers have failed."""
