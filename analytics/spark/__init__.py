"""Spark's side: schemas, storage, failures."""
