"""What the offset manager logs and counts."""
