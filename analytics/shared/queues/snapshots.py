"""What NameServers recorded of which queues are where: the parts of a day, of which `queue_present` makes the present.

They are the day's last snapshot of each NameServer, folded as it was recorded so that a month of them stays small, and
the last change of each topic since.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import DAY_US, HOUR_US
from analytics.shared.job import Inputs, Span
from analytics.shared.observation import lost_states
from analytics.shared.rows import CLUSTER, KIND, of_kind, of_span, sequence
from history.columns import Column, Type

#: What the parts are made of, beside what analyses need for themselves.
QUEUE_INPUTS: Final = ("route_snapshot", "route_change", "broker_state", "ns_lifecycle")

#: The permission bit of writing.
WRITE: Final = 2

# As remoting/protocol/topic_kinds.py has them, with those of `topics_of_brokers`: topics that nobody scales.
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

#: Kinds `queues` (topics alike on sets that are alike), `change` (one topic of one set since), `began` (what a process
#: knew of its routes when it began to record them), `load` (one set), `set` (its cluster and master) and `fixed` (a
#: topic whose queues are not to be moved).
QUEUE_PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("ns_id", Type.STRING, "NameServer whose snapshot it is"),
    Column("snapshot_id", Type.STRING, "the snapshot"),
    Column("at_us", Type.LONG, "when the snapshot was finished, or the set was seen so, Unix us"),
    Column("broker_names", Type.STRINGS, "queues: the sets"),
    Column("topics", Type.STRINGS, "queues: the topics, but for those of groups"),
    Column("read", Type.LONG, "queues, change: read queues of each topic on each set; null: the topic is gone"),
    Column("write", Type.LONG, "queues, change: write queues"),
    Column("perm", Type.LONG, "queues, change: permission bits"),
    Column("topic_sys_flag", Type.LONG, "queues, change: system flag"),
    Column("boot_id", Type.STRING, "queues, change, began: the process that recorded it"),
    Column("seq", Type.LONG, "queues, change, began: its number among the rows of that process"),
    Column("since", Type.LONG, "queues: that of the first row of the snapshot"),
    Column("knew", Type.BOOLEAN, "began: that there was nothing yet, as at a start; else changes were lost"),
    Column("broker_name", Type.STRING, "change, load, set: the set"),
    Column("queues", Type.LONG, "load: its queues that may be written, of all topics but those of the system"),
    Column("writable", Type.LONG, "load: the same of all topics; 0 if the set's write permission was wiped"),
    Column("broker_addr", Type.STRING, "set: address of its master"),
    Column("is_led", Type.BOOLEAN, "set: it has a master; null where rows have neither"),
    Column("topic", Type.STRING, "change, fixed, and kinds of the analyses' own: the topic"),
    Column("is_fixed", Type.BOOLEAN, "fixed: it has an order configuration, or is static"),
)


def is_scalable(topic: Expression) -> Expression:
    """Return whether a topic is ordinary by its name: not the system's, nor a group's for retries or dead letters."""
    system = topic.isin(*_SYSTEM_TOPICS) | topic.startswith("rmq_sys_")
    return ~(system | _is_of_group(topic))


def topics_of_brokers() -> Expression:
    """Return the system topics that brokers name after their cluster and set, of a row with both."""
    return F.array_compact(F.array("cluster", "broker_name", F.concat("cluster", F.lit("_REPLY_TOPIC"))))


def _is_of_group(topic: Expression) -> Expression:
    return topic.startswith("%RETRY%") | topic.startswith("%DLQ%")


def queue_parts(inputs: Inputs, span: Span) -> dict[str, DataFrame]:
    """Return the kinds of rows of QUEUE_PART_COLUMNS: of each NameServer and day its last whole snapshot, and later."""
    rows = _rows_of_last_snapshots(inputs, span)
    written = written_queues(F.col("write"), F.col("perm"))
    sets = _sets_of_days(_around(inputs["broker_state"], span))
    clusters = sets.groupBy("ns_id", "broker_name").agg(F.max_by("cluster", "at_us").alias("cluster"))
    counted = (
        rows.withColumn("scalable", F.size(F.filter("topics", is_scalable)))
        .drop("cluster", "broker_name")
        .withColumn("broker_name", F.explode("broker_names"))
        .join(F.broadcast(clusters), ["ns_id", "broker_name"], "left")
        .withColumn("scalable", F.col("scalable") - F.size(F.array_intersect("topics", topics_of_brokers())))
    )
    return {
        "queues": rows.withColumn("topics", F.filter("topics", lambda topic: ~_is_of_group(topic))),
        "change": _changes_since(rows, inputs, span),
        "began": _beginnings(of_span(inputs["ns_lifecycle"], span)),
        "load": counted.groupBy("ns_id", "snapshot_id", "at_us", "broker_name").agg(
            F.sum(F.col("scalable") * written).alias("queues"), F.sum(F.size("topics") * written).alias("writable")
        ),
        "set": sets,
        "fixed": _fixed_of_days(_around(inputs["route_change"], span)),
    }


def written_queues(write: Expression, perm: Expression) -> Expression:
    """Return how many queues may be written: none where the permission was taken away."""
    return F.when(may_be_written(perm), F.coalesce(write, F.lit(0))).otherwise(0)


def may_be_written(perm: Expression) -> Expression:
    """Return whether permission bits let producers in."""
    return F.coalesce(perm, F.lit(0)).bitwiseAND(WRITE) != 0


def _beginnings(lifecycle: DataFrame) -> DataFrame:
    """Return from when on the changes of each process are known."""
    started = F.col("event_type") == "started"
    mine = lifecycle.where((started | lost_states()) & F.coalesce(F.col("source") == "namesrv", F.lit(True)))
    return mine.select("ns_id", "boot_id", sequence().alias("seq"), "at_us", started.alias("knew"))


def _changes_since(snapshots: DataFrame, inputs: Inputs, span: Span) -> DataFrame:
    """Return the last change of each topic on each set that the day's last snapshot may not know of."""
    settings = ("read", "write", "perm")
    who = ["ns_id", "boot_id", "broker_name", "topic", "topic_sys_flag", "at_us", "seq"]
    single = (
        of_span(inputs["route_change"], span)
        .where((F.col("event_type") == "topic_changed") & ~F.col("kind").isin("order", "mapping"))
        .withColumn("seq", sequence())
        .select(*who, *(F.col(f"new_{name}").alias(name) for name in settings))
    )
    # Of one cause with very many topics there are rows as of a snapshot.
    many = (
        of_span(inputs["route_snapshot"], span)
        .where((F.col("event_type") == "queues") & (F.col("scope") == "change"))
        .withColumn("broker_name", F.explode("broker_names"))
        .withColumn("topic", F.explode("topics"))
        .withColumn("seq", sequence())
        .select(*who, *settings)
    )
    began = snapshots.groupBy("ns_id", "boot_id").agg(F.min("since").alias("since"))
    later = (
        single.unionByName(many)
        .where(F.col("topic").isNotNull() & F.col("broker_name").isNotNull() & ~_is_of_group(F.col("topic")))
        .join(F.broadcast(began), ["ns_id", "boot_id"], "left")
        .where(F.col("since").isNull() | (F.col("seq") > F.col("since")))
    )
    place = ["ns_id", "boot_id", "broker_name", "topic"]
    last = F.max_by(F.struct("seq", "at_us", "topic_sys_flag", *settings), "seq")
    latest: DataFrame = later.groupBy(*place).agg(last.alias("last")).select(*place, "last.*")
    return latest


