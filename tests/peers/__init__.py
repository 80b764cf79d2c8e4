"""Real RocketMQ peers for the integration tests: Java servers, clients and tools, started as processes on loopback."""
