"""The offset manager: reads how far groups are at brokers, repairs what a failover lost, and restores on request."""
