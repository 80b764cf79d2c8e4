"""Which queues are where, as the NameServers' snapshots of their routes tell: the parts of a day, and the present.

The parts keep a snapshot's rows folded as they were recorded, so that a month of them stays small. A store may hold
several clusters, known to NameServers of their own: each cluster has its own present.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Span
from analytics.rows import CLUSTER, DAY_US, HOUR_US, KIND, of_kind, of_span
from history.schemas import Column, Type

#: Snapshots so much older than the newest one are not the present any more: without changes there is one a day.
PRESENT_US: Final = 25 * HOUR_US

#: A NameServer that knows fewer of a cluster's sets than so much of what another one knows has just started.
SETS_KNOWN_MIN: Final = 0.9

#: The permission bit of writing.
WRITE: Final = 2

# As namesrv/tables/topic_census.py has them: topics that nobody scales.
_SYSTEM_TOPICS: Final = (
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "CHECKPOINT_TOPIC",
)

# After these the address is no longer the master's.
_LEAVING: Final = ("unregistered", "expired", "channel_closed", "conflict")

#: Kinds `queues` (topics alike on sets that are alike), `load` (one set), `set` (its cluster and master) and `fixed`
#: (a topic whose queues are not to be moved).
QUEUE_PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("ns_id", Type.STRING, "NameServer whose snapshot it is"),
    Column("snapshot_id", Type.STRING, "the snapshot"),
    Column("at_us", Type.LONG, "when the snapshot was finished, or the set was seen so, Unix us"),
    Column("broker_names", Type.STRINGS, "queues: the sets"),
    Column("topics", Type.STRINGS, "queues: the topics, but for those of the system"),
    Column("read", Type.LONG, "queues: read queues of each topic on each set"),
    Column("write", Type.LONG, "queues: write queues"),
    Column("perm", Type.LONG, "queues: permission bits"),
    Column("topic_sys_flag", Type.LONG, "queues: system flag"),
    Column("broker_name", Type.STRING, "load, set: the set"),
    Column("queues", Type.LONG, "load: its queues that may be written, of all topics but those of the system"),
    Column("writable", Type.LONG, "load: the same of all topics; 0 if the set's write permission was wiped"),
    Column("broker_addr", Type.STRING, "set: address of its master"),
    Column("topic", Type.STRING, "fixed, and kinds of the analyses' own: the topic"),
    Column("is_fixed", Type.BOOLEAN, "fixed: it has an order configuration, or is static"),
)


def is_scalable(topic: Expression) -> Expression:
    """Return whether a topic is an ordinary one: neither the system's, nor a group's for retries or dead letters."""
    system = topic.isin(*_SYSTEM_TOPICS) | topic.startswith("rmq_sys_")
    return ~(system | topic.startswith("%RETRY%") | topic.startswith("%DLQ%"))


def queue_parts(inputs: Inputs, span: Span) -> dict[str, DataFrame]:
    """Return the kinds of rows of QUEUE_PART_COLUMNS: of each NameServer and day its last whole snapshot."""
    rows = _rows_of_last_snapshots(inputs["route_snapshot"], span)
    written = written_queues(F.col("write"), F.col("perm"))
    counted = rows.withColumn("all_topics", F.size("topics")).withColumn("topics", F.filter("topics", is_scalable))
    return {
        "queues": counted.where(F.size("topics") > 0),
        "load": counted.withColumn("broker_name", F.explode("broker_names"))
        .groupBy("ns_id", "snapshot_id", "at_us", "broker_name")
        .agg(
            F.sum(F.size("topics") * written).alias("queues"),
            F.sum(F.col("all_topics") * written).alias("writable"),
        ),
        "set": _sets_of_days(_around(inputs["broker_state"], span)),
        "fixed": _fixed_of_days(_around(inputs["route_change"], span)),
    }


def written_queues(write: Expression, perm: Expression) -> Expression:
    """Return how many queues may be written: none where the permission was taken away."""
    return F.when(may_be_written(perm), F.coalesce(write, F.lit(0))).otherwise(0)


def may_be_written(perm: Expression) -> Expression:
    """Return whether permission bits let producers in."""
    return F.coalesce(perm, F.lit(0)).bitwiseAND(WRITE) != 0


def _around(rows: DataFrame, span: Span) -> DataFrame:
    """Return the rows of a span and of the hour before it.

    A snapshot that ended just after midnight told before it how the sets stand, and which topics are fixed.
    """
    return of_span(rows, Span(span.start_us - HOUR_US, span.end_us))


def _fixed_of_days(changes: DataFrame) -> DataFrame:
    """Return, of each topic and day, whether it has an order or a mapping; each snapshot tells all of them again."""
    last = F.struct("at_us", "event_id")
    day = F.floor(F.col("at_us") / DAY_US).alias("day")
    told = changes.where(F.col("kind").isin("order", "mapping") & F.col("topic").isNotNull())
    # A topic loses its order configuration by a row without one.
    each = told.groupBy("ns_id", "topic", "kind", day).agg(
        F.max("at_us").alias("at_us"), F.max_by(F.col("detail").isNotNull(), last).alias("is_fixed")
    )
    return (
        each.groupBy("ns_id", "topic", "day")
        .agg(F.max("at_us").alias("at_us"), F.bool_or("is_fixed").alias("is_fixed"))
        .drop("day")
    )


def _rows_of_last_snapshots(snapshots: DataFrame, span: Span) -> DataFrame:
    rows = snapshots.where((F.col("event_type") == "queues") & (F.col("scope") == "all"))
    counts = rows.groupBy("ns_id", "snapshot_id").agg(F.count(F.lit(1)).alias("found"))
    whole = (
        of_span(snapshots, span)
        .where(F.col("event_type") == "finished")
        .join(counts, ["ns_id", "snapshot_id"], "inner")
        # Rows that were lost on their way make a snapshot one of nothing.
        .where(F.col("found") >= F.col("rows"))
    )
    newest_first = Window.partitionBy("ns_id", F.floor(F.col("at_us") / DAY_US)).orderBy(
        F.desc("at_us"), F.desc("snapshot_id")
    )
    last = whole.withColumn("nth", F.row_number().over(newest_first)).where("nth = 1")
    return rows.join(last.select("ns_id", "snapshot_id", "at_us"), ["ns_id", "snapshot_id"], "inner")


def _sets_of_days(states: DataFrame) -> DataFrame:
    """Return, of each NameServer, set and day, cluster and master's address as they were seen last."""
    in_set = F.arrays_zip("set_ids", "set_addrs")
    master = F.get(F.filter(in_set, lambda member: member["set_ids"] == 0), F.lit(0))
    own_address = F.when((F.col("broker_id") == 0) & ~F.col("event_type").isin(*_LEAVING), F.col("broker_addr"))
    seen = states.where(F.col("broker_name").isNotNull()).select(
        "ns_id",
        "broker_name",
        "at_us",
        "event_id",
        F.coalesce(F.col("cluster"), F.get("set_clusters", F.lit(0))).alias("cluster"),
        F.coalesce(master["set_addrs"], own_address).alias("broker_addr"),
    )
    last = F.struct("at_us", "event_id")
    return seen.groupBy("ns_id", "broker_name", F.floor(F.col("at_us") / DAY_US).alias("day")).agg(
        F.max("at_us").alias("at_us"),
        F.max_by("cluster", F.when(F.col("cluster").isNotNull(), last)).alias("cluster"),
        F.max_by("broker_addr", F.when(F.col("broker_addr").isNotNull(), last)).alias("broker_addr"),
    )


