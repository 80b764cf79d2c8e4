"""When a broker was up by the word of most NameServers that watched, and when it was not."""

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, GroupedData, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import BROKER, actual_states
from analytics.shared.intervals import levels
from analytics.shared.job import Span
from analytics.shared.state_points import DOWN, MOVED, UP


def runs(parts: DataFrame, span: Span) -> DataFrame:
    """Return each broker's times up and down in turn, from STATE_PARTS.

    Down: fewer than a majority of the NameServers whose word counts have it. While at least half of them know that its
    process has another broker id, it is neither. Columns: cluster, broker_name, broker_id,
    start_us, end_us, observed_us (without time in which nobody watched), sure_us (of it, without what a broker that was
    silent may have lived until it was given up), up, planned (down, and it unregistered to somebody), is_change (it
    was the other way before; false for the first run, whose beginning nobody saw).

    A broker exists from when most have it on, or one says that it is down: that a new one registers with others a
    moment later is no outage.
    """
    length_us = F.col("end_us") - F.col("start_us")
    return _numbered(parts, span).agg(
        *_sums(),
        F.sum(length_us).alias("observed_us"),
        F.sum(F.when(F.col("sure"), length_us).otherwise(0)).alias("sure_us"),
        (F.col("run") > 0).alias("is_change"),
    )


def times_down(parts: DataFrame, span: Span) -> DataFrame:
    """Return the pieces of time that brokers were down in without having unregistered, as far as they were watched.

    Columns: cluster, broker_name, broker_id, start_us, end_us.
    """
    piece = F.struct("start_us", "end_us")
    down = _numbered(parts, span).agg(*_sums(), F.collect_list(piece).alias("pieces")).filter("NOT up AND NOT planned")
    return down.select(*BROKER, F.inline("pieces"))


def _sums() -> list[SparkColumn]:
    return [
        F.min("start_us").alias("start_us"),
        F.max("end_us").alias("end_us"),
        F.max("up").alias("up"),
        F.max("planned").alias("planned"),
    ]


def _numbered(parts: DataFrame, span: Span) -> GroupedData:
    """Return the pieces of `_judged` by broker and run."""
    in_order = Window.partitionBy(*BROKER).orderBy("start_us")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    turned = (F.col("up") != F.lag("up").over(in_order)).cast("bigint")
    run = F.coalesce(F.sum("turned").over(up_to_now), F.lit(0))
    return _judged(parts, span).withColumn("turned", turned).withColumn("run", run).groupBy(*BROKER, "run")


def _judged(parts: DataFrame, span: Span) -> DataFrame:
    """Return pieces of time in which somebody's word counts, each up or down, from the broker's first on."""
    states = actual_states(parts, span)
    # Cut where it expires: before that it may have lived.
    cut_us = F.greatest("start_us", F.least("end_us", "sure_us"))
    halves = F.array(
        F.struct(F.col("start_us").alias("from_us"), cut_us.alias("to_us"), F.lit(1).cast("bigint").alias("doubt")),
        F.struct(cut_us.alias("from_us"), F.col("end_us").alias("to_us"), F.lit(0).cast("bigint").alias("doubt")),
    )
    counted = (
        states.select(*BROKER, "state", "planned", F.inline(halves))
        .filter("from_us < to_us")
        .select(
            *BROKER,
            F.col("from_us").alias("start_us"),
            F.col("to_us").alias("end_us"),
            "doubt",
            F.lit(1).cast("bigint").alias("servers"),
            (F.col("state") == UP).cast("bigint").alias("have"),
            (F.col("state") == MOVED).cast("bigint").alias("moved"),
            (F.col("state") == DOWN).cast("bigint").alias("miss"),
            ((F.col("state") == DOWN) & F.col("planned")).cast("bigint").alias("dismissed"),
        )
    )
    in_order = Window.partitionBy(*BROKER).orderBy("start_us")
    up_to_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    up = F.col("have") * 2 > F.col("servers") - F.col("moved")
    sure = (F.col("have") + F.col("doubt")) * 2 <= F.col("servers") - F.col("moved")
    exists = F.max(up | (F.col("miss") > 0)).over(up_to_now)
    return (
        levels(counted, BROKER, ["servers", "have", "moved", "miss", "dismissed", "doubt"])
        .filter("servers > 0 AND moved * 2 < servers")
        .withColumns({"up": up, "planned": ~up & (F.col("dismissed") > 0), "sure": sure, "exists": exists})
        .filter("exists")
    )
