"""NameServers that had just started: which brokers they did not have yet, how long, and what they answered meanwhile.

A NameServer serves from its start on and knows no broker before it registers there, which may take a period. Until then
it answers "no such topic" for what another one, or it itself before, has a route of. A broker that has not registered
when the usual timeout is over is no matter of the start any more: there the NameServers differ.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import BROKER, GRACE_US, watched
from analytics.shared.intervals import joined, levels, overlaps
from analytics.shared.job import Inputs, Span
from analytics.shared.observation import lost_states
from analytics.shared.state_points import UP
from analytics.spark.schemas import united
from history.columns import Column, Type
from history.schemas import UNOBSERVED_AFTER_MS

STARTED: Final = "started"
#: Changes were lost, and a snapshot has all sets.
RESUMED: Final = "resumed"
QUERIES: Final = "queried"

COLD_PARTS: Final = (
    Column(
        "answers_us",
        Type.LONG,
        "started: since then it answered route queries; resumed: when its snapshot had all sets; Unix us",
    ),
    Column("not_found", Type.LONG, "kind queried: answers of `no such topic` since the start at since_us, up to at_us"),
)

_VIEW: Final = ("ns_id", *BROKER)
#: The start of a NameServer.
_START: Final = ("ns_id", "started_us")


def cold_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return the starts that matter in the span, and how many questions about no topic came soon after them."""
    starts = _starts(inputs["ns_lifecycle"])
    soon_us = F.col("started_us") + GRACE_US + UNOBSERVED_AFTER_MS * 1000
    ticks = inputs["ns_tick"].select("boot_id", F.unix_micros("event_time").alias("at_us"), "not_found_total")
    queries = (
        ticks.filter((F.col("at_us") >= span.start_us) & (F.col("at_us") < span.end_us))
        .join(F.broadcast(starts), "boot_id", "inner")
        .filter(F.col("at_us") <= soon_us)
        .select(
            "ns_id",
            F.lit(QUERIES).alias("kind"),
            "at_us",
            F.col("started_us").alias("since_us"),
            F.col("not_found_total").alias("not_found"),
        )
    )
    began = starts.filter(
        (F.col("started_us") >= span.start_us - GRACE_US) & (F.col("started_us") < span.end_us)
    ).select(
        "ns_id",
        F.lit(STARTED).alias("kind"),
        F.col("started_us").alias("at_us"),
        F.col("started_us").alias("since_us"),
        "answers_us",
    )
    tables = [began, _resumptions(inputs, span), queries]
    return united(tables)


def _resumptions(inputs: Inputs, span: Span) -> DataFrame:
    """Return the time of the snapshot after changes were lost: a broker that it lacks is absent."""
    us = F.unix_micros("event_time")
    process = ["ns_id", "boot_id"]
    resumed = inputs["ns_lifecycle"].filter(lost_states()).select(*process, us.alias("at_us"))
    members = inputs["broker_state"].filter("event_type = 'snapshot'")
    snapshots = members.groupBy(
        *process, F.coalesce("reason", F.col("event_time").cast("string")).alias("snapshot")
    ).agg(F.min(us).alias("first_us"), F.max(us).alias("last_us"))
    snapshot = resumed.join(snapshots, process, "inner").filter(
        (F.col("first_us") >= F.col("at_us")) & (F.col("first_us") < F.col("at_us") + GRACE_US)
    )
    return (
        snapshot.groupBy("ns_id", "at_us")
        .agg(F.min("last_us").alias("answers_us"))
        .filter((F.col("answers_us") >= span.start_us) & (F.col("answers_us") < span.end_us))
        .select("ns_id", F.lit(RESUMED).alias("kind"), "at_us", F.col("at_us").alias("since_us"), "answers_us")
    )


def _starts(lifecycle: DataFrame) -> DataFrame:
    """Return when each process started, and from when on it answered: some wait for their brokers first."""
    detail = F.from_json("detail", "needWaitForService boolean, waitSecondsForService bigint")
    configured = F.when(F.col("event_type") == "configured", detail)
    us = F.unix_micros("event_time")
    # What was configured later was not in force at the start.
    waits = F.min_by(configured, F.when(configured.isNotNull(), us))
    by_process = lifecycle.groupBy("ns_id", "boot_id").agg(
        F.min(F.when(F.col("event_type") == "started", us)).alias("started_us"), waits.alias("waits")
    )
    wait_us = F.when(F.col("waits.needWaitForService"), F.col("waits.waitSecondsForService") * 1_000_000)
    return by_process.filter("started_us IS NOT NULL").withColumn(
        "answers_us", F.col("started_us") + F.coalesce(wait_us, F.lit(0))
    )


