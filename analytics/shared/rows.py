"""Rows of inputs, parts and results: which belong to a span, and which are of one kind.

Times are compared as Unix us, so that no time zone of a session can change a result.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.job import Span
from history.columns import Column, Type

CLUSTER: Final = Column("cluster", Type.STRING, "cluster of the broker")
KIND: Final = Column("kind", Type.STRING, "which of the kinds of rows it is")
BROKER_COLUMNS: Final = (
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id in its set"),
)


def timed(rows: DataFrame) -> DataFrame:
    """Return the rows with `at_us`, their event time in Unix us."""
    return rows.withColumn("at_us", F.unix_micros("event_time"))


def of_span(rows: DataFrame, span: Span) -> DataFrame:
    """Return the rows that happened within the span, with `at_us`."""
    return timed(rows).where((F.col("at_us") >= span.start_us) & (F.col("at_us") < span.end_us))


def of_namesrv() -> SparkColumn:
    """Return whether a NameServer wrote a row; those that do not say who did are of NameServers too."""
    return F.coalesce(F.col("source"), F.lit("namesrv")) == "namesrv"


def sequence() -> SparkColumn:
    """Return in which order a process wrote its rows."""
    return F.substring_index("event_id", "-", -1).cast("bigint")


def of_kind(rows: DataFrame, kind: str) -> DataFrame:
    """Return the rows of one kind, without the word for it."""
    return rows.where(F.col(KIND.name) == kind).drop(KIND.name)


#: Columns that are of the wall clock of the server that wrote the row.
_WALL: Final = ("event_time", "last_heartbeat_time", "unobserved_from")


def by_last_clock(rows: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return rows of servers with the times of those processes mended whose clock was set, by `lifecycle`."""
    offset_us = F.from_json("detail", "offsetUs bigint")["offsetUs"]
    steps = lifecycle.filter("event_type = 'clock_set'").select("ns_id", "boot_id", "mono_us", offset_us.alias("by_us"))
    last = steps.groupBy("ns_id", "boot_id").agg(F.max_by("by_us", "mono_us").alias("_offset_us"))
    wrong_us = F.unix_micros("event_time") - F.col("mono_us") - F.col("_offset_us")
    mended: dict[str, SparkColumn] = {
        name: F.timestamp_micros(F.unix_micros(name) - F.coalesce("_wrong_us", F.lit(0)))
        for name in _WALL
        if name in rows.columns
    }
    joined = rows.join(F.broadcast(last), ["ns_id", "boot_id"], "left").withColumn("_wrong_us", wrong_us)
    return joined.withColumns(mended).select(*rows.columns)
