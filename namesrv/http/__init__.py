"""What a NameServer answers over HTTP."""
