"""One resize of one topic as values: what is stored of it, what is observed, what is decided."""
