"""From a socket's bytes to the bytes of frames: the preamble of a connection and TLS; no socket anywhere."""
