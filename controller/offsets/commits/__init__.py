"""The rules of consumer offsets: what a commit, seed, reset, freeze, clone or delete changes. Pure."""
