"""The rules: from what is stored and what brokers sent to what happens; no clock, no store, no wire."""
