"""Options of a server: their names, values and sources, and how a request changes them."""
