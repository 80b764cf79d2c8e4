"""When the guard runs at which broker, from which offsets, and what its last runs have done."""
