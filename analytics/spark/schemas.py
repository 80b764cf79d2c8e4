"""Spark's view of `history.schemas`: the only place where its columns become Spark types."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as F

from history.columns import Column, RowFamily, Type

#: In rows read from JSON: the whole line, where it could not be read; null otherwise.
CORRUPT: Final = "_corrupt"

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


def in_columns(columns: Iterable[Column]) -> list[SparkColumn]:
    """Return what to select so that a table has exactly these columns, in this order and of these types."""
    return [F.col(column.name).cast(SPARK_TYPES[column.type]).alias(column.name) for column in columns]
