"""How each NameServer saw each broker: the common ground of availability, flapping and divergence.

The parts of a day are what became known in it: brokers that came or left, servers that began without knowledge, pieces
of observed time, and, since a day has to be readable by itself, how everything stood at its beginning. A removal is
known when the server decides it, and reaches back to the last heartbeat, which may lie before midnight; so `at_us` is
always in the day and `since_us` may be earlier. What is told twice by two days changes nothing.

A NameServer that has just started, or could not record, knows a broker again when it hears of it, and knows that it
is absent once the broker's timeout is over; until then its word does not count.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.intervals import overlaps
from analytics.job import Inputs, Span
from analytics.observed import observed_pieces, observed_times
from analytics.schemas import in_columns
from history.schemas import Column, Type

STATE_INPUTS: Final = ("broker_state", "ns_lifecycle", "ns_tick")

UP: Final = "up"
DOWN: Final = "down"
#: The server knows nothing of brokers from then on.
RESET: Final = "reset"
#: The server was never told of the broker.
ABSENT: Final = "absent"

STATE_PARTS: Final = (
    Column("cluster", Type.STRING, "cluster of the broker"),
    Column("ns_id", Type.STRING, "the NameServer"),
    Column("kind", Type.STRING, "up, down, reset (it knows nothing of brokers from then on), watched or blind"),
    Column("broker_name", Type.STRING, "broker set; null where all brokers are meant"),
    Column("broker_id", Type.LONG, "broker id in its set"),
    Column("at_us", Type.LONG, "when it was known, Unix us; the end of observed time"),
    Column("since_us", Type.LONG, "from when on it is so: the last heartbeat before a silent end; else at_us"),
    Column("planned", Type.BOOLEAN, "down: the broker said good-bye"),
    Column("address", Type.STRING, "up: where the broker is"),
)

#: So long after its start the word of a NameServer counts for brokers that it has not heard of: their usual timeout.
GRACE_US: Final = 120_000_000

_LEFT: Final = ("expired", "channel_closed", "unregistered", "conflict")
_KNOWN: Final = ("registered_first", "changed", "address_changed", "role_changed")
_FORGETS: Final = ("started", "recording_resumed")

_SET: Final = ("ns_id", "broker_name")
_BROKER: Final = ("broker_name", "broker_id")
_VIEW: Final = ("ns_id", *_BROKER)


def of_name_servers(inputs: Inputs, names: tuple[str, ...]) -> dict[str, DataFrame]:
    """Return these inputs without what controllers recorded."""
    return {name: inputs[name].filter("source IS NULL OR source = 'namesrv'") for name in names}


def state_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what became known in the span, and how brokers stood at its beginning: STATE_PARTS."""
    mine = of_name_servers(inputs, STATE_INPUTS)
    resets = _resets(mine["ns_lifecycle"], span)
    points = _from_the_beginning(_points(mine["broker_state"], span), resets, span)
    pieces = observed_pieces(mine, span).select(
        "ns_id", "kind", F.col("end_us").alias("at_us"), F.col("start_us").alias("since_us")
    )
    tables = [points, resets.filter(F.col("at_us") >= span.start_us - GRACE_US), pieces]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)
    return together.select(*in_columns(STATE_PARTS))


def lives(parts: DataFrame, span: Span) -> DataFrame:
    """Return what each NameServer says of each broker, as it really was: a silent broker is down since its last beat.

    One row for each piece of observed time in which that does not change: cluster, ns_id, broker_name, broker_id,
    start_us, end_us, state (up, down, absent), planned, address. Time in which its word does not count is left out.
    """
    return _views(parts, span, F.greatest("since_us", _BEFORE_US))


def answers(parts: DataFrame, span: Span) -> DataFrame:
    """Return what each NameServer answered about each broker: a silent one is up until it is given up.

    The rows are those of `lives`.
    """
    return _views(parts, span, F.col("at_us"))


# From rows of the history to points


