"""What both servers are made of beside RocketMQ's rules: options, log lines, metrics, HTTP, files, the process."""

__version__ = "0.1.0"
