"""What a control plane requests of brokers and NameServers: pure requests by subject, and a thin client."""
