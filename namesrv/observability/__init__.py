"""Log events and metrics of a NameServer."""
