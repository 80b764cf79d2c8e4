"""Points at which a NameServer learned that a broker came or left, from rows of `broker_state` and of controllers.

A row with the state of its whole set yields a point for each member, and for each former member that is missing.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.job import Inputs, Span
from analytics.shared.rows import sequence

UP: Final = "up"
DOWN: Final = "down"
#: The server knows nothing of brokers from then on.
RESET: Final = "reset"
#: Its process has another broker id from then on: none failed, and none is missed.
MOVED: Final = "moved"
#: The server was never with_controller of the broker, or lost sight of it.
ABSENT: Final = "absent"

#: Servers close connections on which so long nothing came, unless serverChannelMaxIdleTimeSeconds is set otherwise.
IDLE_MS: Final = 120_000

_LEFT: Final = ("expired", "channel_closed", "unregistered", "conflict")
_KNOWN: Final = ("registered_first", "changed", "address_changed", "role_changed")


def ended_by_timeout() -> SparkColumn:
    """Return whether a timeout ended the connection: no byte came for the timeout, or until it was closed as idle."""
    return F.coalesce(F.col("silent_ms") >= F.least("timeout_ms", F.lit(IDLE_MS)), F.lit(False))


def state_points(states: DataFrame, resets: DataFrame, span: Span) -> DataFrame:
    """Return when brokers came and left: the columns of STATE_PARTS.

    A row holds the state of its whole set from then on: each member is up, and each former member is not, whether or
    not it has a row of its own.
    """
    us = F.unix_micros("event_time")
    earlier = (Window.unboundedPreceding, -1)
    of_set = Window.partitionBy("ns_id", "boot_id", "broker_name").orderBy("mono_us", "seq")
    before_set = of_set.rowsBetween(*earlier)
    next_us = F.first(F.when(F.col("set_ids").isNotNull(), F.col("at_us")), ignorenulls=True).over(
        of_set.rowsBetween(1, Window.unboundedFollowing)
    )
    known_count = F.when(F.col("members").isNotNull(), F.col("reset_count"))
    of_address = Window.partitionBy("ns_id", "broker_name", "broker_addr").orderBy("at_us", "seq")
    own = F.when(_is_member(), F.struct("cluster", F.col("broker_id").alias("id")))
    if _CONTROLLER_HEARTBEAT not in states.columns:
        states = states.withColumn(_CONTROLLER_HEARTBEAT, F.lit(None).cast("bigint"))
    rows = (
        states.filter(us < span.end_us)
        .join(F.broadcast(resets.groupBy("ns_id").agg(F.collect_list("at_us").alias("resets_us"))), "ns_id", "left")
        .withColumns({"at_us": us, "seq": sequence()})
        # Of several rows of one moment the last one with the set counts.
        .withColumn("members", F.when(~next_us.eqNullSafe(F.col("at_us")), _members()))
        .withColumn("reset_count", F.size(F.filter("resets_us", lambda reset_us: reset_us <= F.col("at_us"))))
        .withColumn("before", F.last("members", ignorenulls=True).over(before_set))
        .withColumn("resumed", F.col("reset_count") > F.last(known_count, ignorenulls=True).over(before_set))
        .withColumn("former", F.last(own, ignorenulls=True).over(of_address.rowsBetween(*earlier)))
    )
    each_point = F.concat(_present_members(), _missing_members(), _left_broker(), _moved_address(), _up_without_set())
    exploded = rows.select("ns_id", "broker_name", "at_us", F.explode(each_point).alias("point"))
    points = exploded.select("ns_id", "broker_name", "at_us", "point.*")
    # A broker without a broker id yet has a negative one.
    return points.filter("broker_id >= 0")


#: Which process: controllers have other broker ids.
_PROCESS: Final = ("cluster", "broker_name", "broker_addr")
#: Time of the last heartbeat of a broker to a controller.
_CONTROLLER_HEARTBEAT: Final = "controller_heartbeat_us"


def with_controller_heartbeats(states: DataFrame, inputs: Inputs) -> DataFrame:
    """Add `controller_heartbeat_us`: the last heartbeat to a controller of a broker that expired at a NameServer.

    Processes are matched by their addresses, as they have other broker ids there. Of a minute that a controller
    summarised, its beginning is known to precede the last heartbeat.
    """
    at_us = F.unix_micros("event_time")
    expired = states.filter("event_type = 'expired'").select(
        "event_id", *_PROCESS, _last_heartbeat_us(at_us).alias("last_heartbeat_us"), at_us.alias("at_us")
    )
    heartbeats = (
        inputs["heartbeat_summary"]
        .filter("source = 'controller'")
        .select(*_PROCESS, F.unix_micros("minute").alias(_CONTROLLER_HEARTBEAT))
        .unionByName(
            inputs["controller"]
            .filter("event_type = 'failure_detected'")
            .select(*_PROCESS, F.unix_micros("last_heartbeat_time").alias(_CONTROLLER_HEARTBEAT))
        )
    )
    last = (
        heartbeats.join(F.broadcast(expired), list(_PROCESS), "inner")
        .filter("controller_heartbeat_us > last_heartbeat_us AND controller_heartbeat_us <= at_us")
        .groupBy("event_id")
        .agg(F.max(_CONTROLLER_HEARTBEAT).alias(_CONTROLLER_HEARTBEAT))
    )
    return states.join(F.broadcast(last), "event_id", "left")


def _last_heartbeat_us(at_us: SparkColumn | None = None) -> SparkColumn:
    """Return when the row's broker last sent the server a heartbeat; when it left, if that is not known."""
    at_us = F.col("at_us") if at_us is None else at_us
    return F.coalesce(at_us - F.col("silent_ms") * 1000, F.unix_micros("last_heartbeat_time"), at_us)


