"""What an offset manager writes into the history."""
