"""What an agent does to its host: addresses, neighbours and connections, by the kernel's sockets alone."""
