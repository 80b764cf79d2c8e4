"""From lines of JSON to rows of the history: which lines can be read, each event once, in a good order. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.spark.schemas import CORRUPT, row_schema
from history.columns import RowFamily

#: Partition columns of landing, in the order of its folders.
HOUR: Final = ("date", "hour")

#: Longer unreadable lines are cut for showing.
CORRUPT_LINE_CHARS: Final = 1000

#: In this order Parquet is small, and a reader of one broker reads little.
SORTED_BY: Final = ("broker_name", "broker_id", "ns_id", "event_time", "event_id")


def is_unreadable() -> Column:
    """Find lines that are torn or are no events; a row without its id could be counted twice, unnoticed."""
    return F.col(CORRUPT).isNotNull() | F.col("event_id").isNull() | F.col("event_time").isNull()


def events(lines: DataFrame, family: RowFamily) -> DataFrame:
    """Return the rows of the lines that can be read, with their partition columns."""
    return lines.where(~is_unreadable()).select(*HOUR, *row_schema(family).fieldNames())


def once(rows: DataFrame, pieces: int) -> DataFrame:
    """Return each event of an hour once, however many files bring it, sorted within each of an hour's pieces."""
    piece = F.pmod(F.xxhash64("event_id"), F.lit(pieces))
    # One shuffle for all of it: who has the same hour and piece is together, so duplicates are too.
    together = rows.withColumn("_piece", piece).repartition(*HOUR, "_piece")
    same_event = Window.partitionBy(*HOUR, "_piece", "event_id").orderBy("event_time")
    first = together.withColumn("_copy", F.row_number().over(same_event)).where("_copy = 1")
    return first.drop("_piece", "_copy").sortWithinPartitions(*HOUR, *SORTED_BY)


def not_in(rows: DataFrame, known_ids: DataFrame) -> DataFrame:
    """Return the rows whose events are not among the known ones."""
    return rows.join(known_ids, on="event_id", how="left_anti").select(*rows.columns)


def unreadable(lines: DataFrame, family: RowFamily, kept: int) -> DataFrame:
    """Return the first lines of each hour that cannot be read, and their number: `date, hour, file, line, count`."""
    # All columns are named, so that all are parsed: Spark finds no fault with a column that nobody reads.
    as_read = F.to_json(F.struct(*row_schema(family).fieldNames()))
    line = F.substring(F.coalesce(F.col(CORRUPT), as_read), 1, CORRUPT_LINE_CHARS)
    bad = lines.where(is_unreadable()).select(*HOUR, "file", line.alias("line"))
    of_hour = Window.partitionBy(*HOUR)
    numbered = bad.withColumn("count", F.count(F.lit(1)).over(of_hour)).withColumn(
        "_number", F.row_number().over(of_hour.orderBy("file", "line"))
    )
    return numbered.where(F.col("_number") <= kept).select(*HOUR, "file", "line", "count")


def hour_facts(rows: DataFrame) -> DataFrame:
    """Return how many rows each hour has, and what changes with them: `date, hour, rows, digest`."""
    return rows.groupBy(*HOUR).agg(F.count(F.lit(1)).alias("rows"), F.bit_xor(F.xxhash64("event_id")).alias("digest"))
