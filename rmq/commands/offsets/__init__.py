"""`rmq offsets`: what the offset manager knows and does."""
