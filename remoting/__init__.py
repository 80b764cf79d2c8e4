"""RocketMQ's remoting protocol: what both servers share of the wire, and nothing about routes or masters."""
