"""From a socket's bytes to the bytes of frames: preamble and TLS, without sockets; and probes and HTTP."""
