"""The life of a server process: start, signals, limits of the machine, drain and stop."""