def _around(rows: DataFrame, span: Span) -> DataFrame:
    """Return the rows of a span and of the hour before it.

    A snapshot that ended just after midnight has rows before it: of the sets, and of topics that are fixed.
    """
    return of_span(rows, Span(span.start_us - HOUR_US, span.end_us))


def _fixed_of_days(changes: DataFrame) -> DataFrame:
    """Return, of each topic and day, whether it has an order or a mapping; each snapshot repeats all of them."""
    last = F.struct("at_us", "event_id")
    day = F.floor(F.col("at_us") / DAY_US).alias("day")
    fixings = changes.where(F.col("kind").isin("order", "mapping") & F.col("topic").isNotNull())
    # A topic loses its order configuration by a row without one.
    each = fixings.groupBy("ns_id", "topic", "kind", day).agg(
        F.max("at_us").alias("at_us"), F.max_by(F.col("detail").isNotNull(), last).alias("is_fixed")
    )
    return (
        each.groupBy("ns_id", "topic", "day")
        .agg(F.max("at_us").alias("at_us"), F.bool_or("is_fixed").alias("is_fixed"))
        .drop("day")
    )


def _rows_of_last_snapshots(inputs: Inputs, span: Span) -> DataFrame:
    snapshots = inputs["route_snapshot"]
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
    mine = rows.join(last.select("ns_id", "snapshot_id", "at_us"), ["ns_id", "snapshot_id"], "inner").withColumn(
        "seq", sequence()
    )
    # It begins by telling the sets; a topic that came after that may not be in it.
    sets = inputs["broker_state"].where((F.col("event_type") == "snapshot") & F.col("reason").isNotNull())
    shown = sets.groupBy("ns_id", F.col("reason").alias("snapshot_id")).agg(F.min(sequence()).alias("shown"))
    first = F.min("seq").over(Window.partitionBy("ns_id", "snapshot_id"))
    return mine.join(F.broadcast(shown), ["ns_id", "snapshot_id"], "left").withColumn(
        "since", F.least(first, F.col("shown"))
    )


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
        F.array_contains("set_ids", 0).alias("is_led"),
    )
    last = F.struct("at_us", "event_id")
    return seen.groupBy("ns_id", "broker_name", F.floor(F.col("at_us") / DAY_US).alias("day")).agg(
        F.max("at_us").alias("at_us"),
        F.max_by("cluster", F.when(F.col("cluster").isNotNull(), last)).alias("cluster"),
        F.max_by("broker_addr", F.when(F.col("broker_addr").isNotNull(), last)).alias("broker_addr"),
        F.max_by("is_led", F.when(F.col("is_led").isNotNull(), last)).alias("is_led"),
    )


def sets_known(parts: DataFrame) -> DataFrame:
    """Return cluster and master's address of each set, and whether it has one, as each NameServer saw them last."""
    seen = of_kind(parts, "set")
    return seen.groupBy("ns_id", "broker_name").agg(
        *(
            F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at_us"))).alias(name)
            for name in ("cluster", "broker_addr", "is_led")
        )
    )


def loads_known(parts: DataFrame) -> DataFrame:
    """Return how full each set was in each snapshot, with its cluster and the master's address."""
    loads = of_kind(parts, "load").select("ns_id", "snapshot_id", "at_us", "broker_name", "queues", "writable")
    return loads.join(sets_known(parts), ["ns_id", "broker_name"], "inner").where(F.col("cluster").isNotNull())
