"""What a controller answers over HTTP."""
