"""Which broker of a set serves as its master, for whoever moves an address with the role."""
