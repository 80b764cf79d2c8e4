"""What is read and changed: NameServers, controllers and brokers by remoting, our HTTP API."""
