"""When servers stood still themselves: what they measured across such a time says nothing about brokers.

A process that was stopped, or whose machine was moved, hears all its brokers late at once. Its next tick tells of it.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from history.schemas import TICK_INTERVAL_MS, UNOBSERVED_AFTER_MS

#: A tick that tells of a standstill was due so much earlier at least: no shorter interval spans one.
_SHORTEST_MS: Final = UNOBSERVED_AFTER_MS - TICK_INTERVAL_MS


def without_standstills(
    rows: DataFrame, ticks: DataFrame, longest_ms: SparkColumn, since_us: SparkColumn, until_us: SparkColumn
) -> DataFrame:
    """Return the rows that tell of no time in which their own process stood still.

    `longest_ms` is the longest interval that a row tells of; `since_us` and `until_us` bound its time, by the
    monotonic clock. Standstills are few and sent to all; rows of short intervals are not compared with them at all.
    """
    stood_still = ticks.filter(F.col("interval_ms") > UNOBSERVED_AFTER_MS).select(
        F.xxhash64("boot_id").alias("_process"),
        (F.col("mono_us") - F.col("interval_ms") * 1000).alias("_from_us"),
        F.col("mono_us").alias("_to_us"),
    )
    process = F.when(longest_ms > _SHORTEST_MS, F.xxhash64("boot_id"))
    overlap = (process == F.col("_process")) & (since_us < F.col("_to_us")) & (until_us > F.col("_from_us"))
    return rows.join(F.broadcast(stood_still), overlap, "left_anti")
