"""What the servers record of what they see: its shapes, how it is written, and how it is read back."""
