"""A10: how long each failover took, and in which phase.

The controller records failure, election and notification; each NameServer records when the new master registered.
These are wall clocks of different machines: phases are as exact as the clocks are alike, and a phase that seems to end
before it began is shown so. A phase that nobody recorded is named in `missing`, never guessed.

The NameServers that were there when the master was elected count. One that starts later learns of all brokers then, and
what it lacked is reported as its start (A6): how long a failover took does not depend on when somebody starts a
NameServer. Where none of those showed the new master clients waited for the first that did, unless one could not record
meanwhile: it may have shown it.

Clients of a role address get no other route: for them a failover ends when the address leads to the new master, as a
NameServer found that connected to it. That is `address_leads`; `total` is the end for all others.
"""

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.days import MINUTE_US
from analytics.shared.failovers import (
    CONTROLLER_EVENTS,
    SEEN_WITHIN_US,
    given_at_elections,
    keyed,
    led,
    near_elections,
    soon_after,
    timelines,
)
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.observation import lost_states
from analytics.shared.rows import CLUSTER, KIND, of_kind, of_namesrv, of_span, timed
from analytics.spark.schemas import Frames
from history.columns import Column, Type

#: Within so much before and after an election a NameServer ticks that was there, and could record.
WATCHING_WITHIN_US: Final = MINUTE_US

_REGISTERED: Final = ("registered_first", "address_changed", "role_changed", "changed")
#: Of one with other topics the NameServer had shown already that it was the master, nobody knows since when. Only a
#: former master that is elected again registers so: its data version has the new epoch.
_KNOWN_BEFORE: Final = "changed"

PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("broker_name", Type.STRING, "event, registration: broker set"),
    Column("broker_id", Type.LONG, "event: broker id"),
    Column("broker_addr", Type.STRING, "event, registration, move: the broker's address"),
    Column("ns_id", Type.STRING, "all but event: the NameServer"),
    Column(
        "at_us",
        Type.LONG,
        "event, registration, tick, move: when, unrecorded: until when, given: the moment of an election, Unix us",
    ),
    Column("began_us", Type.LONG, "all but event and served: when the NameServer's process began, Unix us"),
    Column("lost_us", Type.LONG, "unrecorded: since when changes of brokers were lost, Unix us"),
    Column("event_type", Type.STRING, "event, registration: what happened"),
    Column("failover_id", Type.STRING, "event: the failover, as far as it was known"),
    Column("master_epoch", Type.LONG, "event: master epoch"),
    Column("old_master", Type.LONG, "event: the master before"),
    Column("new_master", Type.LONG, "event: the elected"),
    Column("result", Type.STRING, "event: how it ended"),
    Column("cause", Type.STRING, "event: why it happened"),
    Column("last_heartbeat_us", Type.LONG, "event: time of the broker's last heartbeat, Unix us"),
    Column("bytes_at_stake", Type.LONG, "event: bytes that the elected may not have"),
    Column("role_address", Type.STRING, "given: clients got it then; move: it led to the broker"),
    Column("is_checked", Type.BOOLEAN, "given: the NameServer connects to the address"),
    Column("former_addr", Type.STRING, "move: the master to which it was to lead before; null if none was known"),
)

#: Phases in their order: name -> from which moment to which.
PHASES: Final = {
    "detect": ("last_heartbeat", "detected"),
    "start": ("detected", "election_started"),
    "elect": ("election_started", "elected"),
    "notify": ("elected", "notified"),
    "register": ("elected", "visible_first"),
    "spread": ("visible_first", "visible_last"),
    "total": ("last_heartbeat", "visible_last"),
    "serve": ("elected", "serves"),
    "lead": ("serves", "address_leads"),
    "address_total": ("last_heartbeat", "address_leads"),
}

_MOMENTS: Final = (
    "last_heartbeat",
    "detected",
    "election_started",
    "elected",
    "notified",
    "visible_first",
    "visible_last",
    "serves",
    "address_leads",
)
#: Those that every failover has; of the others `missing` names NameServers and addresses.
_OF_EACH: Final = (*_MOMENTS[:5], "serves", "visible")

