"""The route tables: each stores, returns and removes one concern and knows no other table."""
