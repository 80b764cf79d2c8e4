"""Commands of mqadmin about brokers."""
