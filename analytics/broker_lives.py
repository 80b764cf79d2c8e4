"""When a broker was up by the word of most NameServers that watched, and when it was not."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.broker_states import DOWN, MOVED, UP, lives
from analytics.intervals import levels
from analytics.job import Span

_BROKER: Final = ("cluster", "broker_name", "broker_id")


def runs(parts: DataFrame, span: Span) -> DataFrame:
    """Return each broker's times up and down in turn, from STATE_PARTS.

    Down: fewer than a majority of the NameServers whose word counts have it. While at least half of them know that its
    process has another broker id, it is neither. Columns: cluster, broker_name, broker_id,
    start_us, end_us, observed_us (without time in which nobody watched), up, planned (down, and it said good-bye to
    somebody), is_change (it was the other way before; false for the first run, whose beginning nobody saw).

    A broker exists from when most have it on, or one says that it is down: that others hear of a new one a moment
    later is no outage.
    """
    in_order = Window.partitionBy(*_BROKER).orderBy("start_us")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    judged = _judged(parts, span)
    turned = judged.withColumn("turned", (F.col("up") != F.lag("up").over(in_order)).cast("bigint"))
    numbered = turned.withColumn("run", F.coalesce(F.sum("turned").over(up_to_now), F.lit(0)))
    return (
        numbered.groupBy(*_BROKER, "run")
        .agg(
            F.min("start_us").alias("start_us"),
            F.max("end_us").alias("end_us"),
            F.sum(F.col("end_us") - F.col("start_us")).alias("observed_us"),
            F.max("up").alias("up"),
            F.max("planned").alias("planned"),
            (F.col("run") > 0).alias("is_change"),
        )
        .drop("run")
    )


def _judged(parts: DataFrame, span: Span) -> DataFrame:
    """Return pieces of time in which somebody's word counts, each up or down, from the broker's first on."""
    said = lives(parts, span)
    counted = said.select(
        *_BROKER,
        "start_us",
        "end_us",
        F.lit(1).cast("bigint").alias("servers"),
        (F.col("state") == UP).cast("bigint").alias("have"),
        (F.col("state") == MOVED).cast("bigint").alias("moved"),
        (F.col("state") == DOWN).cast("bigint").alias("miss"),
        ((F.col("state") == DOWN) & F.col("planned")).cast("bigint").alias("dismissed"),
    )
    in_order = Window.partitionBy(*_BROKER).orderBy("start_us")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    up = F.col("have") * 2 > F.col("servers") - F.col("moved")
    exists = F.max(up | (F.col("miss") > 0)).over(up_to_now)
    return (
        levels(counted, _BROKER, ["servers", "have", "moved", "miss", "dismissed"])
        .filter("servers > 0 AND moved * 2 < servers")
        .withColumns({"up": up, "planned": ~up & (F.col("dismissed") > 0), "exists": exists})
        .filter("exists")
    )
