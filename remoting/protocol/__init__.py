"""Bytes, commands, headers and bodies of the remoting protocol: pure."""
