"""Connections and their requests: who is read, what waits, what is answered, and within which limits."""
