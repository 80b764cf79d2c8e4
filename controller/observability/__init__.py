"""Log events and metrics of a controller."""
