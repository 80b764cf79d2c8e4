"""Commands of mqadmin about clusters."""
