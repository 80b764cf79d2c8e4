"""A12: how much is left of what the servers live on, and for how long.

Each day counts with what it needed but for its busiest moments, if most of it was watched. The trend is the median of
the slopes between days (Theil and Sen's), so that some wild days do not bend it; with three weeks and more only days of
the same weekday are compared, so that a week's ups and downs do not either. How sure the trend is, is found by drawing
the days anew many times; the draws follow from a hash, so that the same days always give the same answer.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import DAY_US
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import CLUSTER, of_span
from history.columns import Column, Type

#: Resource -> where it ends; those without an end are only foretold.
LIMITS: Final[Mapping[str, float]] = MappingProxyType(
    {
        # The default quota of etcd.
        "etcd_db_bytes": 2 * 2**30,
        # The memory limit of the Helm chart.
        "resident_memory_bytes": 2**30,
        # connectionsMax as it is by default.
        "connections": 16_384,
    }
)

RESOURCES: Final = ("brokers", "topics", "queues", "resident_memory_bytes", "connections", "etcd_db_bytes")

#: A day with fewer ticks than so much of the fullest day's was cut: today so far, or the day of a start. Its busiest
#: hours may not have come.
TICKS_MIN: Final = 0.5

#: No more days than these are compared with each other, the newest.
DAYS_MAX: Final = 90

#: With fewer days there is no trend.
DAYS_MIN: Final = 4

#: From so many days on only like weekdays are compared.
SEASON_DAYS_MIN: Final = 21

#: The trend is carried on so far.
AHEAD_DAYS: Final = 30

#: How often the days are drawn anew.
DRAWS: Final = 200

PART_COLUMNS: Final = (
    CLUSTER,
    Column("source", Type.STRING, "namesrv or controller"),
    Column("ns_id", Type.STRING, "the server"),
    Column("day", Type.LONG, "days since 1970"),
    Column("resource", Type.STRING, "what it used"),
    Column("value", Type.DOUBLE, "of it, in 95 % of its ticks no more"),
    Column("ticks", Type.LONG, "ticks with a figure of it"),
)

COLUMNS: Final = (
    Column("source", Type.STRING, "namesrv or controller: of which servers"),
    Column("resource", Type.STRING, "brokers, topics, queues, resident_memory_bytes, connections or etcd_db_bytes"),
    Column("days", Type.LONG, "days that were compared: those with half of the ticks of the fullest one"),
    Column("now", Type.DOUBLE, "the newest day, on the server that used most"),
    Column("slope_day", Type.DOUBLE, "how much more a day brings; null with less than four days"),
    Column("slope_p10", Type.DOUBLE, "with a probability of 90 % it brings more than that"),
    Column("slope_p90", Type.DOUBLE, "with a probability of 90 % it brings less than that"),
    Column("in_30d", Type.DOUBLE, "in 30 days, if it goes on so"),
    Column("p10", Type.DOUBLE, "the same with slope_p10"),
    Column("p90", Type.DOUBLE, "the same with slope_p90"),
    Column(
        "limit",
        Type.DOUBLE,
        "where it ends: by `rmq-analytics run --limit`, or by default etcd's quota of 2 GiB, the memory limit "
        "of the Helm chart of 1 GiB, connectionsMax of 16,384; null if none is known",
    ),
    Column("days_left", Type.DOUBLE, "days until then; null if it does not surely grow, or without a limit"),
    Column("history_days", Type.LONGS, "the days that were compared, days since 1970"),
    Column("history", Type.LONGS, "what was used on each of them"),
)


def parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what each server used on each day."""
    source = F.coalesce(F.col("source"), F.lit("namesrv")).alias("source")
    day = F.floor(F.col("at_us") / DAY_US).alias("day")
    used = of_span(inputs["ns_tick"], span).select(
        source, "ns_id", day, *(F.col(name).cast("double").alias(name) for name in RESOURCES)
    )
    long = used.unpivot(["source", "ns_id", "day"], list(RESOURCES), "resource", "tick").where("tick IS NOT NULL")
    days = long.groupBy("source", "ns_id", "day", "resource").agg(
        F.percentile("tick", F.lit(0.95)).alias("value"), F.count(F.lit(1)).alias("ticks")
    )
    return days.withColumn(CLUSTER.name, F.lit(None))


def with_limits(limits: Mapping[str, float]) -> Job:
    """Return the analysis with these limits in place of the defaults of their resources."""
    return JOB._replace(result_of=partial(result, limits={**LIMITS, **limits}))


def result(
    parts: DataFrame,
    span: Span,  # noqa: ARG001 - the parts are those of the span
    limits: Mapping[str, float] = LIMITS,
) -> DataFrame:
    """Return one row per resource; `limits` are where they end."""
    series = daily_series(parts).localCheckpoint()
    trend = trends(series)
    whole = _levels(series, trend).join(trend, ["source", "resource"], "left")
    return _foretold(whole, limits).withColumn(CLUSTER.name, F.lit(None))


