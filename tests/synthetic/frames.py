"""DataFrames of synthetic rows, as the analyses get them."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from analytics.spark.schemas import row_schema
from history.columns import Column
from history.schemas import FAMILIES
from synthetic.arrow_types import ARROW_TYPES


def frame(spark: SparkSession, family: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return rows of a family as a DataFrame; columns that a row lacks are null, those it has too many are left out."""
    columns = FAMILIES[family].all_columns
    held = list(rows)
    table = pa.table({column.name: _array(column, held) for column in columns})
    return spark.createDataFrame(table, row_schema(FAMILIES[family]))


def frames(spark: SparkSession, rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, DataFrame]:
    """Return all families as DataFrames, empty ones too."""
    return {family: frame(spark, family, rows.get(family, ())) for family in FAMILIES}


def _array(column: Column, rows: list[Mapping[str, Any]]) -> pa.Array:
    return pa.array([row.get(column.name) for row in rows], ARROW_TYPES[column.type])