COLUMNS: Final = (
    Column("kind", Type.STRING, "failover: one of them; phase: what one phase takes over all of them"),
    Column("broker_name", Type.STRING, "failover: the broker set"),
    Column("failover_id", Type.STRING, "failover: <cluster>/<broker set>/<master epoch>; .../none without new master"),
    Column("old_master", Type.LONG, "failover: the master before"),
    Column("new_master", Type.LONG, "failover: the elected; null if nobody was"),
    Column("cause", Type.STRING, "failover: what began it"),
    Column("attempts", Type.LONG, "failover: elections that ended with nobody before it"),
    Column("bytes_at_stake", Type.LONG, "failover: bytes that the elected may not have"),
    *(Column(moment, Type.TIMESTAMP, f"failover: moment {moment}") for moment in _MOMENTS),
    *(Column(f"{phase}_s", Type.DOUBLE, f"failover: s from {a} to {b}") for phase, (a, b) in PHASES.items()),
    Column(
        "namesrvs",
        Type.STRINGS,
        "failover: NameServers that showed the new master, in order, of those that were there when it was elected; or "
        "the first one that started later, if none of those did, and all could record it",
    ),
    Column("visible_ms", Type.LONGS, "failover: ms from the election until they did"),
    Column("slowest_namesrv", Type.STRING, "failover: the last of them"),
    Column(
        "role_addresses",
        Type.STRINGS,
        "failover: role addresses of the set that led to the new master, in order, of those that clients got",
    ),
    Column("role_address_ms", Type.LONGS, "failover: ms from the election until they did"),
    Column(
        "missing",
        Type.STRINGS,
        "failover: moments not recorded; `visible on X` for a NameServer that was there, `role address X` for one that "
        "clients got, and of which no NameServer saw that it led to the new master",
    ),
    Column("phase", Type.STRING, "phase: its name"),
    Column("n", Type.LONG, "phase: failovers that have it"),
    Column("p50_s", Type.DOUBLE, "phase: half of them took no more, s"),
    Column("p95_s", Type.DOUBLE, "phase: 95 % of them took no more, s"),
    Column("max_s", Type.DOUBLE, "phase: the longest, s"),
)


def parts(inputs: Inputs, span: Span) -> Frames:
    """Return the few rows that failovers are made of."""
    events, states = _events(inputs["controller"]), inputs["broker_state"].where(of_namesrv())
    own_events = events.where((F.col("at_us") >= span.start_us) & (F.col("at_us") < span.end_us))
    addresses = inputs["role_address"].where(of_namesrv()).withColumn("began_us", _began_us())
    moves = of_span(addresses.where("event_type = 'leads'"), span)
    return {
        "event": own_events,
        "registration": _registrations(of_span(states, span), events, span).withColumn("began_us", _began_us()),
        "tick": _ticks(of_span(inputs["ns_tick"], span).where(of_namesrv()), events, span).withColumn(
            "began_us", _began_us()
        ),
        "unrecorded": _unrecorded(inputs["ns_lifecycle"], span),
        # A NameServer records nothing of stable brokers for weeks: its earlier rows count.
        "served": states.where("cluster IS NOT NULL").select("cluster", "ns_id").distinct(),
        "given": given_at_elections(addresses, own_events),
        "move": near_elections(moves, events, span.end_us),
    }


def _began_us() -> Expression:
    """Return when the process of a row began; its monotonic clock counts from the machine's start."""
    return F.substring_index("boot_id", "-", -1).try_cast("bigint") * 1000


def _events(controller: DataFrame) -> DataFrame:
    last_heartbeat_us = F.coalesce(F.unix_micros("last_heartbeat_time"), F.col("at_us") - F.col("silent_ms") * 1000)
    events = timed(controller).where(F.col("event_type").isin(*CONTROLLER_EVENTS) & F.col("broker_name").isNotNull())
    return events.withColumn("last_heartbeat_us", last_heartbeat_us)


def _registrations(states: DataFrame, events: DataFrame, span: Span) -> DataFrame:
    """Return registrations of masters near an election of their set, or one that the next day may record."""
    masters = states.where((F.col("broker_id") == 0) & F.col("event_type").isin(*_REGISTERED))
    return near_elections(masters, events, span.end_us)


def _ticks(ticks: DataFrame, events: DataFrame, span: Span) -> DataFrame:
    """Return the ticks near an election, or one that the next day may record."""
    minute = F.floor(F.col("at_us") / MINUTE_US)
    last = ticks.where(F.col("at_us") >= span.end_us - WATCHING_WITHIN_US)
    near = F.explode(F.sequence(minute - 1, minute + 1)).alias("minute")
    elections = events.where("event_type = 'elected'").select(near).distinct()
    watched = ticks.where(F.col("at_us") < span.end_us - WATCHING_WITHIN_US).withColumn("minute", minute)
    return watched.join(F.broadcast(elections), "minute", "left_semi").drop("minute").unionByName(last)


