"""Commands of mqadmin about NameServers."""