def lacking_contact(parts: DataFrame, reported: DataFrame, span: Span) -> DataFrame:
    """Return, for each start and broker, the time before its first registration there: from `start_us` on.

    `reported` are `broker_states.reported_states`. `is_cold`: it registered soon, or the NameServer stopped before;
    `had`: it had it when it was there last. Only time in which it was watching. After changes were lost a snapshot
    shows what it lacks, which is not cold.
    """
    waiting = _starts_of_window(parts, span).join(_views(reported), "ns_id", "inner")
    pieces = reported.select(*_VIEW, F.col("start_us").alias("from_us"), F.col("end_us").alias("to_us"), "state")
    after = (F.col("from_us") >= F.col("started_us")) & (F.col("from_us") < F.col("next_us"))
    before = F.col("to_us") <= F.col("started_us")
    over = (F.col("from_us") < F.col("started_us")) & (F.col("started_us") < F.col("to_us"))
    first = F.min(F.when(after, F.struct("from_us", "state")))
    last = F.max(F.when(before, F.struct("to_us", "state")))
    known = (
        waiting.join(pieces, list(_VIEW), "left")
        .groupBy(*_VIEW, "started_us", "answers_us", "next_us", "is_start")
        .agg(first.alias("first"), last.alias("last"), F.coalesce(F.bool_or(over), F.lit(False)).alias("is_known"))
        .filter("NOT is_known")
    )
    was_up = F.coalesce(F.col("first.state") == UP, F.lit(False))
    spells = known.select(
        *_VIEW,
        "started_us",
        F.greatest("answers_us", F.lit(span.start_us)).alias("start_us"),
        F.coalesce("first.from_us", F.least("next_us", F.lit(span.end_us))).alias("end_us"),
        (F.col("is_start") & (was_up | F.col("first").isNull())).alias("is_cold"),
        (was_up & F.coalesce(F.col("last.state") == UP, F.lit(False))).alias("had"),
    ).filter("start_us < end_us")
    return overlaps(spells, watched(parts, span), ["ns_id"])


def cold_spells(cold: DataFrame, reported: DataFrame, parts: DataFrame, grace_us: int) -> DataFrame:
    """Return from when to when each NameServer that had started lacked brokers, and which.

    `cold` is what `lacking_contact` returns. A broker is lacked for longer than `grace_us` while another NameServer has
    it, or, where no other one knows, while it had it itself before; of the latter `lacked_seen` counts none, as nobody
    watched whether they were there. `not_found_min` and `not_found_max` are how many requests it had answered with
    `no such topic` by then; null where that was not recorded.
    """
    one = [*_START, *BROKER]
    pieces = _lacked(cold, reported).localCheckpoint()
    seen = pieces.filter("there > 0").select(*one).distinct().withColumn("seen", F.lit(True))
    lacked = joined(pieces, one).filter(F.col("end_us") - F.col("start_us") > grace_us).join(seen, one, "left")
    name = F.concat_ws(":", "broker_name", "broker_id")
    spells = lacked.groupBy(*_START, "cluster").agg(
        F.count_distinct(F.when(F.col("seen"), name)).alias("lacked_seen"),
        F.min("start_us").alias("start_us"),
        F.max("end_us").alias("end_us"),
        F.array_sort(F.collect_set(name)).alias("lacked"),
    )
    queries = parts.filter(F.col("kind") == QUERIES).select(
        "ns_id", F.col("since_us").alias("started_us"), F.col("at_us").alias("asked_us"), "not_found"
    )
    by_then, later = F.col("asked_us") <= F.col("end_us"), F.col("asked_us") >= F.col("end_us")
    # Where the first tick came after the end, at least none.
    least = F.when(F.count("not_found") > 0, F.coalesce(F.max(F.when(by_then, F.col("not_found"))), F.lit(0)))
    return (
        spells.join(F.broadcast(queries), list(_START), "left")
        .groupBy(*_START, "cluster", "start_us", "end_us", "lacked", "lacked_seen")
        .agg(least.alias("not_found_min"), F.min(F.when(later, F.col("not_found"))).alias("not_found_max"))
    )


def _lacked(cold: DataFrame, reported: DataFrame) -> DataFrame:
    """Return when NameServers lacked brokers that were there."""
    spell = [*_START, *BROKER, "had"]
    mine = cold.select(*spell, "start_us", "end_us", _one("mine"), _none("known"), _none("there"))
    times = cold.select(*spell, F.col("start_us").alias("cold_us"), F.col("end_us").alias("warm_us"))
    others = reported.select(*BROKER, F.col("ns_id").alias("other"), "start_us", "end_us", "state")
    overlapping = others.join(F.broadcast(times), list(BROKER), "inner").filter(
        "other != ns_id AND start_us < warm_us AND cold_us < end_us"
    )
    theirs = overlapping.select(
        *spell,
        F.greatest("start_us", "cold_us").alias("start_us"),
        F.least("end_us", "warm_us").alias("end_us"),
        _none("mine"),
        _one("known"),
        (F.col("state") == UP).cast("bigint").alias("there"),
    )
    counted = levels(mine.unionByName(theirs), spell, ["mine", "known", "there"])
    return counted.filter("mine > 0 AND (there > 0 OR (known = 0 AND had))")


def _one(name: str) -> SparkColumn:
    return F.lit(1).cast("bigint").alias(name)


def _none(name: str) -> SparkColumn:
    return F.lit(0).cast("bigint").alias(name)


def _starts_of_window(parts: DataFrame, span: Span) -> DataFrame:
    """Return each start once, with the next one of the same NameServer, or the end of the window."""
    starts = parts.filter(F.col("kind").isin(STARTED, RESUMED))
    is_start = (F.col("kind") == STARTED).alias("is_start")
    each = starts.select("ns_id", F.col("at_us").alias("started_us"), "answers_us", is_start).distinct()
    following = F.lead("started_us").over(Window.partitionBy("ns_id").orderBy("started_us"))
    return each.withColumn("next_us", F.coalesce(following, F.lit(span.end_us)))


def _views(reported: DataFrame) -> DataFrame:
    """Return each broker with each NameServer that ever had its cluster."""
    servers = reported.select("ns_id", "cluster").distinct()
    return servers.join(reported.select(*BROKER).distinct(), "cluster", "inner").select(*_VIEW)
