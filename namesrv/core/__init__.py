"""The rules and tables of routes: no clock, no socket, no log."""