def _points(states: DataFrame, span: Span) -> DataFrame:
    """Return when brokers came and left: the columns of STATE_PARTS.

    A row tells how its whole set stands from then on; so it says of each member that it is up, and of each former one
    that it is down, whether or not a row of its own was written.
    """
    known_before = F.last("set_ids", ignorenulls=True).over(
        Window.partitionBy("ns_id", "boot_id", "broker_name")
        .orderBy("mono_us", "seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    us = F.unix_micros("event_time")
    rows = (
        states.filter(us < span.end_us)
        .withColumns({"at_us": us, "seq": F.substring_index("event_id", "-", -1).cast("bigint")})
        .withColumn("ids_before", known_before)
    )
    said = F.concat(_members(), _vanished(), _gone(), _without_set())
    exploded = rows.select("ns_id", "broker_name", "at_us", F.explode(said).alias("said"))
    return exploded.select("ns_id", "broker_name", "at_us", "said.*")


def _members() -> SparkColumn:
    """Say that all members of the set are up."""
    nobody = F.array().cast("array<string>")
    members = F.arrays_zip(
        F.col("set_ids").alias("id"),
        F.coalesce("set_addrs", nobody).alias("addr"),
        F.coalesce("set_clusters", nobody).alias("cluster"),
    )
    up = F.transform(
        members,
        lambda each: _said(UP, each["id"], cluster=F.coalesce(each["cluster"], "cluster"), address=each["addr"]),
    )
    return F.coalesce(up, _nothing())


def _vanished() -> SparkColumn:
    """Say that members are down which are no longer there, without a row of their own that says why."""
    missing = F.array_except("ids_before", "set_ids")
    others = F.filter(missing, lambda each: ~(F.col("event_type").isin(*_LEFT) & each.eqNullSafe(F.col("broker_id"))))
    # A slave that becomes the master leaves its former id in order.
    planned = F.col("event_type") == "role_changed"
    return F.coalesce(F.transform(others, lambda each: _said(DOWN, each, planned=planned)), _nothing())


def _gone() -> SparkColumn:
    """Say that the row's own broker left. One whose id another holds is not missed."""
    still_there = F.coalesce(F.array_contains("set_ids", F.col("broker_id")), F.lit(False))
    left = F.col("event_type").isin(*_LEFT) & F.col("broker_id").isNotNull() & ~still_there
    silent_us = F.coalesce(F.col("silent_ms") * 1000, F.col("at_us") - F.unix_micros("last_heartbeat_time"), F.lit(0))
    unasked = F.col("event_type").isin("expired", "channel_closed")
    since_us = F.when(unasked, F.col("at_us") - silent_us).otherwise(F.col("at_us"))
    planned = F.col("event_type") == "unregistered"
    down = F.array(_said(DOWN, F.col("broker_id"), since_us=since_us, planned=planned))
    return F.when(left, down).otherwise(_nothing())


def _without_set() -> SparkColumn:
    """Say that the row's own broker is up, where the release that wrote it does not tell how sets stand."""
    known = F.col("set_ids").isNull() & F.col("event_type").isin(*_KNOWN) & F.col("broker_id").isNotNull()
    up = F.array(_said(UP, F.col("broker_id"), address=F.col("broker_addr")))
    return F.when(known, up).otherwise(_nothing())


def _said(
    kind: str,
    broker_id: SparkColumn,
    *,
    cluster: SparkColumn | None = None,
    since_us: SparkColumn | None = None,
    planned: SparkColumn | None = None,
    address: SparkColumn | None = None,
) -> SparkColumn:
    """Return what a row says about one broker."""
    return F.struct(
        (F.col("cluster") if cluster is None else cluster).alias("cluster"),
        F.lit(kind).alias("kind"),
        broker_id.alias("broker_id"),
        (F.col("at_us") if since_us is None else since_us).alias("since_us"),
        (F.lit(False) if planned is None else planned).alias("planned"),
        (F.lit(None).cast("string") if address is None else address).alias("address"),
    )


def _nothing() -> SparkColumn:
    return F.array().cast(
        "array<struct<cluster:string,kind:string,broker_id:bigint,since_us:bigint,planned:boolean,address:string>>"
    )


def _resets(lifecycle: DataFrame, span: Span) -> DataFrame:
    """Return when NameServers began to know nothing of brokers."""
    us = F.unix_micros("event_time")
    return lifecycle.filter(F.col("event_type").isin(*_FORGETS) & (us < span.end_us)).select(
        "ns_id", F.lit(RESET).alias("kind"), us.alias("at_us"), us.alias("since_us")
    )


def _from_the_beginning(points: DataFrame, resets: DataFrame, span: Span) -> DataFrame:
    """Return the points of the span; of those before it the last of each view, as one of its first moment.

    What a NameServer knew before it was started counts for nothing.
    """
    columns = ["cluster", "kind", "at_us", "since_us", "planned", "address"]
    forgot = resets.filter(F.col("at_us") < span.start_us).groupBy("ns_id").agg(F.max("at_us").alias("forgot_us"))
    within = F.col("at_us") >= span.start_us
    start_us = F.lit(span.start_us).cast("bigint")
    moved = {name: F.when(within, F.col(name)).otherwise(start_us) for name in ("at_us", "since_us")}
    return (
        points.join(F.broadcast(forgot), "ns_id", "left")
        .filter(within | F.col("forgot_us").isNull() | (F.col("at_us") >= F.col("forgot_us")))
        .groupBy(*_VIEW, F.when(within, F.struct(*columns)).alias("own"))
        .agg(F.max_by(F.struct(*columns), _order()).alias("last"))
        .select(*_VIEW, "last.*")
        .withColumns(moved)
    )


# From points to pieces of time

#: When the piece before began.
_BEFORE_US: Final = "before_us"


def _order() -> SparkColumn:
    """Return in which order points of one view follow: at the same moment forgetting comes first, being up last."""
    rank = F.when(F.col("kind") == UP, 3).when(F.col("kind") == DOWN, 2).when(F.col("kind") == RESET, 1).otherwise(0)
    return F.struct("at_us", rank)


def _views(parts: DataFrame, span: Span, start_us: SparkColumn) -> DataFrame:
    """Return the pieces of `lives`; `start_us` tells when the state of a point really began."""
    view = Window.partitionBy(*_VIEW).orderBy(_order())
    begun = _changes(parts, span).withColumn(_BEFORE_US, F.lag("at_us").over(view))
    really_us = F.when(F.col("kind") == DOWN, start_us).otherwise(F.col("at_us"))
    timed = begun.withColumn("start_us", F.coalesce(really_us, "at_us"))
    last_us = F.lit(span.end_us).cast("bigint")
    pieces = timed.withColumn("end_us", F.coalesce(F.lead("start_us").over(view), last_us))
    observed = observed_times(_as_pieces(parts), span)
    # Who forgot a broker and does not hear of it says after a while that it is absent.
    forgotten = F.col("kind") == RESET
    spoken = pieces.withColumns(
        {
            "start_us": F.when(forgotten, F.col("start_us") + GRACE_US).otherwise(F.col("start_us")),
            "state": F.when(forgotten, ABSENT).otherwise(F.col("kind")),
        }
    ).filter("start_us < end_us")
    return overlaps(spoken, observed, ["ns_id"]).select(
        "cluster", *_VIEW, "start_us", "end_us", "state", "planned", "address"
    )


def _as_pieces(parts: DataFrame) -> DataFrame:
    return parts.filter("kind IN ('watched', 'blind')").select(
        "ns_id", "kind", F.col("since_us").alias("start_us"), F.col("at_us").alias("end_us")
    )


def _changes(parts: DataFrame, span: Span) -> DataFrame:
    """Return the points of all views at which something changes, each view beginning with a broker that is absent."""
    told = parts.filter(F.col("kind").isin(UP, DOWN))
    brokers = told.groupBy(*_BROKER).agg(F.max("cluster").alias("cluster"))
    servers = parts.filter("kind = 'watched'").select("ns_id").distinct()
    before_us = F.lit(span.start_us - GRACE_US - 1).cast("bigint")
    columns = ["at_us", "since_us", "planned", "address"]
    begin = servers.crossJoin(F.broadcast(brokers)).select(
        *_VIEW,
        F.lit(ABSENT).alias("kind"),
        before_us.alias("at_us"),
        before_us.alias("since_us"),
        F.lit(False).alias("planned"),
        F.lit(None).cast("string").alias("address"),
    )
    resets = parts.filter(F.col("kind") == RESET).select("ns_id", "kind", *columns).distinct()
    forgotten = resets.crossJoin(F.broadcast(brokers.select(*_BROKER)))
    points = told.select(*_VIEW, "kind", *columns).unionByName(begin).unionByName(forgotten.select(*begin.columns))
    view = Window.partitionBy(*_VIEW).orderBy(_order())
    same = F.col("kind").eqNullSafe(F.lag("kind").over(view)) & F.col("address").eqNullSafe(F.lag("address").over(view))
    changes = points.withColumn("same", same).filter("NOT same OR kind = 'reset'").drop("same")
    return changes.join(F.broadcast(brokers), list(_BROKER), "inner")
