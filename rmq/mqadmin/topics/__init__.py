"""Commands of mqadmin about topics."""
