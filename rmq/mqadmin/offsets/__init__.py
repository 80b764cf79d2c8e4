"""Commands of mqadmin about offsets."""
