"""Broker sets as values: members, epochs, what can happen to them."""
