"""Columns of tables as they are stored and published."""

import pytest
from pyspark.errors import AnalysisException

from analytics.spark.schemas import shaped
from history.columns import Column, Type

COLUMNS = (Column("kind", Type.STRING, ""), Column("id", Type.LONG, ""), Column("gap_ms", Type.DOUBLE, ""))


def test_column_that_a_table_lacks_is_named_and_that_a_kind_lacks_is_null(spark):
    gaps, ids = spark.sql("SELECT 1.5 AS gap_ms"), spark.sql("SELECT 7 AS id")
    with pytest.raises(AnalysisException, match="gap_ms"):
        shaped(ids.selectExpr("id", "'x' AS kind"), COLUMNS)

    rows = shaped({"gap": gaps, "id": ids}, COLUMNS).collect()
    assert [tuple(row) for row in rows] == [("gap", None, 1.5), ("id", 7, None)]
