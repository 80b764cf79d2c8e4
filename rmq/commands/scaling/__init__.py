"""`rmq scaling` and `rmq topic scale`: resizes of topics by our controllers."""
