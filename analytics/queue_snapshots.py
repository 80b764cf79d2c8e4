"""Which queues are where, as the NameServers' snapshots of their routes tell: the parts of a day, and the present.

The parts keep a snapshot's rows folded as they were recorded, so that a month of them stays small.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Span
from analytics.rows import CLUSTER, DAY_US, HOUR_US, KIND, of_kind, of_span
from history.schemas import Column, Type

#: Snapshots so much older than the newest one are not the present any more.
PRESENT_US: Final = 2 * HOUR_US

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

#: Kinds `queues` (topics alike on sets that are alike), `load` (one set) and `set` (its cluster and master).
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
    Column("queues", Type.LONG, "load: its write queues, of all topics but those of the system"),
    Column("broker_addr", Type.STRING, "set: address of its master"),
)


def is_scalable(topic: Expression) -> Expression:
    """Return whether a topic is an ordinary one: neither the system's, nor a group's for retries or dead letters."""
    system = topic.isin(*_SYSTEM_TOPICS) | topic.startswith("rmq_sys_")
    return ~(system | topic.startswith("%RETRY%") | topic.startswith("%DLQ%"))


def queue_parts(inputs: Inputs, span: Span) -> dict[str, DataFrame]:
    """Return the kinds of rows of QUEUE_PART_COLUMNS: of each NameServer and day its last whole snapshot."""
    rows = _rows_of_last_snapshots(inputs["route_snapshot"], span)
    ordinary = rows.withColumn("topics", F.filter("topics", is_scalable))
    return {
        "queues": ordinary.where(F.size("topics") > 0),
        "load": ordinary.withColumn("broker_name", F.explode("broker_names"))
        .groupBy("ns_id", "snapshot_id", "at_us", "broker_name")
        .agg(F.sum(F.size("topics") * F.coalesce("write", F.lit(0))).alias("queues")),
        "set": _sets_of_days(of_span(inputs["broker_state"], span)),
    }


def _rows_of_last_snapshots(snapshots: DataFrame, span: Span) -> DataFrame:
    rows = snapshots.where((F.col("event_type") == "queues") & (F.col("scope") == "all"))
    counts = rows.groupBy("ns_id", "snapshot_id").agg(F.count(F.lit(1)).alias("found"))
    whole = (
        of_span(snapshots, span)
        .where(F.col("event_type") == "finished")
        .join(counts, ["ns_id", "snapshot_id"], "inner")
        .where(F.col("found") >= F.coalesce("rows", F.lit(0)))
    )
    newest_first = Window.partitionBy("ns_id", F.floor(F.col("at_us") / DAY_US)).orderBy(
        F.desc("at_us"), F.desc("snapshot_id")
    )
    last = whole.withColumn("nth", F.row_number().over(newest_first)).where("nth = 1")
    return rows.join(last.select("ns_id", "snapshot_id", "at_us"), ["ns_id", "snapshot_id"], "inner")


def _sets_of_days(states: DataFrame) -> DataFrame:
    """Return, of each set and day, cluster and master's address as they were seen last."""
    in_set = F.arrays_zip("set_ids", "set_addrs")
    master = F.get(F.filter(in_set, lambda member: member["set_ids"] == 0), F.lit(0))
    own_address = F.when((F.col("broker_id") == 0) & ~F.col("event_type").isin(*_LEAVING), F.col("broker_addr"))
    seen = states.where(F.col("broker_name").isNotNull()).select(
        "broker_name",
        "at_us",
        "event_id",
        F.coalesce(F.col("cluster"), F.get("set_clusters", F.lit(0))).alias("cluster"),
        F.coalesce(master["set_addrs"], own_address).alias("broker_addr"),
    )
    last = F.struct("at_us", "event_id")
    return seen.groupBy("broker_name", F.floor(F.col("at_us") / DAY_US).alias("day")).agg(
        F.max("at_us").alias("at_us"),
        F.max_by("cluster", F.when(F.col("cluster").isNotNull(), last)).alias("cluster"),
        F.max_by("broker_addr", F.when(F.col("broker_addr").isNotNull(), last)).alias("broker_addr"),
    )


def sets_now(parts: DataFrame) -> DataFrame:
    """Return cluster and master's address of each set, as they were seen last."""
    seen = of_kind(parts, "set")
    return seen.groupBy("broker_name").agg(
        F.max_by("cluster", F.when(F.col("cluster").isNotNull(), F.col("at_us"))).alias("cluster"),
        F.max_by("broker_addr", F.when(F.col("broker_addr").isNotNull(), F.col("at_us"))).alias("broker_addr"),
    )


def snapshot_now(parts: DataFrame) -> DataFrame:
    """Return `ns_id` and `snapshot_id` of the snapshot that is the present.

    Of the newest of all NameServers it is the one that knows most sets, since a NameServer that has just started
    knows few.
    """
    snapshots = of_kind(parts, "load").groupBy("ns_id", "snapshot_id", "at_us").agg(F.count(F.lit(1)).alias("sets"))
    everything = Window.partitionBy()
    recent = snapshots.withColumn("newest_us", F.max("at_us").over(everything)).where(
        F.col("at_us") > F.col("newest_us") - PRESENT_US
    )
    best_first = everything.orderBy(F.desc("sets"), F.desc("at_us"), "ns_id", "snapshot_id")
    best = recent.withColumn("nth", F.row_number().over(best_first)).where("nth = 1")
    return best.select("ns_id", "snapshot_id")


def queues_now(parts: DataFrame) -> DataFrame:
    """Return one row per topic and set of the present, with cluster, counts, permission and the master's address."""
    rows = of_kind(parts, "queues").join(F.broadcast(snapshot_now(parts)), ["ns_id", "snapshot_id"], "inner")
    return (
        rows.select("topics", "read", "write", "perm", "topic_sys_flag", F.explode("broker_names").alias("broker_name"))
        .join(F.broadcast(sets_now(parts)), "broker_name", "left")
        .select(
            "cluster",
            F.explode("topics").alias("topic"),
            "broker_name",
            "broker_addr",
            F.coalesce("read", F.lit(0)).alias("read_now"),
            F.coalesce("write", F.lit(0)).alias("write_now"),
            "perm",
            "topic_sys_flag",
        )
    )
