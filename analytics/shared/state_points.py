"""Points at which a NameServer learned that a broker came or left, from rows of `broker_state` and of controllers.

A row with the state of its whole set yields a point for each member, and for each former member that is missing.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.job import Inputs, Span

UP: Final = "up"
DOWN: Final = "down"
#: The server knows nothing of brokers from then on.
RESET: Final = "reset"
#: Its process has another broker id from then on: nobody failed, and nobody is missed.
MOVED: Final = "moved"
#: The server was never told of the broker, or lost sight of it.
ABSENT: Final = "absent"

#: Servers close connections on which so long nothing came, unless serverChannelMaxIdleTimeSeconds is set otherwise.
IDLE_MS: Final = 120_000

_LEFT: Final = ("expired", "channel_closed", "unregistered", "conflict")
_KNOWN: Final = ("registered_first", "changed", "address_changed", "role_changed")


def ended_by_silence() -> SparkColumn:
    """Tell whether silence ended the connection: nothing came for the timeout, or until it was closed as idle."""
    return F.coalesce(F.col("silent_ms") >= F.least("timeout_ms", F.lit(IDLE_MS)), F.lit(False))


def state_points(states: DataFrame, resets: DataFrame, span: Span) -> DataFrame:
    """Return when brokers came and left: the columns of STATE_PARTS.

    A row tells how its whole set stands from then on; so it says of each member that it is up, and of each former one
    that it is not, whether or not a row of its own was written.
    """
    us = F.unix_micros("event_time")
    earlier = (Window.unboundedPreceding, -1)
    of_set = Window.partitionBy("ns_id", "boot_id", "broker_name").orderBy("mono_us", "seq")
    next_us = F.first(F.when(F.col("set_ids").isNotNull(), F.col("at_us")), ignorenulls=True).over(
        of_set.rowsBetween(1, Window.unboundedFollowing)
    )
    known_life = F.when(F.col("members").isNotNull(), F.col("life"))
    of_address = Window.partitionBy("ns_id", "broker_name", "broker_addr").orderBy("at_us", "seq")
    own = F.when(_is_member(), F.struct("cluster", F.col("broker_id").alias("id")))
    told = states if _SIGN in states.columns else states.withColumn(_SIGN, F.lit(None).cast("bigint"))
    rows = (
        told.filter(us < span.end_us)
        .join(F.broadcast(resets.groupBy("ns_id").agg(F.collect_list("at_us").alias("resets_us"))), "ns_id", "left")
        .withColumns({"at_us": us, "seq": F.substring_index("event_id", "-", -1).cast("bigint")})
        # Of several rows of one moment the last word about the set counts.
        .withColumn("members", F.when(~next_us.eqNullSafe(F.col("at_us")), _members()))
        .withColumn("life", F.size(F.filter("resets_us", lambda reset_us: reset_us <= F.col("at_us"))))
        .withColumn("before", F.last("members", ignorenulls=True).over(of_set.rowsBetween(*earlier)))
        .withColumn("resumed", F.col("life") > F.last(known_life, ignorenulls=True).over(of_set.rowsBetween(*earlier)))
        .withColumn("former", F.last(own, ignorenulls=True).over(of_address.rowsBetween(*earlier)))
    )
    said = F.concat(_present(), _vanished(), _gone(), _renumbered(), _without_set())
    exploded = rows.select("ns_id", "broker_name", "at_us", F.explode(said).alias("said"))
    points = exploded.select("ns_id", "broker_name", "at_us", "said.*")
    # Who still waits for its broker id has a negative one.
    return points.filter("broker_id >= 0")


#: Which process: controllers have other broker ids.
_PROCESS: Final = ("cluster", "broker_name", "broker_addr")
#: When a controller had heard a broker last.
_SIGN: Final = "sign_us"


def with_controller_heartbeats(states: DataFrame, inputs: Inputs) -> DataFrame:
    """Add `sign_us`: when a controller had heard a broker last that a NameServer gave up for its silence.

    Processes are told apart by their addresses, as they have other broker ids there. Of a minute that a controller
    summarised, its beginning is known to be before the last beat.
    """
    at_us = F.unix_micros("event_time")
    given_up = states.filter("event_type = 'expired'").select(
        "event_id", *_PROCESS, _heard_us(at_us).alias("heard_us"), at_us.alias("at_us")
    )
    signs = (
        inputs["heartbeat_summary"]
        .filter("source = 'controller'")
        .select(*_PROCESS, F.unix_micros("minute").alias(_SIGN))
        .unionByName(
            inputs["controller"]
            .filter("event_type = 'failure_detected'")
            .select(*_PROCESS, F.unix_micros("last_heartbeat_time").alias(_SIGN))
        )
    )
    last = (
        signs.join(F.broadcast(given_up), list(_PROCESS), "inner")
        .filter("sign_us > heard_us AND sign_us <= at_us")
        .groupBy("event_id")
        .agg(F.max(_SIGN).alias(_SIGN))
    )
    return states.join(F.broadcast(last), "event_id", "left")


def _heard_us(at_us: SparkColumn | None = None) -> SparkColumn:
    """Return when the server itself heard the row's broker last; when it left, if that is not told."""
    at_us = F.col("at_us") if at_us is None else at_us
    return F.coalesce(at_us - F.col("silent_ms") * 1000, F.unix_micros("last_heartbeat_time"), at_us)


