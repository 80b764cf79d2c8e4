"""Runs resizes: queries brokers, stores decisions, carries out what they say."""
