"""What a controller writes into the history."""
