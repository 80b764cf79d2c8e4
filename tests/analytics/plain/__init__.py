"""The sixteen questions once more, in plain Python over the rows: from their definitions, not from Spark's code.

Small and literal, as slow as it likes. A row is a dictionary without its nulls, times are Unix us. What a definition
leaves open is settled in READINGS.md, with what an operator would expect.
"""
