"""What mqadmin has from Java and its libraries: options, formats, the order of hash maps, JSON."""
