"""The HTTP API of the offset manager."""
