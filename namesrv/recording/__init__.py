"""What a NameServer writes into the history."""
