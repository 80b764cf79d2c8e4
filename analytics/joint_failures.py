"""A14: which brokers fail together, as if they shared a rack, a switch or a power line.

Two brokers are alike in the minutes in which they are down: the minutes in which both are, as a part of those in which
at least one of them is. A broker is down in a minute in which not more than half of the NameServers that were watching
had it all the time. Times after a good-bye were planned and count for nothing.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Job, Span
from analytics.rows import CLUSTER, DAY_US, MINUTE_US, of_span, shaped, timed
from history.schemas import Column, Type

#: Pairs that are less alike are left out.
JACCARD_MIN: Final = 0.1

#: So many pairs are told, the most alike first.
PAIRS_MAX: Final = 10_000

#: A broker that is down longer in a day says nothing by it, and would meet everybody.
DOWN_MINUTES_MAX: Final = 720

_LEFT: Final = ("expired", "channel_closed", "unregistered")
_CAME: Final = ("registered_first",)

PART_COLUMNS: Final = (
    CLUSTER,
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id"),
    Column("day", Type.LONG, "days since 1970"),
    Column("minutes", Type.LONGS, "minutes of that day in which it was down, in minutes since 1970"),
)

COLUMNS: Final = (
    Column("broker_a", Type.STRING, "one broker: <broker set>:<broker id>"),
    Column("broker_b", Type.STRING, "the other one"),
    Column("cluster_b", Type.STRING, "its cluster"),
    Column("jaccard", Type.DOUBLE, "0: never down together, 1: always"),
    Column("joint_minutes", Type.LONG, "minutes in which both were down"),
    Column("joint_outages", Type.LONG, "how many times that was; with one it may be chance"),
    Column("minutes_a", Type.LONG, "minutes in which the one was down"),
    Column("minutes_b", Type.LONG, "minutes in which the other was"),
)


def parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return in which minutes of each day each broker was down."""
    down = _down_minutes(_down_times(inputs["broker_state"], span), span)
    ticks = of_span(inputs["ns_tick"], span).where("coalesce(source, 'namesrv') = 'namesrv'")
    watched = ticks.select("ns_id", F.floor(F.col("at_us") / MINUTE_US).alias("minute")).distinct()
    watchers = watched.groupBy("minute").agg(F.count(F.lit(1)).alias("watchers"))
    agreed = (
        down.join(F.broadcast(watched), ["ns_id", "minute"], "left_semi")
        .groupBy("cluster", "broker_name", "broker_id", "minute")
        .agg(F.count_distinct("ns_id").alias("without"))
        .join(F.broadcast(watchers), "minute", "inner")
        .where(F.col("without") * 2 >= F.col("watchers"))
    )
    day = F.floor(F.col("minute") * MINUTE_US / DAY_US).alias("day")
    daily = agreed.groupBy("cluster", "broker_name", "broker_id", day)
    return shaped(daily.agg(F.array_sort(F.collect_list("minute")).alias("minutes")), PART_COLUMNS)


def _down_times(states: DataFrame, span: Span) -> DataFrame:
    """Return, by NameServer, from when to when a broker was down without having said good-bye, Unix us.

    A broker that was down when the span began is told of by its last event before it.
    """
    came, left = F.col("event_type").isin(*_CAME), F.col("event_type").isin(*_LEFT)
    events = timed(states).where((came | left) & F.col("broker_id").isNotNull() & (F.col("at_us") < span.end_us))
    by_broker = Window.partitionBy("ns_id", "cluster", "broker_name", "broker_id").orderBy("at_us", "event_id")
    heard_us = F.coalesce(
        F.unix_micros("last_heartbeat_time"), F.col("at_us") - F.coalesce("silent_ms", F.lit(0)) * 1000
    )
    times = events.withColumns(
        {"since_us": heard_us, "until_us": F.coalesce(F.lead("at_us").over(by_broker), F.lit(span.end_us))}
    )
    return times.where(left & (F.col("event_type") != "unregistered") & (F.col("until_us") > span.start_us))


def _down_minutes(times: DataFrame, span: Span) -> DataFrame:
    """Return the minutes of the span that these times touch."""
    first = F.floor(F.greatest("since_us", F.lit(span.start_us)) / MINUTE_US)
    last = F.floor((F.least("until_us", F.lit(span.end_us)) - 1) / MINUTE_US)
    touched = times.withColumns({"first": first, "last": last}).where("first <= last")
    return touched.select(
        "ns_id", "cluster", "broker_name", "broker_id", F.explode(F.sequence("first", "last")).alias("minute")
    )


def result(parts: DataFrame, span: Span) -> DataFrame:  # noqa: ARG001 - what the parts tell of is the span
    """Return the pairs of brokers that are down together, the most alike first."""
    brief = parts.where(F.size("minutes") <= DOWN_MINUTES_MAX)
    down = brief.select(
        "cluster",
        F.concat_ws(":", "broker_name", F.col("broker_id").cast("string")).alias("broker"),
        F.explode("minutes").alias("minute"),
    ).localCheckpoint()
    both = _joint(down)
    sizes = down.groupBy("cluster", "broker").agg(F.count(F.lit(1)).alias("minutes"))
    of_a = sizes.select(*(F.col(name).alias(f"{name}_a") for name in ("cluster", "broker", "minutes")))
    of_b = sizes.select(*(F.col(name).alias(f"{name}_b") for name in ("cluster", "broker", "minutes")))
    joint = F.col("joint_minutes")
    alike = (
        both.join(of_a, ["cluster_a", "broker_a"], "inner")
        .join(of_b, ["cluster_b", "broker_b"], "inner")
        .withColumn("jaccard", joint / (F.col("minutes_a") + F.col("minutes_b") - joint))
        .withColumn("cluster", F.col("cluster_a"))
    )
    best = alike.where(F.col("jaccard") >= JACCARD_MIN).orderBy(
        F.desc("jaccard"), F.desc(joint), "broker_a", "broker_b"
    )
    return shaped(best.limit(PAIRS_MAX), (CLUSTER, *COLUMNS))


def _joint(down: DataFrame) -> DataFrame:
    """Return the minutes, and the runs of minutes, that each two brokers share."""
    a = down.select(F.col("cluster").alias("cluster_a"), F.col("broker").alias("broker_a"), "minute")
    b = down.select(F.col("cluster").alias("cluster_b"), F.col("broker").alias("broker_b"), "minute")
    pair = ["cluster_a", "broker_a", "cluster_b", "broker_b"]
    before = F.struct("cluster_a", "broker_a") < F.struct("cluster_b", "broker_b")
    shared = a.join(b, "minute", "inner").where(before)
    gap = F.col("minute") - F.lag("minute").over(Window.partitionBy(*pair).orderBy("minute"))
    begins = shared.withColumn("begins", F.coalesce(gap, F.lit(2)) > 1)
    return begins.groupBy(*pair).agg(
        F.count(F.lit(1)).alias("joint_minutes"), F.count_if("begins").alias("joint_outages")
    )


JOB: Final = Job(
    id="A14",
    name="joint_failures",
    question="Which brokers fail together, as if they shared a rack, a switch or a power line?",
    inputs=("broker_state", "ns_tick"),
    parts=parts,
    result=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
)
