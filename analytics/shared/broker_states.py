"""How each NameServer saw each broker: the common ground of availability, flapping and divergence.

The parts of a day are what became known in it: brokers that came or left, servers that began without knowledge, pieces
of observed time, and, since a day has to be readable by itself, how everything stood at its beginning. A removal is
known when the server decides it, and where the broker was silent it reaches back to its last heartbeat, which may lie
before midnight; so `at_us` is always in the day and `since_us` may be earlier. What two days both hold changes nothing.
A broker whose heartbeat a controller got after the NameServer's last one lived until then. One whose connection ended
died then: its host ended it, or it ended it itself.

A NameServer that has just started, or could not record, knows a broker again once it registers, and knows that it
is absent once the broker's timeout is over; until then its word does not count.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.intervals import overlaps
from analytics.shared.job import Inputs, Span
from analytics.shared.observation import lost_states, observed_pieces, observed_times
from analytics.shared.rows import CLUSTER, by_last_clock
from analytics.shared.state_points import ABSENT, DOWN, MOVED, RESET, UP, state_points, with_controller_heartbeats
from analytics.spark.schemas import united
from history.columns import Column, Type

STATE_INPUTS: Final = ("broker_state", "ns_lifecycle", "ns_tick")

#: With the heartbeats of controllers.
AVAILABILITY_INPUTS: Final = (*STATE_INPUTS, "heartbeat_summary", "controller")

STATE_PARTS: Final = (
    CLUSTER,
    Column("ns_id", Type.STRING, "the NameServer"),
    Column("kind", Type.STRING, "up, down, moved (has another id), absent, reset (no broker known), watched, blind"),
    Column("broker_name", Type.STRING, "broker set; null where all brokers are meant"),
    Column("broker_id", Type.LONG, "broker id in its set"),
    Column("at_us", Type.LONG, "when it was known, Unix us; the end of observed time"),
    Column("since_us", Type.LONG, "from when on it may be so: the last heartbeat before a silent end; else at_us"),
    Column("planned", Type.BOOLEAN, "down: the broker unregistered"),
    Column("address", Type.STRING, "up: where the broker is"),
    Column("silent", Type.BOOLEAN, "down: it expired"),
)

#: For so long after a NameServer starts, brokers that have not registered are not absent: their usual timeout.
GRACE_US: Final = 120_000_000

#: Which broker; in one store two groups of NameServers may serve clusters with brokers of the same names.
BROKER: Final = ("cluster", "broker_name", "broker_id")
_VIEW: Final = ("ns_id", *BROKER)


def of_name_servers(inputs: Inputs, names: tuple[str, ...]) -> dict[str, DataFrame]:
    """Return these inputs without what controllers recorded, by the clocks of NameServers as these were set last."""
    lifecycle = inputs["ns_lifecycle"]
    mine = {name: inputs[name].filter("source IS NULL OR source = 'namesrv'") for name in names}
    return {name: by_last_clock(rows, lifecycle) for name, rows in mine.items()}


def availability_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return STATE_PARTS with regard to controllers' heartbeats of brokers that NameServers lost."""
    mine = of_name_servers(inputs, STATE_INPUTS)
    return state_parts({**mine, "broker_state": with_controller_heartbeats(mine["broker_state"], inputs)}, span)


def state_parts(mine: Inputs, span: Span) -> DataFrame:
    """Return what became known in the span, and how brokers stood at its beginning: STATE_PARTS.

    `mine` are `of_name_servers`.
    """
    resets = _resets(mine["ns_lifecycle"], span)
    points = _from_the_beginning(state_points(mine["broker_state"], resets, span), resets, span)
    pieces = observed_pieces(mine, span).select(
        "ns_id", "kind", F.col("end_us").alias("at_us"), F.col("start_us").alias("since_us")
    )
    tables = [points, resets.filter(F.col("at_us") >= span.start_us - GRACE_US), pieces]
    return united(tables)


def actual_states(parts: DataFrame, span: Span) -> DataFrame:
    """Return what each NameServer says of each broker, as it really was: a silent one is down since its last sign.

    One row for each piece of observed time in which that does not change: cluster, ns_id, broker_name, broker_id,
    start_us, end_us, state (up, down, moved, absent), planned, address, silent, sure_us. Before `sure_us` a broker that
    is down may have lived: it was silent, and not given up yet. Time in which a server's word does not count is left
    out.
    """
    return _views(parts, span, F.greatest("since_us", _BEFORE_US))


def reported_states(parts: DataFrame, span: Span) -> DataFrame:
    """Return what each NameServer answered about each broker: a silent one is up until it expires.

    The rows are those of `actual_states`.
    """
    return _views(parts, span, F.col("at_us"))


def _resets(lifecycle: DataFrame, span: Span) -> DataFrame:
    """Return when NameServers began to know nothing of brokers."""
    us = F.unix_micros("event_time")
    forgets = (F.col("event_type") == "started") | lost_states()
    return lifecycle.filter(forgets & (us < span.end_us)).select(
        "ns_id", F.lit(RESET).alias("kind"), us.alias("at_us"), us.alias("since_us")
    )


