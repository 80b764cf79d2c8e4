"""Log lines: their catalogue, limits, rendering and the thread that writes them."""
