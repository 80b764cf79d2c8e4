"""A8: whether the queues are spread evenly over the broker sets, and which of them should move.

Only queues that may be written count. A set whose write permission was wiped is being emptied: it neither counts nor
gets anything. A topic that may not be written somewhere else is in an operator's hands, and stays as it is.
"""

from collections.abc import Hashable, Iterator
from typing import Final

import pandas as pd  # type: ignore[import-untyped]  # its stubs are a package of their own
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import DAY_US
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.queues.layout import queues_now, routes_now, sets_now
from analytics.shared.queues.moves import RATIO_MAX, Placement, plan
from analytics.shared.queues.proposals import PROPOSAL_COLUMNS, groups_of_days, with_steps
from analytics.shared.queues.snapshots import QUEUE_INPUTS, QUEUE_PART_COLUMNS, loads_known, may_be_written, queue_parts
from analytics.shared.rows import of_kind, of_span
from analytics.spark.schemas import Frames
from history.columns import Column, Type

#: Topics of each cluster that are reported, the most uneven first.
TOPICS_MAX: Final = 100

#: Topics of each set that may move: those that bring it the most load.
MOVABLE_MAX: Final = 200

#: Load is counted in messages if the topics that were sampled hold so much of all queues; else in queues.
SAMPLED_MIN: Final = 0.5

PART_COLUMNS: Final = (
    *QUEUE_PART_COLUMNS,
    Column("samples", Type.LONG, "tps: samples"),
    Column("tps_sum", Type.DOUBLE, "tps: sum of their messages a second"),
    Column("groups", Type.STRINGS, "tps: consumer groups that were sampled"),
)

COLUMNS: Final = (
    Column("kind", Type.STRING, "broker: how full a writable set is; topic: how uneven; proposal: what to change"),
    Column("queues", Type.LONG, "broker, topic: queues that may be written, of all topics but those of the system"),
    Column("share", Type.DOUBLE, "broker: its part of the cluster's queues, 0 to 1"),
    Column("tps", Type.DOUBLE, "broker, topic: messages a second, where topics are sampled"),
    Column("tps_share", Type.DOUBLE, "broker: its part of the cluster's messages, 0 to 1"),
    Column("ratio", Type.DOUBLE, "broker: its queues as a multiple of the cluster's mean"),
    Column("max_mean", Type.DOUBLE, "broker: that of the fullest set of the cluster"),
    Column("cv", Type.DOUBLE, "broker: standard deviation of the sets' queues as a multiple of their mean"),
    Column("gini", Type.DOUBLE, "broker: Gini coefficient of the sets' queues; 0 if all have as many"),
    Column("spread", Type.LONG, "topic: most minus fewest write queues on a set"),
    Column("basis", Type.STRING, "proposal: what load was counted in, queues or tps"),
    *PROPOSAL_COLUMNS,
)

_MOVED: Final = {
    "cluster": "string",
    "topic": "string",
    "broker_name": "string",
    "change": "bigint",
    "position": "bigint",
}


def parts(inputs: Inputs, span: Span) -> Frames:
    """Return the last snapshot of each NameServer and day, what changed since, and the traffic of topics."""
    return {**queue_parts(inputs, span), "tps": _traffic(of_span(inputs["offset_sample"], span))}


def _traffic(samples: DataFrame) -> DataFrame:
    """Return samples, sum and groups of each topic and day; rows about a group repeat what the topic has."""
    day = F.floor(F.col("at_us") / DAY_US)
    tps = F.when(F.col("group").isNull(), F.col("tps"))
    return samples.groupBy("cluster", "topic", day.alias("day")).agg(
        F.count(tps).alias("samples"), F.sum(tps).alias("tps_sum"), F.collect_set("group").alias("groups")
    )


def result(parts: DataFrame, span: Span) -> Frames:  # noqa: ARG001 - what is there now counts, whatever the span
    """Return how full sets are, how uneven topics are, and what to move."""
    # All three are used several times: worked out once, they keep the plan short.
    routes = routes_now(parts).localCheckpoint()
    sets = sets_now(routes).where("writable > 0")
    queues = weighted(queues_now(routes, sets), of_kind(parts, "tps")).localCheckpoint()
    brokers = balance(loads(queues, sets)).localCheckpoint()
    proposals = with_steps(_proposed(queues, brokers, _days_full(loads_known(parts).where("writable > 0"), sets)))
    return {"broker": brokers, "topic": topic_spread(queues, brokers), "proposal": proposals}


def weighted(queues: DataFrame, traffic: DataFrame) -> DataFrame:
    """Return the queues with `queue_tps`, what each queue of the topic gets: producers go round all they may write."""
    means = traffic.groupBy("cluster", "topic").agg(
        F.try_divide(F.sum("tps_sum"), F.sum("samples")).alias("topic_tps"), groups_of_days().alias("groups")
    )
    of_topic = Window.partitionBy("cluster", "topic")
    return queues.join(means, ["cluster", "topic"], "left").withColumn(
        "queue_tps", F.try_divide("topic_tps", F.sum("written").over(of_topic))
    )


