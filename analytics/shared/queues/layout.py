"""Which queues are where now: the newest snapshot of each NameServer and all changes since, as most of them have it.

A store may hold several clusters, known to NameServers of their own: each cluster has its own present.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.days import HOUR_US
from analytics.shared.queues.snapshots import is_scalable, sets_known, topics_of_brokers, written_queues
from analytics.shared.rows import of_kind

#: What a NameServer recorded so much before the newest row of a cluster is not the present any more.
PRESENT_US: Final = 25 * HOUR_US

#: So long after its start a NameServer may not have all sets.
COLD_US: Final = 120_000_000

_PLACE: Final = ("ns_id", "broker_name", "topic")
_SETTINGS: Final = ("read", "write", "perm", "topic_sys_flag")


def routes_now(parts: DataFrame) -> DataFrame:
    """Return one row per topic and set of the present, of the sets that have a master.

    Counts, permission, `written`, those queues that may be written, and whether the topic is fixed: nobody's to move,
    since its messages have an order, or its queues are mapped to logical ones.
    """
    base = _base(parts).localCheckpoint()
    held = (
        _held(parts, base)
        .join(sets_known(parts), ["ns_id", "broker_name"], "inner")
        .where(F.col("cluster").isNotNull())
    )
    known = held.localCheckpoint()
    chosen = _chosen(_tables(known), _servers(parts, base))
    present = known.join(F.broadcast(chosen), ["cluster", "broker_name", "ns_id"], "left_semi")
    return (
        present.select(
            "cluster",
            "ns_id",
            "broker_name",
            "broker_addr",
            "topic",
            F.coalesce("read", F.lit(0)).alias("read_now"),
            F.coalesce("write", F.lit(0)).alias("write_now"),
            "perm",
            "topic_sys_flag",
        )
        .withColumn("written", written_queues(F.col("write_now"), F.col("perm")))
        .join(F.broadcast(_fixed_now(parts)), ["ns_id", "topic"], "left")
        .drop("ns_id")
        .withColumn("is_fixed", F.col("is_fixed").isNotNull() & F.col("is_fixed"))
    )


def sets_now(routes: DataFrame) -> DataFrame:
    """Return the sets of `routes_now`: their queues that may be written, and `writable`, those of the system too."""
    scalable = F.when(_is_ordinary(), F.col("written")).otherwise(0)
    return routes.groupBy("cluster", "broker_name").agg(
        F.first("broker_addr").alias("broker_addr"), F.sum(scalable).alias("queues"), F.sum("written").alias("writable")
    )


def queues_now(routes: DataFrame, sets: DataFrame) -> DataFrame:
    """Return the rows of `routes_now` that are about ordinary topics on these sets."""
    return routes.where(_is_ordinary()).join(
        F.broadcast(sets.select("cluster", "broker_name")), ["cluster", "broker_name"], "left_semi"
    )


def _is_ordinary() -> Expression:
    return is_scalable(F.col("topic")) & ~F.array_contains(topics_of_brokers(), F.col("topic"))


def _held(parts: DataFrame, base: DataFrame) -> DataFrame:
    """Return which topics each NameServer has on which set: `_PLACE` and `_SETTINGS`; one that lost count has none."""
    process, row = ["ns_id", "boot_id"], ["seq", *_SETTINGS]
    of_snapshot = (
        of_kind(parts, "queues")
        .join(F.broadcast(base), [*process, "snapshot_id"], "left_semi")
        .withColumn("broker_name", F.explode("broker_names"))
        .select(*process, "broker_name", F.explode("topics").alias("topic"), *row)
    )
    # What changed before the snapshot began is in it.
    since = (
        of_kind(parts, "change")
        .select(*process, "broker_name", "topic", *row)
        .join(F.broadcast(base.select(*process, "since")), process, "inner")
        .where(F.col("seq") > F.col("since"))
        .drop("since")
    )
    last = F.max_by(F.struct(*_SETTINGS), "seq")
    stands = of_snapshot.unionByName(since).groupBy(*_PLACE).agg(last.alias("last")).select(*_PLACE, "last.*")
    return stands.where(F.col("read").isNotNull() | F.col("write").isNotNull())


def _base(parts: DataFrame) -> DataFrame:
    """Return what the routes of each NameServer's newest process begin with: a snapshot, or nothing at its start."""
    snapshots = (
        of_kind(parts, "queues")
        .groupBy("ns_id", "boot_id", "snapshot_id")
        .agg(F.min("since").alias("since"), F.max("at_us").alias("at_us"))
        .withColumn("knew", F.lit(True))
    )
    begun = of_kind(parts, "began").select(
        "ns_id",
        "boot_id",
        F.lit(None).cast("string").alias("snapshot_id"),
        F.col("seq").alias("since"),
        "at_us",
        "knew",
    )
    changed = of_kind(parts, "change").select("ns_id", "boot_id", "at_us")
    points = snapshots.unionByName(begun)
    signs = points.select("ns_id", "boot_id", "at_us").unionByName(changed)
    newest = signs.groupBy("ns_id").agg(F.max_by("boot_id", F.struct("at_us", "boot_id")).alias("boot_id"))
    mine = points.join(F.broadcast(newest), ["ns_id", "boot_id"], "left_semi")
    last = F.max_by(F.struct("snapshot_id", "since", "knew", "at_us"), "since")
    return mine.groupBy("ns_id", "boot_id").agg(last.alias("last")).select("ns_id", "boot_id", "last.*").where("knew")