def _is_member() -> SparkColumn:
    """Tell whether the row's own broker had its broker id; who is merely turned away has not been silent."""
    event = F.col("event_type")
    left = event.isin(*_LEFT) & ((event != "conflict") | F.col("silent_ms").isNotNull())
    return F.col("broker_id").isNotNull() & (event.isin(*_KNOWN) | left)


def _members() -> SparkColumn:
    """Return the members of the set, null where the row does not tell."""
    nobody = F.array().cast("array<string>")
    members = F.arrays_zip(
        F.col("set_ids").alias("id"),
        F.coalesce("set_addrs", nobody).alias("addr"),
        F.coalesce("set_clusters", nobody).alias("cluster"),
    )
    return F.transform(
        members,
        lambda each: F.struct(
            each["id"].alias("id"),
            each["addr"].alias("addr"),
            F.coalesce(each["cluster"], "set_cluster", "cluster").alias("cluster"),
        ),
    )


def _present() -> SparkColumn:
    """Say that all members of the set are up."""
    up = F.transform(
        "members", lambda each: _said(F.lit(UP), each["id"], cluster=each["cluster"], address=each["addr"])
    )
    return F.coalesce(up, _nothing())


def _vanished() -> SparkColumn:
    """Say of members that are no longer there what became of them, as far as no row of their own says it."""
    event = F.col("event_type")

    def is_missing(former: SparkColumn) -> SparkColumn:
        same = F.exists(
            "members", lambda each: (each["id"] == former["id"]) & each["cluster"].eqNullSafe(former["cluster"])
        )
        return ~same & ~(event.isin(*_LEFT) & former["id"].eqNullSafe(F.col("broker_id")))

    def what_became(former: SparkColumn) -> SparkColumn:
        # By registering, a broker takes nobody's broker id away but its own former one, or takes it to another cluster.
        # A snapshot tells who is missing, and not since when or why; so does the first word after a pause in recording.
        resumed = F.coalesce("resumed", F.lit(False))
        moved = (event.isin(*_KNOWN) & ~resumed) | F.array_contains("set_ids", former["id"])
        kind = F.when(moved, MOVED).when((event == "snapshot") | resumed, ABSENT).otherwise(DOWN)
        return _said(kind, former["id"], cluster=former["cluster"])

    return F.coalesce(F.transform(F.filter("before", is_missing), what_became), _nothing())


def _gone() -> SparkColumn:
    """Say that the row's own broker left. One whose id another holds is not missed."""
    event = F.col("event_type")
    still_there = F.coalesce(F.array_contains("set_ids", F.col("broker_id")), F.lit(False))
    was_silent = (event == "expired") | ((event == "channel_closed") & ended_by_silence())
    down = _said(
        F.lit(DOWN),
        F.col("broker_id"),
        since_us=F.when(was_silent, F.greatest(_heard_us(), _SIGN)).otherwise(F.col("at_us")),
        planned=event == "unregistered",
        silent=event == "expired",
    )
    return F.when(_is_member() & event.isin(*_LEFT) & ~still_there, F.array(down)).otherwise(_nothing())


def _renumbered() -> SparkColumn:
    """Say that an address that registers is no longer who it was, also if it was not there meanwhile."""
    former = F.col("former")
    elsewhere = (former["id"] == F.col("broker_id")) & ~former["cluster"].eqNullSafe(F.col("cluster"))
    held = (former["id"] == F.col("broker_id")) | F.coalesce(F.array_contains("set_ids", former["id"]), F.lit(False))
    moved = F.col("event_type").isin(*_KNOWN) & F.col("broker_id").isNotNull() & former.isNotNull()
    said = F.array(_said(F.lit(MOVED), former["id"], cluster=former["cluster"]))
    return F.when(moved & (elsewhere | ~held), said).otherwise(_nothing())


def _without_set() -> SparkColumn:
    """Say that the row's own broker is up, where the release that wrote it does not tell how sets stand."""
    known = F.col("set_ids").isNull() & F.col("event_type").isin(*_KNOWN) & F.col("broker_id").isNotNull()
    up = F.array(_said(F.lit(UP), F.col("broker_id"), address=F.col("broker_addr")))
    return F.when(known, up).otherwise(_nothing())


def _said(kind: SparkColumn, broker_id: SparkColumn, **more: SparkColumn) -> SparkColumn:
    """Return what a row says about one broker; `more` is what differs from the usual."""
    usual = {
        "cluster": F.col("cluster"),
        "kind": kind,
        "broker_id": broker_id,
        "since_us": F.col("at_us"),
        "planned": F.lit(False),
        "address": F.lit(None).cast("string"),
        "silent": F.lit(False),
    }
    return F.struct(*(value.alias(name) for name, value in (usual | more).items()))


def _nothing() -> SparkColumn:
    return F.array().cast(
        "array<struct<cluster:string,kind:string,broker_id:bigint,since_us:bigint,planned:boolean,address:string,"
        "silent:boolean>>"
    )
