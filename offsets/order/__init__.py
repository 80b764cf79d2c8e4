"""Order: two holders of one queue are found, and a new master gets the locks of declared orderly groups."""