def _tables(held: DataFrame) -> DataFrame:
    """Return, for each set, what each NameServer of its cluster has there, as a number; 0: nothing. And `is_led`."""
    digest = F.sum(F.xxhash64("topic", *_SETTINGS).cast("decimal(20,0)"))
    is_led = F.coalesce(F.first("is_led"), F.lit(True)).cast("int").alias("is_led")
    tables = held.groupBy("cluster", "broker_name", "ns_id").agg(digest.alias("digest"), is_led)
    servers = held.select("cluster", "ns_id").distinct()
    names = held.select("cluster", "broker_name").distinct()
    views = servers.join(names, "cluster", "inner").join(tables, ["cluster", "broker_name", "ns_id"], "left")
    return views.withColumn("digest", F.coalesce("digest", F.lit(0)))


def _chosen(tables: DataFrame, servers: DataFrame) -> DataFrame:
    """Return whose word counts for each set: one of those NameServers that most agree with, of these the newest.

    One that has just started counts only where there are no others. Sets are left out that have a master for no more
    than half of those that know them.
    """
    of_cluster = Window.partitionBy("cluster")
    recent = (
        tables.join(F.broadcast(servers), "ns_id", "inner")
        .withColumn("newest_us", F.max("last_us").over(of_cluster))
        .where(F.col("last_us") > F.col("newest_us") - PRESENT_US)
    )
    is_cold = F.coalesce(F.col("newest_us") - F.col("started_us") < COLD_US, F.lit(False))
    alike = F.count_if(~F.col("is_cold")).over(Window.partitionBy("cluster", "broker_name", "digest"))
    best = Window.partitionBy("cluster", "broker_name").orderBy(F.desc("votes"), F.desc("last_us"), "ns_id")
    voted = recent.withColumn("is_cold", is_cold).withColumn("votes", alike)
    of_set = Window.partitionBy("cluster", "broker_name")
    led = F.coalesce(F.avg(F.when(~F.col("is_cold"), F.col("is_led"))).over(of_set), F.avg("is_led").over(of_set))
    first = voted.withColumns({"led": led, "nth": F.row_number().over(best)})
    return first.where("nth = 1 AND digest != 0 AND led > 0.5").select("cluster", "broker_name", "ns_id")


def _servers(parts: DataFrame, base: DataFrame) -> DataFrame:
    """Return the time of each NameServer's last row, and when it started if it has taken no snapshot since."""
    last = parts.where(F.col("ns_id").isNotNull()).groupBy("ns_id").agg(F.max("at_us").alias("last_us"))
    starts = base.where(F.col("snapshot_id").isNull()).select("ns_id", F.col("at_us").alias("started_us"))
    return last.join(F.broadcast(starts), "ns_id", "left")


def _fixed_now(parts: DataFrame) -> DataFrame:
    """Return whether topics are fixed, by the last row of each NameServer."""
    return of_kind(parts, "fixed").groupBy("ns_id", "topic").agg(F.max_by("is_fixed", "at_us").alias("is_fixed"))
