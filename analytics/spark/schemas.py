"""Spark's view of `history.schemas`: the only place where its columns become Spark types."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as F

from history.columns import Column, RowFamily, Type

#: In rows read from JSON: the whole line, where it could not be read; null otherwise.
CORRUPT: Final = "_corrupt"

#: A table, or some by the kind of their rows.
Frames = DataFrame | Mapping[str, DataFrame]

SPARK_TYPES: Final[Mapping[Type, types.DataType]] = MappingProxyType(
    {
        Type.STRING: types.StringType(),
        Type.LONG: types.LongType(),
        Type.DOUBLE: types.DoubleType(),
        Type.BOOLEAN: types.BooleanType(),
        Type.TIMESTAMP: types.TimestampType(),
        Type.LONGS: types.ArrayType(types.LongType()),
        Type.DOUBLES: types.ArrayType(types.DoubleType()),
        Type.STRINGS: types.ArrayType(types.StringType()),
    }
)


def struct_of(columns: Iterable[Column]) -> types.StructType:
    """Return the Spark schema of columns, in their order; each may be null."""
    return types.StructType([types.StructField(column.name, SPARK_TYPES[column.type]) for column in columns])


def row_schema(family: RowFamily) -> types.StructType:
    """Return the schema of a family's rows as they are stored and as analyses get them."""
    return struct_of(family.all_columns)


def line_schema(family: RowFamily) -> types.StructType:
    """Return the schema to read a family's lines of JSON with: its rows, and the line where it cannot be read."""
    return row_schema(family).add(CORRUPT, types.StringType())


def no_rows(spark: SparkSession, schema: types.StructType) -> DataFrame:
    """Return an empty table that Spark knows to be empty, so that nothing is planned or run for it."""
    return spark.range(1).where("false").select([F.lit(None).cast(each.dataType).alias(each.name) for each in schema])


def shaped(found: Frames, columns: Sequence[Column]) -> DataFrame:
    """Return exactly these columns, in their order and types; raises AnalysisException for one that is not there.

    Tables by kind become one: `kind` distinguishes their rows, and columns that one of them lacks are null.
    """
    if isinstance(found, DataFrame):
        return found.select(
            *(F.col(column.name).cast(SPARK_TYPES[column.type]).alias(column.name) for column in columns)
        )
    tables = []
    for kind, frame in found.items():
        lacking = {column.name: F.lit(None) for column in columns if column.name not in frame.columns}
        tables.append(shaped(frame.withColumns({**lacking, "kind": F.lit(kind)}), columns))
    return reduce(DataFrame.unionByName, tables)


def united(tables: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all tables; columns that one lacks are null."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)
