"""`rmq group`: subscription groups at brokers."""
