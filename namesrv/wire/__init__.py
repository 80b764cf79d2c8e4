"""Request codes of a NameServer: decode, call the state, encode."""
