"""The rules: from what is stored and what was heard to what happens; no clock, no store, no wire."""