def _from_the_beginning(points: DataFrame, resets: DataFrame, span: Span) -> DataFrame:
    """Return the points of the span; of those before it the last of each view, as one of its first moment.

    What a NameServer knew before it was started counts for nothing.
    """
    columns = ["kind", "at_us", "since_us", "planned", "address", "silent"]
    forgot = resets.filter(F.col("at_us") < span.start_us).groupBy("ns_id").agg(F.max("at_us").alias("forgot_us"))
    within = F.col("at_us") >= span.start_us
    start_us = F.lit(span.start_us).cast("bigint")
    times = {name: F.when(within, F.col(name)).otherwise(start_us) for name in ("at_us", "since_us")}
    return (
        points.join(F.broadcast(forgot), "ns_id", "left")
        .filter(within | F.col("forgot_us").isNull() | (F.col("at_us") >= F.col("forgot_us")))
        .groupBy(*_VIEW, F.when(within, F.struct(*columns)).alias("own"))
        .agg(F.max_by(F.struct(*columns), _recency()).alias("last"))
        .select(*_VIEW, "last.*")
        .withColumns(times)
    )


# From points to pieces of time

#: When the piece before began.
_BEFORE_US: Final = "before_us"


#: What points of one moment show, in their order: forgetting comes first, being up last.
_KINDS: Final = (RESET, ABSENT, DOWN, MOVED, UP)


def _rank() -> SparkColumn:
    return F.array_position(F.lit(list(_KINDS)), F.col("kind"))


def _order() -> SparkColumn:
    """Return in which order points of one view follow.

    Of brokers that leave together the first row says that the others are missing, and their own say since when: the
    earliest time comes first, and with it counts.
    """
    return F.struct("at_us", _rank(), "since_us", ~F.col("planned"), "address")


def _recency() -> SparkColumn:
    """Return what is greatest for the point that counts among the last ones of a view."""
    return F.struct("at_us", _rank(), -F.col("since_us"), "planned", "address")


def _views(parts: DataFrame, span: Span, start_us: SparkColumn) -> DataFrame:
    """Return the pieces of `actual_states`; `start_us` is when the state of a point really began."""
    view = Window.partitionBy(*_VIEW).orderBy(_order())
    begun = _changes(parts, span).withColumn(_BEFORE_US, F.lag("at_us").over(view))
    really_us = F.when(F.col("kind") == DOWN, start_us).otherwise(F.col("at_us"))
    timed = begun.withColumn("start_us", F.coalesce(really_us, "at_us"))
    last_us = F.lit(span.end_us).cast("bigint")
    pieces = timed.withColumn("end_us", F.coalesce(F.lead("start_us").over(view), last_us))
    observed = watched(parts, span)
    # After a while without a registration a NameServer that lost a broker counts it as absent.
    forgotten = F.col("kind") == RESET
    spoken = pieces.withColumns(
        {
            "start_us": F.when(forgotten, F.col("start_us") + GRACE_US).otherwise(F.col("start_us")),
            "state": F.when(forgotten, ABSENT).otherwise(F.col("kind")),
        }
    ).filter("start_us < end_us")
    sure_us = F.when(F.col("state") == DOWN, F.col("at_us")).otherwise(F.col("start_us")).alias("sure_us")
    return overlaps(spoken, observed, ["ns_id"]).select(
        *_VIEW, "start_us", "end_us", "state", "planned", "address", "silent", sure_us
    )


def watched(parts: DataFrame, span: Span) -> DataFrame:
    """Return when each NameServer was watching: ns_id, start_us, end_us."""
    pieces = parts.filter("kind IN ('watched', 'blind')").select(
        "ns_id", "kind", F.col("since_us").alias("start_us"), F.col("at_us").alias("end_us")
    )
    return observed_times(pieces, span)


def _changes(parts: DataFrame, span: Span) -> DataFrame:
    """Return the points of all views at which something changes, each view beginning with a broker that is absent."""
    columns = ["kind", "at_us", "since_us", "planned", "address", "silent"]
    stored = parts.filter(F.col("kind").isin(UP, DOWN, MOVED, ABSENT)).select(*_VIEW, *columns)
    before_us = F.lit(span.start_us - GRACE_US - 1).cast("bigint")
    absent = {
        "kind": F.lit(ABSENT),
        "at_us": before_us,
        "since_us": before_us,
        "planned": F.lit(False),
        "address": F.lit(None).cast("string"),
        "silent": F.lit(False),
    }
    begin = F.struct(*(value.alias(name) for name, value in absent.items()))
    resets = (
        parts.filter(F.col("kind") == RESET).groupBy("ns_id").agg(F.collect_set(F.struct(*columns)).alias("resets"))
    )
    nothing = F.array().cast(resets.schema["resets"].dataType)
    unsaid = F.concat(F.array(begin), F.coalesce("resets", nothing))
    begun = _all_views(stored).join(F.broadcast(resets), "ns_id", "left").select(*_VIEW, F.inline(unsaid))
    points = stored.unionByName(begun)
    view = Window.partitionBy(*_VIEW).orderBy(_order())
    same = F.col("kind").eqNullSafe(F.lag("kind").over(view)) & F.col("address").eqNullSafe(F.lag("address").over(view))
    known = F.last(F.when(F.col("kind") != RESET, F.col("kind")), ignorenulls=True).over(
        view.rowsBetween(Window.unboundedPreceding, -1)
    )
    # A server that has forgotten who moved does not wait for it.
    is_change = F.when(F.col("kind") == RESET, known != MOVED).otherwise(~same)
    return points.withColumn("is_change", is_change).filter("is_change").drop("is_change")


def _all_views(stored: DataFrame) -> DataFrame:
    """Return each broker with each NameServer that speaks of its cluster."""
    servers = F.collect_set("ns_id").alias("servers")
    brokers = F.collect_set(F.struct("broker_name", "broker_id")).alias("brokers")
    by_cluster = stored.groupBy("cluster").agg(servers, brokers)
    one_server = by_cluster.select("cluster", "brokers", F.explode("servers").alias("ns_id"))
    return one_server.select("ns_id", "cluster", F.inline("brokers"))
