"""Commands of mqadmin about groups."""
