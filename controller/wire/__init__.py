"""Requests to and from a controller: decode, call, encode."""
