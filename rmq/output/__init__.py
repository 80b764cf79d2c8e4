"""How rows are written: as a table, JSON, JSON lines or CSV."""
