"""Calls a program or a URL of the operator at each change of a set's master."""
