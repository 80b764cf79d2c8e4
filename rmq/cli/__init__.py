"""What the command line says: options, profiles, exit codes, confirmation."""
