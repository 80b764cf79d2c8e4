"""Which queues are where, and plans for them."""
