"""Commands of mqadmin about controllers and what they know of brokers."""