def loads(queues: DataFrame, sets: DataFrame) -> DataFrame:
    """Return the sets with their messages a second; null where nothing is sampled."""
    sums = queues.groupBy("cluster", "broker_name").agg(
        F.sum(F.col("written") * F.col("queue_tps")).alias("tps"),
        F.sum(F.when(F.col("queue_tps").isNotNull(), F.col("written"))).alias("sampled"),
    )
    return sets.join(sums, ["cluster", "broker_name"], "left")


def balance(loads: DataFrame) -> DataFrame:
    """Return the loads with shares and the measures of their cluster's imbalance."""
    cluster = Window.partitionBy("cluster")
    rank = F.row_number().over(cluster.orderBy("queues", "broker_name"))
    n, total = F.count(F.lit(1)).over(cluster), F.sum("queues").over(cluster)
    ranked_sum = F.sum(F.col("rank") * F.col("queues")).over(cluster)
    measured = loads.withColumn("rank", rank).select(
        "*",
        F.try_divide("queues", total).alias("share"),
        F.try_divide("tps", F.sum("tps").over(cluster)).alias("tps_share"),
        F.try_divide(F.col("queues") * n, total).alias("ratio"),
        F.try_divide(F.stddev_pop("queues").over(cluster), F.avg("queues").over(cluster)).alias("cv"),
        (F.try_divide(2 * ranked_sum, n * total) - (n + 1) / n).alias("gini"),
        F.try_divide(F.sum("sampled").over(cluster), total).alias("sampled_share"),
    )
    return measured.withColumn("max_mean", F.max("ratio").over(cluster))


def topic_spread(queues: DataFrame, brokers: DataFrame) -> DataFrame:
    """Return the topics of each cluster whose write queues are spread most unevenly over all of its sets."""
    sets = brokers.groupBy("cluster").agg(F.count(F.lit(1)).alias("sets"))
    held = queues.where("written > 0").groupBy("cluster", "topic")
    topics = held.agg(
        F.sum("written").alias("queues"),
        F.first("topic_tps").alias("tps"),
        F.max("written").alias("most"),
        F.min("written").alias("fewest"),
        F.count(F.lit(1)).alias("holders"),
    ).join(F.broadcast(sets), "cluster", "inner")
    fewest = F.when(F.col("holders") < F.col("sets"), 0).otherwise(F.col("fewest"))
    worst_first = Window.partitionBy("cluster").orderBy(F.desc("spread"), F.desc("queues"), "topic")
    uneven = topics.withColumn("spread", F.col("most") - fewest).where("spread > 0")
    return uneven.withColumn("nth", F.row_number().over(worst_first)).where(F.col("nth") <= TOPICS_MAX)


def _days_full(known: DataFrame, sets: DataFrame) -> DataFrame:
    """Return, of each set, on which part of the days it had more than RATIO_MAX of the mean.

    Each day counts with its last snapshot, the newest one as it is now.
    """
    day = F.floor(F.col("at_us") / DAY_US)
    of_day = Window.partitionBy("cluster", "broker_name", "day").orderBy(F.desc("at_us"), "ns_id", "snapshot_id")
    last = known.withColumn("day", day).withColumn("nth", F.row_number().over(of_day)).where("nth = 1")
    newest = F.max("day").over(Window.partitionBy("cluster"))
    before = last.withColumn("newest", newest).where("day < newest")
    columns = ["cluster", "broker_name", "day", "queues"]
    now = sets.withColumn("day", F.lit(None).cast("bigint"))
    daily = before.select(columns).unionByName(now.select(columns))
    mean = F.avg("queues").over(Window.partitionBy("cluster", "day"))
    full = daily.withColumn("full", (F.col("queues") > RATIO_MAX * mean).cast("double"))
    return full.groupBy("cluster", "broker_name").agg(F.avg("full").alias("days_full"))


def _proposed(queues: DataFrame, brokers: DataFrame, days_full: DataFrame) -> DataFrame:
    """Return the counts that even out each cluster whose fullest set has more than RATIO_MAX of the mean."""
    by_tps = F.coalesce(F.col("sampled_share"), F.lit(0.0)) >= SAMPLED_MIN
    measure = brokers.select(
        "cluster",
        "broker_name",
        "broker_addr",
        F.when(by_tps, "tps").otherwise("queues").alias("basis"),
        _rounded(F.coalesce(F.when(by_tps, F.col("tps")).otherwise(F.col("queues")), F.lit(0.0))).alias("load"),
        "sampled_share",
    )
    moved = (
        _movable(queues, measure)
        .groupBy("cluster")
        .applyInPandas(moved_counts, ", ".join(map(" ".join, _MOVED.items())))
    )
    known = queues.select("cluster", "topic", "broker_name", "read_now", "write_now", "perm", "topic_sys_flag")
    # Where a topic is new it may no more than everywhere else.
    settings = (
        queues.where("written > 0")
        .groupBy("cluster", "topic")
        .agg(
            F.bit_and("perm").alias("topic_perm"),
            F.bit_and("topic_sys_flag").alias("topic_flag"),
            F.first("groups").alias("groups"),
        )
    )
    everything = (
        moved.join(known, ["cluster", "topic", "broker_name"], "left")
        .join(settings, ["cluster", "topic"], "left")
        .join(F.broadcast(measure), ["cluster", "broker_name"], "inner")
        .join(F.broadcast(days_full), ["cluster", "broker_name"], "left")
    )
    return _counted(everything)


