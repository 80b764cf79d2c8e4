"""Header and body shapes of the messages, one module per receiver, one struct per message."""
