"""The route tables: each stores, answers and forgets one concern and knows no other table."""
