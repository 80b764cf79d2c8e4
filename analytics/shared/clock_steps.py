"""Times of processes whose wall clock was set: all by the clock as it was set last.

Rows tell two times: the wall clock's, by which history is read, and the monotonic one's, which nobody sets. Where the
wall clock was set back, what happened after that seems to have happened before: a death before the registration.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: Columns that are of the wall clock of the server that wrote the row.
_WALL: Final = ("event_time", "last_heartbeat_time", "unobserved_from")


def by_last_clock(rows: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return rows of servers with the times of those processes mended whose clock was set, as `lifecycle` tells."""
    offset_us = F.from_json("detail", "offsetUs bigint")["offsetUs"]
    steps = lifecycle.filter("event_type = 'clock_set'").select("ns_id", "boot_id", "mono_us", offset_us.alias("by_us"))
    last = steps.groupBy("ns_id", "boot_id").agg(F.max_by("by_us", "mono_us").alias("_offset_us"))
    wrong_us = F.unix_micros("event_time") - F.col("mono_us") - F.col("_offset_us")
    mended: dict[str, Column] = {
        name: F.timestamp_micros(F.unix_micros(name) - F.coalesce("_wrong_us", F.lit(0)))
        for name in _WALL
        if name in rows.columns
    }
    told = rows.join(F.broadcast(last), ["ns_id", "boot_id"], "left").withColumn("_wrong_us", wrong_us)
    return told.withColumns(mended).select(*rows.columns)
