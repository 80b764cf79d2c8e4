"""A7: which topics are altered again and again, by which brokers, and how often to and fro.

Each NameServer records each change, so the changes of a topic on a set are those of the NameServer that saw most of
them: of two that were away at different times each may have seen most of another set. Rows about many topics at
once count for no topic; they stand in a row of the cluster without one. What a NameServer first learns of a set right
after its start is no change, and neither is what it shows of how things stand.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import GRACE_US, of_name_servers
from analytics.shared.days import HOUR_US
from analytics.shared.heartbeats.gap_histogram import ended_in
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import sequence
from history.columns import Column, Type

#: A change back is a flip if it comes within that time; later it is a change of mind.
FLIP_WITHIN_US: Final = HOUR_US

CHURN_INPUTS: Final = ("route_change", "ns_lifecycle", "ns_tick")

_KINDS: Final = ("added", "removed", "queues", "perm")

#: Rows of changes; rows of a state are none.
_CHANGES: Final = ("topic_changed", "summary")
#: A server that has just started learns these from its brokers and from its store.
_LEARNED: Final = ("added", "mapping", "order")

_COUNTS: Final = ("changes", "flips", *_KINDS, "other", "fetches_max")

_COUNTED: Final = (
    Column("changes", Type.LONG, "changes of the topic on any set"),
    Column("flips", Type.LONG, "changes back to what was before the last one, within an hour of it"),
    Column("added", Type.LONG, "changes by which it came to a set"),
    Column("removed", Type.LONG, "by which it left one"),
    Column("queues", Type.LONG, "of its queues"),
    Column("perm", Type.LONG, "of its permissions"),
    Column("other", Type.LONG, "of its mapping or order"),
)

_FETCHES: Final = Column(
    "fetches_max", Type.LONG, "route queries that it brought at most: one for each change and open connection"
)

PARTS: Final = (
    Column("cluster", Type.STRING, "cluster of the brokers"),
    Column("topic", Type.STRING, "the topic; null: many at once"),
    Column("hour_us", Type.LONG, "beginning of the hour, Unix us"),
    Column("ns_id", Type.STRING, "the NameServer that saw it"),
    Column("broker_name", Type.STRING, "the set on which it changed"),
    *_COUNTED,
    _FETCHES,
)

COLUMNS: Final = (
    Column("topic", Type.STRING, "the topic; null: changes of many topics at once"),
    *_COUNTED,
    Column("brokers", Type.LONG, "sets on which it changed"),
    Column("busiest_hour", Type.TIMESTAMP, "the hour with most changes"),
    Column("busiest_hour_changes", Type.LONG, "how many those were"),
    _FETCHES,
)


def changes_by_hour(inputs: Inputs, span: Span) -> DataFrame:
    """Return the changes of each topic on each set in each hour, by the NameServer that saw them."""
    keys = ["cluster", "topic", "hour_us", "ns_id", "broker_name"]
    mine = of_name_servers(inputs, CHURN_INPUTS)
    changes = mine["route_change"].filter(F.col("event_type").isin(*_CHANGES))
    rows = _with_flips(_after_the_start(changes, mine["ns_lifecycle"])).filter(ended_in(span))
    other = (F.col("event_type") == "topic_changed") & ~F.coalesce(F.col("kind").isin(*_KINDS), F.lit(False))
    counted = (
        rows.withColumn("hour_us", _hour_us())
        .groupBy(*keys)
        .agg(
            F.sum("weight").alias("changes"),
            F.count_if("flip").alias("flips"),
            *(F.count_if(F.col("kind") == kind).alias(kind) for kind in _KINDS),
            F.count_if(other).alias("other"),
        )
    )
    fetches = F.round(F.col("changes") * F.coalesce("connections", F.lit(0.0)))
    with_clients = counted.join(F.broadcast(_connections(mine["ns_tick"], span)), ["ns_id", "hour_us"], "left")
    return with_clients.withColumn("fetches_max", fetches)


def route_churn(parts: DataFrame, _span: Span) -> DataFrame:
    """Return one row for each topic that changed."""
    place = Window.partitionBy("cluster", "topic", "broker_name")
    of_server = F.sum("changes").over(Window.partitionBy("cluster", "topic", "broker_name", "ns_id"))
    seen = parts.withColumn("seen", F.struct(of_server.alias("changes"), "ns_id"))
    counts = seen.withColumn("counts", F.col("seen") == F.max("seen").over(place))
    by_hour = counts.groupBy("cluster", "topic", "hour_us").agg(
        *(F.sum(F.when(F.col("counts"), F.col(name))).alias(name) for name in _COUNTS if name != _FETCHES.name),
        F.sum(_FETCHES.name).alias(_FETCHES.name),
        F.collect_set("broker_name").alias("broker_names"),
    )
    return by_hour.groupBy("cluster", "topic").agg(
        *(F.sum(name).alias(name) for name in _COUNTS),
        F.size(F.array_distinct(F.flatten(F.collect_list("broker_names")))).alias("brokers"),
        F.max("changes").alias("busiest_hour_changes"),
        F.timestamp_micros(F.max_by("hour_us", F.struct("changes", -F.col("hour_us")))).alias("busiest_hour"),
    )


def _with_flips(changes: DataFrame) -> DataFrame:
    """Add how many changes a row stands for, `weight`, and whether it is a flip.

    One topic that changes far more often than others makes one long partition of the window, no more than a sort.
    """
    place = Window.partitionBy("ns_id", "cluster", "broker_name", "topic").orderBy("event_time", "mono_us", "seq")
    before, after = (
        F.struct(*(F.col(f"{when}_{what}").alias(what) for what in ("read", "write", "perm")))
        for when in ("old", "new")
    )
    since_us = F.unix_micros("event_time") - F.unix_micros(F.lag("event_time").over(place))
    back = after.eqNullSafe(F.lag(before).over(place)) & ~after.eqNullSafe(before) & (since_us <= FLIP_WITHIN_US)
    return changes.withColumns(
        {
            "seq": sequence(),
            "weight": F.when(F.col("event_type") == "summary", F.coalesce("changes", F.lit(0))).otherwise(1),
        }
    ).withColumn("flip", F.col("topic").isNotNull() & F.coalesce(back, F.lit(False)))


def _after_the_start(changes: DataFrame, lifecycle: DataFrame) -> DataFrame:
    """Return changes without those of a server that had just started: the first registration of a set."""
    us = F.unix_micros("event_time")
    started = lifecycle.filter("event_type = 'started'").select("ns_id", us.alias("started_us"))
    first = (
        changes.join(F.broadcast(started), "ns_id", "inner")
        .filter((us - F.col("started_us")).between(0, GRACE_US))
        .groupBy("ns_id", "started_us", "broker_name")
        .agg(F.min_by(F.struct("cause_event_id"), F.struct("event_time", sequence())).alias("first"))
        .select(
            F.col("ns_id").alias("_ns_id"),
            F.col("started_us").alias("_started_us"),
            F.col("broker_name").alias("_broker_name"),
            F.col("first.cause_event_id").alias("_cause"),
        )
    )
    same = (
        (F.col("ns_id") == F.col("_ns_id"))
        & (us - F.col("_started_us")).between(0, GRACE_US)
        & F.col("broker_name").eqNullSafe(F.col("_broker_name"))
        & F.col("cause_event_id").eqNullSafe(F.col("_cause"))
    )
    learned = F.coalesce(F.col("kind").isin(*_LEARNED), F.lit(False)) | (F.col("event_type") == "summary")
    return changes.join(F.broadcast(first), same & learned, "left_anti")


def _connections(ticks: DataFrame, span: Span) -> DataFrame:
    """Return how many connections each server had in each hour, in the mean."""
    by_hour = ticks.filter(ended_in(span)).withColumn("hour_us", _hour_us()).groupBy("ns_id", "hour_us")
    return by_hour.agg(F.avg("connections").alias("connections"))


def _hour_us() -> SparkColumn:
    us = F.unix_micros("event_time")
    return us - us % HOUR_US


JOB: Final = Job(
    id="A7",
    name="route_churn",
    question="Which topics are altered again and again, by which brokers, and how often to and fro?",
    inputs=CHURN_INPUTS,
    parts_of=changes_by_hour,
    result_of=route_churn,
    part_columns=PARTS,
    columns=COLUMNS,
    order=("changes - added - removed DESC", "changes DESC"),
)
