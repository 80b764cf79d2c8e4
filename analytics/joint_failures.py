"""A14: which brokers fail together, as if they shared a rack, a switch or a power line.

Two brokers are alike in the minutes in which they are down: the minutes in which both are, as a part of those in which
at least one of them is. A broker is down in a minute in which not more than half of the NameServers that were watching
had it all the time. Times after a good-bye were planned and count for nothing, and so do minutes in which very many
brokers are down at once.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Job, Span
from analytics.rows import CLUSTER, DAY_US, KIND, MINUTE_US, of_kind, of_kinds, of_span, shaped, timed
from history.schemas import Column, Type

#: Pairs that are less alike are left out.
JACCARD_MIN: Final = 0.1

#: So many pairs are told, the most alike first.
PAIRS_MAX: Final = 10_000

#: A broker that is down longer in a day says nothing by it, and would meet everybody.
DOWN_MINUTES_MAX: Final = 720

#: If more brokers are down in a minute, something larger than a rack has failed, and the pairs would be too many.
BROKERS_DOWN_MAX: Final = 500

_BROKER: Final = ("cluster", "broker_name", "broker_id")

_LEFT: Final = ("expired", "channel_closed", "unregistered")
#: After a failover a broker that was known all along holds id 0, so its row is no first registration.
_CAME: Final = ("registered_first", "changed", "address_changed", "role_changed")

PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("ns_id", Type.STRING, "the NameServer"),
    Column("broker_name", Type.STRING, "down: broker set"),
    Column("broker_id", Type.LONG, "down: broker id"),
    Column("day", Type.LONG, "days since 1970"),
    Column(
        "minutes", Type.LONGS, "minutes since 1970; watching: in which it ticked; down: in which it lacked the broker"
    ),
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
    """Return in which minutes each NameServer was watching, and in which it was without a broker."""
    ticks = of_span(inputs["ns_tick"], span).where("coalesce(source, 'namesrv') = 'namesrv'")
    watched = ticks.select("ns_id", F.floor(F.col("at_us") / MINUTE_US).alias("minute"))
    down = _down_minutes(_down_times(inputs["broker_state"], span), span)
    frames = {"watching": _by_day(watched, "ns_id"), "down": _by_day(down, "ns_id", *_BROKER)}
    return of_kinds(frames, PART_COLUMNS)


def _by_day(minutes: DataFrame, *key: str) -> DataFrame:
    day = F.floor(F.col("minute") * MINUTE_US / DAY_US).alias("day")
    return minutes.groupBy(*key, day).agg(F.array_sort(F.collect_set("minute")).alias("minutes"))


def _down_times(states: DataFrame, span: Span) -> DataFrame:
    """Return, by NameServer, from when to when a broker was down without having said good-bye, Unix us.

    A broker that was down when the span began is told of by its last event before it.
    """
    came, left = F.col("event_type").isin(*_CAME), F.col("event_type").isin(*_LEFT)
    events = timed(states).where((came | left) & F.col("broker_id").isNotNull() & (F.col("at_us") < span.end_us))
    by_broker = Window.partitionBy("ns_id", *_BROKER).orderBy("at_us", "event_id")
    silent_us = F.coalesce("silent_ms", F.lit(0)) * 1000
    heard_us = F.coalesce(F.unix_micros("last_heartbeat_time"), F.col("at_us") - silent_us)
    # That a broker is gone may turn out after midnight: the day that learns it tells of the minutes before too.
    known_before = F.col("at_us") < span.start_us
    times = events.withColumns(
        {
            "since_us": F.when(known_before, F.greatest(heard_us, F.lit(span.start_us))).otherwise(heard_us),
            "until_us": F.coalesce(F.lead("at_us").over(by_broker), F.lit(span.end_us)),
        }
    )
    return times.where(left & (F.col("event_type") != "unregistered") & (F.col("until_us") > span.start_us))


def _down_minutes(times: DataFrame, span: Span) -> DataFrame:
    """Return the minutes that these times touch."""
    first = F.floor(F.col("since_us") / MINUTE_US)
    last = F.floor((F.least("until_us", F.lit(span.end_us)) - 1) / MINUTE_US)
    touched = times.withColumns({"first": first, "last": last}).where("first <= last")
    return touched.select("ns_id", *_BROKER, F.explode(F.sequence("first", "last")).alias("minute"))


def result(parts: DataFrame, span: Span) -> DataFrame:  # noqa: ARG001 - what the parts tell of is the span
    """Return the pairs of brokers that are down together, the most alike first."""
    down = agreed(of_kind(parts, "down"), of_kind(parts, "watching")).localCheckpoint()
    sizes = down.groupBy("cluster", "broker").agg(F.count(F.lit(1)).alias("minutes"))
    of_a = sizes.select(*(F.col(name).alias(f"{name}_a") for name in ("cluster", "broker", "minutes")))
    of_b = sizes.select(*(F.col(name).alias(f"{name}_b") for name in ("cluster", "broker", "minutes")))
    joint = F.col("joint_minutes")
    alike = (
        _joint(down)
        .join(of_a, ["cluster_a", "broker_a"], "inner")
        .join(of_b, ["cluster_b", "broker_b"], "inner")
        .withColumn("jaccard", joint / (F.col("minutes_a") + F.col("minutes_b") - joint))
        .withColumn("cluster", F.col("cluster_a"))
    )
    best = alike.where(F.col("jaccard") >= JACCARD_MIN).orderBy(
        F.desc("jaccard"), F.desc(joint), "broker_a", "broker_b"
    )
    return shaped(best.limit(PAIRS_MAX), (CLUSTER, *COLUMNS))


def agreed(down: DataFrame, watching: DataFrame) -> DataFrame:
    """Return the minutes (`cluster`, `broker`, `minute`) in which a majority of those watching was without a broker."""
    watched = watching.select("ns_id", F.explode("minutes").alias("minute")).distinct()
    watchers = watched.groupBy("minute").agg(F.count(F.lit(1)).alias("watchers"))
    minutes = (
        down.select("ns_id", *_BROKER, F.explode("minutes").alias("minute"))
        .join(watched, ["ns_id", "minute"], "left_semi")
        .groupBy(*_BROKER, "minute")
        .agg(F.count_distinct("ns_id").alias("without"))
        .join(watchers, "minute", "inner")
        .where(F.col("without") * 2 >= F.col("watchers"))
        .withColumn("day", F.floor(F.col("minute") * MINUTE_US / DAY_US))
    )
    of_day = F.count(F.lit(1)).over(Window.partitionBy(*_BROKER, "day"))
    brief = minutes.withColumn("of_day", of_day).where(F.col("of_day") <= DOWN_MINUTES_MAX)
    of_minute = F.count(F.lit(1)).over(Window.partitionBy("minute"))
    few = brief.withColumn("of_minute", of_minute).where(F.col("of_minute") <= BROKERS_DOWN_MAX)
    broker = F.concat_ws(":", "broker_name", F.col("broker_id").cast("string")).alias("broker")
    return few.select("cluster", broker, "minute")


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
    order=("jaccard DESC", "joint_minutes DESC"),
)
