"""Options and KV configuration of a NameServer, durable before anybody sees them."""