def _unrecorded(lifecycle: DataFrame, span: Span) -> DataFrame:
    """Return when NameServers were there and could not record who came and left."""
    resumed = of_span(lifecycle.where(of_namesrv() & lost_states()), span)
    lost_us = F.unix_micros("unobserved_from")
    return resumed.withColumns({"began_us": F.coalesce(_began_us(), lost_us), "lost_us": lost_us})


def result(parts: DataFrame, span: Span) -> Frames:  # noqa: ARG001 - the parts are those of the span
    """Return one row per failover, and one per phase and cluster over all of them."""
    failovers = timelines(keyed(of_kind(parts, "event")))
    elected = failovers.where("elected IS NOT NULL")
    watching = _watching(elected, of_kind(parts, "tick"), of_kind(parts, "unrecorded"), of_kind(parts, "served"))
    seen = _visible(watching.unionByName(_registered_at(elected, of_kind(parts, "registration"))))
    ticks, given, moves = (of_kind(parts, kind) for kind in ("tick", "given", "move"))
    led_to = led(elected, ticks, given, moves, WATCHING_WITHIN_US)
    joined = failovers.join(seen, "failover_id", "left").join(led_to, "failover_id", "left")
    measured = _measured(joined).localCheckpoint()
    return {"failover": measured, "phase": _phases(measured)}


def _watching(elected: DataFrame, ticks: DataFrame, unrecorded: DataFrame, served: DataFrame) -> DataFrame:
    """Return, for each election, the NameServers of that cluster that were there when it was held, and after it.

    `is_unrecorded`: it may have shown the new master, and could not record it.
    """
    expected = elected.select("failover_id", "cluster", "elected").join(
        F.broadcast(served.select("ns_id", "cluster").distinct()), "cluster", "inner"
    )
    after_us, began_us, lost_us = (F.col(name) - F.col("elected") for name in ("at_us", "began_us", "lost_us"))
    ticked = (
        expected.join(ticks.select("ns_id", "at_us", "began_us"), "ns_id", "inner")
        .where(F.abs(after_us) <= WATCHING_WITHIN_US)
        .where(F.coalesce(began_us <= 0, F.lit(True)))
        .groupBy("failover_id", "ns_id")
        .agg(F.min(F.least(after_us, began_us)).alias("first"), F.max(after_us).alias("last"))
        .where("first <= 0 AND last >= 0")
        .withColumn("is_unrecorded", F.lit(False))
    )
    # Its ticks were lost with the rest.
    unrecorded_servers = (
        expected.join(unrecorded.select("ns_id", "at_us", "began_us", "lost_us"), "ns_id", "inner")
        .where((began_us <= 0) & (after_us > 0))
        .withColumn("is_unrecorded", F.coalesce(lost_us < SEEN_WITHIN_US, F.lit(True)))
    )
    who = ["failover_id", "ns_id", "is_unrecorded"]
    return (
        ticked.select(*who)
        .unionByName(unrecorded_servers.select(*who))
        .withColumns({"after_us": F.lit(None).cast("bigint"), "is_late": F.lit(False)})
    )


def _registered_at(elected: DataFrame, registrations: DataFrame) -> DataFrame:
    """Return when the new master registered with each NameServer, us after the election, as far as it did.

    `is_late`: the NameServer's process began after the election.
    """
    is_new = ~F.col("r.event_type").eqNullSafe(_KNOWN_BEFORE) | (F.col("f.old_master") == F.col("f.new_master"))
    is_late = F.coalesce(F.col("r.began_us") > F.col("f.elected"), F.lit(False))
    return (
        soon_after(elected, registrations)
        .where(is_new)
        .select("f.failover_id", "r.ns_id", "after_us", is_late.alias("is_late"), F.lit(False).alias("is_unrecorded"))
    )


def _visible(seen: DataFrame) -> DataFrame:
    """Return, by failover, the NameServers that showed the new master, and those that were there and did not.

    Where none of those that were there did, clients learned of it from the first that started later.
    """
    us, is_late = F.col("after_us"), F.col("is_late")
    by_server = seen.groupBy("failover_id", "ns_id").agg(
        F.min(F.when(~is_late, us)).alias("in_time_us"),
        F.min(F.when(is_late, us)).alias("late_us"),
        F.bool_or("is_unrecorded").alias("is_unrecorded"),
        F.bool_or(us.isNull()).alias("was_there"),
    )
    in_time, first_late = _in_order("in_time_us"), F.slice(_in_order("late_us"), 1, 1)
    visible = by_server.groupBy("failover_id").agg(
        F.when((F.size(in_time) > 0) | F.bool_or("is_unrecorded"), in_time).otherwise(first_late).alias("shown"),
        F.collect_list(F.when(F.col("was_there"), F.col("ns_id"))).alias("expected"),
    )
    not_visible_on = F.array_sort(F.array_except("expected", F.col("shown")["ns_id"]))
    return visible.select("failover_id", "shown", not_visible_on.alias("not_visible_on"))