def _rounded(load: Expression) -> Expression:
    """Return a load as the plan takes it: sums differ in their last digits by the order of rows, a plan must not."""
    return F.round(load.cast("double"), 6)


def _movable(queues: DataFrame, measure: DataFrame) -> DataFrame:
    """Return a row per set with its load, and one per topic of it that may move, the heaviest only."""
    open_everywhere = F.bool_and(may_be_written(F.col("perm"))).over(Window.partitionBy("cluster", "topic"))
    weight = _rounded(F.when(F.col("basis") == "tps", F.coalesce("queue_tps", F.lit(0.0))).otherwise(1.0))
    held = (
        queues.drop("broker_addr")
        .join(F.broadcast(measure), ["cluster", "broker_name"], "inner")
        .withColumn("is_open", open_everywhere)
        .where(F.col("is_open") & ~F.col("is_fixed"))
        .select("cluster", "broker_name", "load", "topic", F.col("written").alias("queues"), weight.alias("weight"))
    )
    heaviest = Window.partitionBy("cluster", "broker_name").orderBy(
        F.desc(F.col("queues") * F.col("weight")), F.desc("queues"), "topic"
    )
    top = held.withColumn("nth", F.row_number().over(heaviest)).where(F.col("nth") <= MOVABLE_MAX).drop("nth")
    alone = measure.select(
        "cluster",
        "broker_name",
        "load",
        F.lit(None).cast("string").alias("topic"),
        F.lit(0).cast("bigint").alias("queues"),
        F.lit(0.0).alias("weight"),
    )
    return top.unionByName(alone)


def moved_counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return by how much each topic's write queues change on each set of one cluster, in the order of the plan."""
    topics = rows[rows["topic"].notna()]
    queues: dict[str, dict[str, int]] = {}
    for row in topics.itertuples():
        queues.setdefault(str(row.broker_name), {})[str(row.topic)] = int(row.queues)
    # A queue of a topic weighs the same wherever it lies.
    weights = {str(topic): float(weight) for topic, weight in topics.groupby("topic")["weight"].max().items()}
    loads = {str(name): float(load) for name, load in rows.groupby("broker_name")["load"].max().items()}
    changes: dict[tuple[str, str], int] = {}
    for move in plan(Placement(loads, queues, weights)):
        for name, change in ((move.target, 1), (move.source, -1)):
            changes[move.topic, name] = changes.get((move.topic, name), 0) + change
    return pd.DataFrame(_change_rows(rows["cluster"].iloc[0], changes), columns=list(_MOVED))


def _change_rows(cluster: str, changes: dict[tuple[str, str], int]) -> Iterator[tuple[Hashable, ...]]:
    """Yield the changes, topic by topic: all that grows before anything is taken away elsewhere."""
    topics = {topic: nth for nth, topic in enumerate(dict.fromkeys(topic for topic, _ in changes))}
    real = [(topic, name, change) for (topic, name), change in changes.items() if change]
    in_order = sorted(real, key=lambda each: (topics[each[0]], each[2] < 0))
    for position, (topic, name, change) in enumerate(in_order, start=1):
        yield cluster, topic, name, change, position


def _counted(moved: DataFrame) -> DataFrame:
    """Return the proposals: reads follow writes down, and make room for them where they go up."""
    write_now, read_now = F.coalesce("write_now", F.lit(0)), F.coalesce("read_now", F.lit(0))
    write = write_now + F.col("change")
    by_tps = F.col("basis") == "tps"
    days_full = F.max("days_full").over(Window.partitionBy("cluster"))
    return moved.withColumns(
        {
            "reason": _reason(),
            "confidence": F.when(by_tps, F.col("sampled_share")).otherwise(days_full),
            "read_now": read_now,
            "write_now": write_now,
            "read_proposed": F.when(F.col("change") < 0, write).otherwise(F.greatest(read_now, write)),
            "write_proposed": write,
            "perm": F.coalesce("perm", "topic_perm"),
            "topic_sys_flag": F.coalesce("topic_sys_flag", "topic_flag"),
        }
    )


def _reason() -> Expression:
    created = F.when((F.col("change") > 0) & F.col("write_now").isNull(), "; creates the topic there").otherwise("")
    unit = F.when(F.col("basis") == "tps", " messages a second").otherwise(" queues")
    full = F.when(F.col("change") < 0, "one of the fullest sets of the cluster: ").otherwise(
        "one of the emptiest sets of the cluster: "
    )
    return F.concat(full, F.format_number("load", 0), unit, created)


JOB: Final = Job(
    id="A8",
    name="queue_balance",
    question="Are the queues spread evenly over the broker sets, and which of them should move?",
    inputs=(*QUEUE_INPUTS, "offset_sample"),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    order=("kind = 'proposal' DESC", "position ASC NULLS LAST", "ratio DESC NULLS LAST", "spread DESC NULLS LAST"),
)