def sets_known(parts: DataFrame) -> DataFrame:
    """Return cluster and master's address of each set, as each NameServer saw them last."""
    seen = of_kind(parts, "set")
    return seen.groupBy("ns_id", "broker_name").agg(
        F.max_by("cluster", F.when(F.col("cluster").isNotNull(), F.col("at_us"))).alias("cluster"),
        F.max_by("broker_addr", F.when(F.col("broker_addr").isNotNull(), F.col("at_us"))).alias("broker_addr"),
    )


def loads_known(parts: DataFrame) -> DataFrame:
    """Return how full each set was in each snapshot, with its cluster and the master's address."""
    loads = of_kind(parts, "load").select("ns_id", "snapshot_id", "at_us", "broker_name", "queues", "writable")
    return loads.join(sets_known(parts), ["ns_id", "broker_name"], "inner").where(F.col("cluster").isNotNull())


def sets_now(loads: DataFrame) -> DataFrame:
    """Return the sets of each cluster's present, of `loads_known`.

    The present is the newest snapshot. Of each NameServer only its newest one counts, since an older one has sets that
    are gone; and not that of a NameServer that has just started and knows few sets.
    """
    newest = Window.partitionBy("ns_id").orderBy(F.desc("at_us"), F.desc("snapshot_id"))
    last = loads.withColumn("nth", F.dense_rank().over(newest)).where("nth = 1").drop("nth")
    of_snapshot, of_cluster = Window.partitionBy("cluster", "ns_id"), Window.partitionBy("cluster")
    recent = (
        last.withColumn("sets", F.count(F.lit(1)).over(of_snapshot))
        .withColumn("newest_us", F.max("at_us").over(of_cluster))
        .where(F.col("at_us") > F.col("newest_us") - PRESENT_US)
    )
    knowing = recent.withColumn("most", F.max("sets").over(of_cluster)).where(
        F.col("sets") >= SETS_KNOWN_MIN * F.col("most")
    )
    best = of_cluster.orderBy(F.desc("at_us"), "ns_id")
    columns = ("cluster", "ns_id", "snapshot_id", "broker_name", "broker_addr", "queues", "writable")
    return knowing.withColumn("nth", F.dense_rank().over(best)).where("nth = 1").select(*columns)


def queues_now(parts: DataFrame, sets: DataFrame) -> DataFrame:
    """Return one row per topic and set of the present: counts, permission, and `written`, those that may be written.

    `sets` are those of `sets_now`. A fixed topic is one whose queues are nobody's to move: its messages have an order,
    or its queues are mapped to logical ones.
    """
    folded = of_kind(parts, "queues").select(
        "ns_id",
        "snapshot_id",
        F.explode("broker_names").alias("broker_name"),
        "topics",
        F.coalesce("read", F.lit(0)).alias("read_now"),
        F.coalesce("write", F.lit(0)).alias("write_now"),
        "perm",
        "topic_sys_flag",
    )
    present = sets.select("cluster", "ns_id", "snapshot_id", "broker_name", "broker_addr")
    queues = folded.join(F.broadcast(present), ["ns_id", "snapshot_id", "broker_name"], "inner")
    return (
        queues.drop("snapshot_id")
        .withColumn("topic", F.explode("topics"))
        .drop("topics")
        .withColumn("written", written_queues(F.col("write_now"), F.col("perm")))
        .join(F.broadcast(_fixed_now(parts)), ["ns_id", "topic"], "left")
        .drop("ns_id")
        .withColumn("is_fixed", F.col("is_fixed").isNotNull() & F.col("is_fixed"))
    )


def _fixed_now(parts: DataFrame) -> DataFrame:
    """Return whether topics are fixed, by what each NameServer said of them last."""
    return of_kind(parts, "fixed").groupBy("ns_id", "topic").agg(F.max_by("is_fixed", "at_us").alias("is_fixed"))