def _is_member() -> SparkColumn:
    """Return whether the row's own broker had its broker id; who is merely turned away has not been silent."""
    event = F.col("event_type")
    left = event.isin(*_LEFT) & ((event != "conflict") | F.col("silent_ms").isNotNull())
    return F.col("broker_id").isNotNull() & (event.isin(*_KNOWN) | left)


def _members() -> SparkColumn:
    none = F.array().cast("array<string>")
    members = F.arrays_zip(
        F.col("set_ids").alias("id"),
        F.coalesce("set_addrs", none).alias("addr"),
        F.coalesce("set_clusters", none).alias("cluster"),
    )
    return F.transform(
        members,
        lambda each: F.struct(
            each["id"].alias("id"),
            each["addr"].alias("addr"),
            F.coalesce(each["cluster"], "set_cluster", "cluster").alias("cluster"),
        ),
    )


def _present_members() -> SparkColumn:
    """Return a point for each member of the set: it is up."""
    up = F.transform(
        "members", lambda each: _point(F.lit(UP), each["id"], cluster=each["cluster"], address=each["addr"])
    )
    return F.coalesce(up, _nothing())


def _missing_members() -> SparkColumn:
    """Return a point for each former member that is missing, unless a row of its own has the reason."""
    event = F.col("event_type")

    def is_missing(former: SparkColumn) -> SparkColumn:
        same = F.exists(
            "members", lambda each: (each["id"] == former["id"]) & each["cluster"].eqNullSafe(former["cluster"])
        )
        return ~same & ~(event.isin(*_LEFT) & former["id"].eqNullSafe(F.col("broker_id")))

    def point_of(former: SparkColumn) -> SparkColumn:
        # By registering, a broker takes none's broker id away but its own former one, or takes it to another cluster.
        # A snapshot shows who is missing, and not since when or why; so does the first row after a pause in recording.
        resumed = F.coalesce("resumed", F.lit(False))
        moved = (event.isin(*_KNOWN) & ~resumed) | F.array_contains("set_ids", former["id"])
        kind = F.when(moved, MOVED).when((event == "snapshot") | resumed, ABSENT).otherwise(DOWN)
        return _point(kind, former["id"], cluster=former["cluster"])

    return F.coalesce(F.transform(F.filter("before", is_missing), point_of), _nothing())


def _left_broker() -> SparkColumn:
    """Return the point at which the row's own broker left; none while another one has its id."""
    event = F.col("event_type")
    still_there = F.coalesce(F.array_contains("set_ids", F.col("broker_id")), F.lit(False))
    was_silent = (event == "expired") | ((event == "channel_closed") & ended_by_timeout())
    down = _point(
        F.lit(DOWN),
        F.col("broker_id"),
        since_us=F.when(was_silent, F.greatest(_last_heartbeat_us(), _CONTROLLER_HEARTBEAT)).otherwise(F.col("at_us")),
        planned=event == "unregistered",
        silent=event == "expired",
    )
    return F.when(_is_member() & event.isin(*_LEFT) & ~still_there, F.array(down)).otherwise(_nothing())


def _moved_address() -> SparkColumn:
    """Return the point at which the broker of an address lost its former id, also after an absence."""
    former = F.col("former")
    elsewhere = (former["id"] == F.col("broker_id")) & ~former["cluster"].eqNullSafe(F.col("cluster"))
    held = (former["id"] == F.col("broker_id")) | F.coalesce(F.array_contains("set_ids", former["id"]), F.lit(False))
    moved = F.col("event_type").isin(*_KNOWN) & F.col("broker_id").isNotNull() & former.isNotNull()
    point = F.array(_point(F.lit(MOVED), former["id"], cluster=former["cluster"]))
    return F.when(moved & (elsewhere | ~held), point).otherwise(_nothing())


def _up_without_set() -> SparkColumn:
    """Return that the row's own broker is up, where the release that wrote the row records no sets."""
    known = F.col("set_ids").isNull() & F.col("event_type").isin(*_KNOWN) & F.col("broker_id").isNotNull()
    up = F.array(_point(F.lit(UP), F.col("broker_id"), address=F.col("broker_addr")))
    return F.when(known, up).otherwise(_nothing())


def _point(kind: SparkColumn, broker_id: SparkColumn, **more: SparkColumn) -> SparkColumn:
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