def daily_series(parts: DataFrame) -> DataFrame:
    """Return one value per resource and day: of the server that used most; the newest days only, and no cut ones."""
    fullest = F.max("ticks").over(Window.partitionBy("source", "resource"))
    watched = parts.withColumn("fullest", fullest).where(F.col("ticks") >= TICKS_MIN * F.col("fullest"))
    days = watched.groupBy("source", "resource", "day").agg(F.max("value").alias("value"))
    newest = F.max("day").over(Window.partitionBy("source", "resource"))
    return days.withColumn("newest", newest).where(F.col("day") > F.col("newest") - DAYS_MAX).drop("newest")


def trends(series: DataFrame) -> DataFrame:
    """Return the slope of each resource a day, and between which slopes it lies with a probability of 80 %."""
    pairs = _pairs(series)
    slopes = pairs.groupBy("source", "resource").agg(F.percentile("slope", F.lit(0.5)).alias("slope_day"))
    drawn = pairs.withColumn("draw", F.explode(F.sequence(F.lit(1), F.lit(DRAWS)))).withColumn(
        "weight", _drawn(F.col("draw"), F.col("day")) * _drawn(F.col("draw"), F.col("later_day"))
    )
    medians = (
        drawn.where("weight > 0")
        .groupBy("source", "resource", "draw")
        .agg(F.percentile("slope", F.lit(0.5), F.col("weight")).alias("slope"))
    )
    between = medians.groupBy("source", "resource").agg(
        F.percentile("slope", F.lit(0.1)).alias("slope_p10"), F.percentile("slope", F.lit(0.9)).alias("slope_p90")
    )
    return slopes.join(between, ["source", "resource"], "left")


def _pairs(series: DataFrame) -> DataFrame:
    """Return the slope between each two days that may be compared."""
    of_resource = Window.partitionBy("source", "resource")
    counted = series.withColumn("days", F.count(F.lit(1)).over(of_resource)).where(F.col("days") >= DAYS_MIN)
    later = counted.select("source", "resource", F.col("day").alias("later_day"), F.col("value").alias("later_value"))
    apart = F.col("later_day") - F.col("day")
    alike = (F.col("days") < SEASON_DAYS_MIN) | (apart % 7 == 0)
    return (
        counted.join(later, ["source", "resource"], "inner")
        .where((apart > 0) & alike)
        .withColumn("slope", (F.col("later_value") - F.col("value")) / apart)
    )


def _drawn(draw: Expression, day: Expression) -> Expression:
    """Return how often a day is drawn: a Poisson number of mean 1, from a hash."""
    even = F.pmod(F.xxhash64(draw, day), F.lit(1_000_000)) / 1e6
    number = F.lit(0)
    for below in (0.367879, 0.735759, 0.919699, 0.981012, 0.996340):
        number = number + F.when(even >= below, 1).otherwise(0)
    return number


def _levels(series: DataFrame, trend: DataFrame) -> DataFrame:
    """Return the newest value, and where the trend's line is on that day; `season` is what its weekday adds."""
    with_slope = series.join(trend.select("source", "resource", "slope_day"), ["source", "resource"], "left")
    of_resource = Window.partitionBy("source", "resource")
    newest = F.max("day").over(of_resource)
    seasonal = F.count(F.lit(1)).over(of_resource) >= SEASON_DAYS_MIN
    flat = with_slope.withColumns({"newest": newest, "seasonal": seasonal}).withColumn(
        "rest", F.col("value") - F.coalesce(F.col("slope_day"), F.lit(0.0)) * (F.col("day") - F.col("newest"))
    )
    # The day to foretell has a weekday too.
    like_target = F.pmod(F.col("newest") + AHEAD_DAYS - F.col("day"), F.lit(7)) == 0
    history = F.array_sort(F.collect_list(F.struct("day", F.round("value").cast("bigint").alias("value"))))
    return flat.groupBy("source", "resource").agg(
        F.count(F.lit(1)).alias("days"),
        F.max_by("value", "day").alias("now"),
        F.percentile("rest", F.lit(0.5)).alias("level"),
        F.percentile(F.when(F.col("seasonal") & like_target, F.col("rest")), F.lit(0.5)).alias("target_level"),
        history["day"].alias("history_days"),
        history["value"].alias("history"),
    )


def _foretold(whole: DataFrame, limits: Mapping[str, float]) -> DataFrame:
    by_resource = F.create_map(*(F.lit(each) for name, end in limits.items() for each in (name, float(end))))
    base = F.coalesce("target_level", "level")
    limit = F.try_element_at(by_resource, F.col("resource"))
    # Surely: even the lower bound of the slope points upwards.
    grows = (F.col("slope_p10") > 0) & (F.col("slope_day") > 0)
    left = F.greatest((limit - F.col("level")) / F.col("slope_day"), F.lit(0.0))
    return whole.withColumns(
        {
            "in_30d": base + AHEAD_DAYS * F.col("slope_day"),
            "p10": base + AHEAD_DAYS * F.col("slope_p10"),
            "p90": base + AHEAD_DAYS * F.col("slope_p90"),
            "limit": limit,
            "days_left": F.when(grows & limit.isNotNull(), left),
        }
    )


JOB: Final = Job(
    id="A12",
    name="capacity",
    question="How much is left of what the servers live on, and for how long?",
    inputs=("ns_tick",),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("days_left ASC NULLS LAST",),
)