def _in_order(after_us: str) -> Expression:
    """Return the NameServers that have such a time, by it."""
    has = F.col(after_us).isNotNull()
    return F.array_sort(F.collect_list(F.when(has, F.struct(F.col(after_us).alias("after_us"), "ns_id"))))


def _measured(failovers: DataFrame) -> DataFrame:
    """Return the failovers with phases in seconds, and what is missing of them."""
    shown, led_to = _recorded("shown", "ns_id"), _recorded("led", "role_address")
    not_visible_on, not_led = (
        F.coalesce(name, F.array().cast("array<string>")) for name in ("not_visible_on", "not_led")
    )
    whole = failovers.withColumns(
        {"shown": shown, "led": led_to, "not_visible_on": not_visible_on, "not_led": not_led}
    ).withColumns(
        {
            "namesrvs": F.col("shown")["ns_id"],
            "visible_ms": _ms("shown"),
            "visible_first": F.col("elected") + F.array_min(F.col("shown")["after_us"]),
            "visible_last": F.col("elected") + F.array_max(F.col("shown")["after_us"]),
            "slowest_namesrv": F.get(F.reverse(F.col("shown")["ns_id"]), F.lit(0)),
            "role_addresses": F.col("led")["role_address"],
            "role_address_ms": _ms("led"),
            # Clients of each address count; where one leads to which nobody connects is not known.
            "address_leads": F.when(F.col("all_checked_led"), F.col("elected") + F.array_max(F.col("led")["after_us"])),
        }
    )
    phases = {f"{phase}_s": (F.col(until) - F.col(since)) / 1e6 for phase, (since, until) in PHASES.items()}
    named = whole.withColumn("visible", F.col("visible_last")).withColumn("missing", _missing()).withColumns(phases)
    return named.withColumns({moment: F.timestamp_micros(moment) for moment in _MOMENTS})


def _recorded(column: str, of: str) -> Expression:
    """Return an array of who saw the new master and when, empty for none."""
    return F.coalesce(column, F.array().cast(f"array<struct<after_us:bigint,{of}:string>>"))


def _ms(column: str) -> Expression:
    return F.transform(F.col(column)["after_us"], lambda us: F.floor(us / 1000))


def _missing() -> Expression:
    expected = {"last_heartbeat": ~F.col("planned"), "detected": ~F.col("planned")}
    unseen = [F.when(F.col(moment).isNull() & expected.get(moment, F.lit(True)), moment) for moment in _OF_EACH]
    on_some = F.transform("not_visible_on", lambda name: F.concat(F.lit("visible on "), name))
    addresses = F.transform("not_led", lambda name: F.concat(F.lit("role address "), name))
    return F.concat(F.array_compact(F.array(*unseen)), on_some, addresses)


def _phases(failovers: DataFrame) -> DataFrame:
    phases = F.explode(
        F.array(*(F.struct(F.lit(name).alias("phase"), F.col(f"{name}_s").alias("s")) for name in PHASES))
    )
    each = (
        failovers.select("cluster", phases.alias("each"))
        .select("cluster", "each.phase", "each.s")
        .where("s IS NOT NULL")
    )
    return each.groupBy("cluster", "phase").agg(
        F.count(F.lit(1)).alias("n"),
        F.percentile("s", F.lit(0.5)).alias("p50_s"),
        F.percentile("s", F.lit(0.95)).alias("p95_s"),
        F.max("s").alias("max_s"),
    )


JOB: Final = Job(
    id="A10",
    name="failover_timeline",
    question="How long did each failover take, and in which phase?",
    inputs=("controller", "broker_state", "ns_tick", "ns_lifecycle", "role_address"),
    parts_of=parts,
    result_of=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
    # The sums are few, and failovers that have not ended matter most.
    order=("kind = 'phase' DESC", "new_master IS NULL DESC", "visible_last IS NULL DESC", "total_s DESC NULLS LAST"),
)
