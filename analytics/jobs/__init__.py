"""The analyses, one file each: its number and its question in the name."""
