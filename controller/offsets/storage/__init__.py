"""Keeps offsets: a local journal that each acknowledgement waits for, a remote store, and write-behind between them."""
