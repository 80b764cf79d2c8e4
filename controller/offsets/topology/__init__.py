"""Which broker is the master of which set, and since when, followed from outside of a controller's process."""
