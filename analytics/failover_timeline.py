"""A10: how long each failover took, and in which phase.

The controller tells of death, election and notification; each NameServer tells when the new master registered with it.
These are wall clocks of different machines: phases are as exact as the clocks are alike, and a phase that seems to end
before it began is shown so. A phase that nobody recorded is named in `missing`, never guessed.
"""

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.job import Inputs, Job, Span
from analytics.rows import CLUSTER, HOUR_US, KIND, MINUTE_US, of_kind, of_kinds, of_span, shaped, timed
from history.schemas import Column, Type

#: A registration so long after the election is another story.
VISIBLE_WITHIN_US: Final = 10 * MINUTE_US

#: Whom an operator has deposed was not detected as dead.
UNDETECTED_CAUSES: Final = ("operator", "broker", "manual")

_CONTROLLER_EVENTS: Final = ("failure_detected", "election_started", "elected", "role_notified")
_REGISTERED: Final = ("registered_first", "changed", "address_changed", "role_changed")

PART_COLUMNS: Final = (
    KIND,
    CLUSTER,
    Column("broker_name", Type.STRING, "event, registration: broker set"),
    Column("broker_id", Type.LONG, "event: broker id"),
    Column("broker_addr", Type.STRING, "event, registration: the broker's address"),
    Column("ns_id", Type.STRING, "registration, watching: the NameServer"),
    Column("at_us", Type.LONG, "when, Unix us; watching: the beginning of an hour in which it ticked"),
    Column("event_type", Type.STRING, "event: what happened"),
    Column("failover_id", Type.STRING, "event: the failover, as far as it was known"),
    Column("master_epoch", Type.LONG, "event: master epoch"),
    Column("old_master", Type.LONG, "event: the master before"),
    Column("new_master", Type.LONG, "event: the elected"),
    Column("result", Type.STRING, "event: how it ended"),
    Column("cause", Type.STRING, "event: why it happened"),
    Column("last_beat_us", Type.LONG, "event: when the broker was heard last, Unix us"),
    Column("bytes_at_stake", Type.LONG, "event: bytes that the elected may not have"),
)

#: Phases in their order: name -> from which moment to which.
PHASES: Final = {
    "detect": ("last_beat", "detected"),
    "start": ("detected", "election_started"),
    "elect": ("election_started", "elected"),
    "notify": ("elected", "notified"),
    "register": ("elected", "visible_first"),
    "spread": ("visible_first", "visible_last"),
    "total": ("last_beat", "visible_last"),
}

_MOMENTS: Final = ("last_beat", "detected", "election_started", "elected", "notified", "visible_first", "visible_last")

COLUMNS: Final = (
    Column("kind", Type.STRING, "failover: one of them; phase: what one phase takes over all of them"),
    Column("broker_name", Type.STRING, "failover: the broker set"),
    Column(
        "failover_id", Type.STRING, "failover: <cluster>/<broker set>/<master epoch>; .../none if nobody was elected"
    ),
    Column("old_master", Type.LONG, "failover: the master before"),
    Column("new_master", Type.LONG, "failover: the elected; null if nobody was"),
    Column("cause", Type.STRING, "failover: what began it"),
    Column("attempts", Type.LONG, "failover: elections that ended with nobody before it"),
    Column("bytes_at_stake", Type.LONG, "failover: bytes that the elected may not have"),
    *(Column(moment, Type.TIMESTAMP, f"failover: moment {moment}") for moment in _MOMENTS),
    *(Column(f"{phase}_s", Type.DOUBLE, f"failover: s from {a} to {b}") for phase, (a, b) in PHASES.items()),
    Column("namesrvs", Type.STRINGS, "failover: NameServers that showed the new master, in order"),
    Column("visible_ms", Type.LONGS, "failover: ms from the election until they did"),
    Column("slowest_namesrv", Type.STRING, "failover: the last of them"),
    Column("missing", Type.STRINGS, "failover: moments that nobody recorded; `visible on X` for a NameServer"),
    Column("phase", Type.STRING, "phase: its name"),
    Column("n", Type.LONG, "phase: failovers that have it"),
    Column("p50_s", Type.DOUBLE, "phase: half of them took no more, s"),
    Column("p95_s", Type.DOUBLE, "phase: 95 % of them took no more, s"),
    Column("max_s", Type.DOUBLE, "phase: the longest, s"),
)


def parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return the few rows that failovers are told by."""
    events = _events(inputs["controller"])
    ticks = of_span(inputs["ns_tick"], span).where(_of_namesrv())
    hour_us = (F.floor(F.col("at_us") / HOUR_US) * HOUR_US).alias("at_us")
    frames = {
        "event": events.where((F.col("at_us") >= span.start_us) & (F.col("at_us") < span.end_us)),
        "registration": _registrations(of_span(inputs["broker_state"], span), events),
        "watching": ticks.select("ns_id", hour_us).distinct(),
    }
    return of_kinds(frames, PART_COLUMNS)


def _of_namesrv() -> Expression:
    return F.coalesce(F.col("source"), F.lit("namesrv")) == "namesrv"


def _events(controller: DataFrame) -> DataFrame:
    last_beat_us = F.coalesce(F.unix_micros("last_heartbeat_time"), F.col("at_us") - F.col("silent_ms") * 1000)
    told = timed(controller).where(F.col("event_type").isin(*_CONTROLLER_EVENTS) & F.col("broker_name").isNotNull())
    return told.withColumn("last_beat_us", last_beat_us)


def _registrations(states: DataFrame, events: DataFrame) -> DataFrame:
    """Return registrations of masters that came soon after an election of their set."""
    masters = states.where((F.col("broker_id") == 0) & F.col("event_type").isin(*_REGISTERED) & _of_namesrv())
    elections = events.where("event_type = 'elected'").select("broker_name", F.col("at_us").alias("elected_us"))
    since = F.col("at_us") - F.col("elected_us")
    soon = [masters["broker_name"] == elections["broker_name"], since >= 0, since < VISIBLE_WITHIN_US]
    return masters.join(F.broadcast(elections), soon, "left_semi")


def result(parts: DataFrame, span: Span) -> DataFrame:  # noqa: ARG001 - what the parts tell of is the span
    """Return one row per failover, and one per phase and cluster over all of them."""
    failovers = timelines(keyed(of_kind(parts, "event")))
    seen = _visible(failovers, of_kind(parts, "registration"), of_kind(parts, "watching"))
    measured = _measured(failovers.join(seen, "failover_id", "left")).localCheckpoint()
    return shaped(
        of_kinds({"failover": measured, "phase": _phases(measured)}, (CLUSTER, *COLUMNS)), (CLUSTER, *COLUMNS)
    )


def keyed(events: DataFrame) -> DataFrame:
    """Return the events with the failover that each belongs to.

    What came before an election may not have known its epoch: it belongs to the next one of its set, and what came
    after it to the last one. Of a set for which nobody was elected, it belongs to `<cluster>/<set>/none`.
    """
    by_set = Window.partitionBy("cluster", "broker_name").orderBy("at_us", _order())
    after = by_set.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    before = by_set.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    own_id = F.concat_ws("/", "cluster", "broker_name", F.col("master_epoch").cast("string"))
    elected = (F.col("event_type") == "elected") & F.col("new_master").isNotNull() & _has_new_master()
    anchor = F.when(elected, F.coalesce("failover_id", own_id))
    told_after = F.col("event_type") == "role_notified"
    nobody = F.concat_ws("/", "cluster", "broker_name", F.lit("none"))
    following, last = F.first("anchor", ignorenulls=True).over(after), F.last("anchor", ignorenulls=True).over(before)
    key = F.when(told_after, last).otherwise(F.coalesce(following, nobody))
    known = F.max("anchor").over(Window.partitionBy("cluster", "broker_name", "failover_id"))
    return (
        events.withColumn("anchor", anchor)
        # An id that no election has is one that was expected, and did not come to be.
        .withColumn("key", F.coalesce(F.when(known.isNotNull(), F.col("failover_id")), key))
        .where(F.col("key").isNotNull())
    )


def _has_new_master() -> Expression:
    return F.coalesce(F.col("result"), F.lit("new_master_elected")) == "new_master_elected"


def _order() -> Expression:
    return F.array_position(F.array(*map(F.lit, _CONTROLLER_EVENTS)), F.col("event_type"))


def timelines(events: DataFrame) -> DataFrame:
    """Return one row per failover with its moments in Unix us; first elections of a set are none."""
    event, at_us, told = F.col("event_type"), F.col("at_us"), F.col("since_us") <= F.col("at_us")
    is_anchor, started = F.col("anchor").isNotNull(), event == "election_started"
    confirmed = (event == "role_notified") & (F.coalesce(F.col("result"), F.lit("ok")) == "ok")
    by_master = confirmed & (F.coalesce(F.col("broker_id"), F.col("new_master")) == F.col("new_master"))
    grouped = _with_beginnings(events).groupBy("cluster", "broker_name", F.col("key").alias("failover_id"))
    rows = grouped.agg(
        F.max("former").alias("old_master"),
        F.max(F.when(is_anchor, F.col("new_master"))).alias("new_master"),
        F.max(F.when(is_anchor, F.col("broker_addr"))).alias("new_addr"),
        F.coalesce(F.max("anchor_cause"), F.max(F.when(F.col("death"), F.col("cause")))).alias("cause"),
        F.max(F.when(is_anchor, F.col("bytes_at_stake"))).alias("bytes_at_stake"),
        F.count_if((event == "elected") & ~is_anchor & told).alias("attempts"),
        F.count_if(started | (event == "elected")).alias("elections"),
        F.max_by("last_beat_us", F.when(F.col("death"), at_us)).alias("last_beat"),
        F.max(F.when(F.col("death"), at_us)).alias("detected"),
        F.min(F.when(started & told, at_us)).alias("election_started"),
        F.max(F.when(is_anchor, at_us)).alias("elected"),
        F.min(F.when(by_master, at_us)).alias("notified"),
    )
    changed = F.col("old_master").isNotNull() & ~F.col("new_master").eqNullSafe(F.col("old_master"))
    return rows.where((F.col("elections") > 0) & (changed | F.col("detected").isNotNull()))


def _with_beginnings(events: DataFrame) -> DataFrame:
    """Return the events with `death`, whether this is what began their failover, and `since_us`, when that began.

    Slaves die too, and a master may have died and come back before: only the last death of the former master counts,
    and none where an operator chose another master.
    """
    of_key = Window.partitionBy("key")
    of_anchor = {
        name: F.when(F.col("anchor").isNotNull(), F.col(name)) for name in ("old_master", "new_master", "cause")
    }
    former = F.max(of_anchor["old_master"]).over(of_key)
    planned = F.coalesce(F.col("anchor_cause").isin(*UNDETECTED_CAUSES), F.lit(False))
    of_master = F.col("former").isNull() | F.col("broker_id").isNull() | (F.col("broker_id") == F.col("former"))
    last = {
        what: F.max(F.when(condition, F.col("at_us"))).over(of_key)
        for what, condition in (("death", F.col("death")), ("start", F.col("event_type") == "election_started"))
    }
    return (
        events.where("NOT (event_type = 'elected' AND result <=> 'keep_current_master')")
        .withColumns({"former": former, "anchor_cause": F.max(of_anchor["cause"]).over(of_key)})
        .withColumn("new_master", F.max(of_anchor["new_master"]).over(of_key))
        .withColumn("death", (F.col("event_type") == "failure_detected") & of_master & ~planned)
        .withColumn("since_us", F.coalesce(last["death"], last["start"]))
    )


def _visible(failovers: DataFrame, registrations: DataFrame, watching: DataFrame) -> DataFrame:
    """Return when each NameServer showed the new master: its first registration at or after the election."""
    next_us = F.lead("elected").over(Window.partitionBy("cluster", "broker_name").orderBy("elected"))
    elected = failovers.where("elected IS NOT NULL").withColumn("next_us", next_us)
    watched = elected.join(
        F.broadcast(watching.select("ns_id", F.col("at_us").alias("hour_us"))),
        (F.col("hour_us") > F.col("elected") - HOUR_US) & (F.col("hour_us") <= F.col("elected")),
        "left",
    ).select("failover_id", "ns_id", F.lit(None).cast("bigint").alias("after_us"))
    row, after_us = registrations.alias("r"), F.col("r.at_us") - F.col("f.elected")
    conditions = (
        F.col("f.broker_name") == F.col("r.broker_name"),
        after_us >= 0,
        after_us < VISIBLE_WITHIN_US,
        F.col("r.at_us") < F.coalesce(F.col("f.next_us"), F.lit(2**62)),
        # A former master that comes back may still call itself the master.
        F.coalesce(F.col("f.new_addr") == F.col("r.broker_addr"), F.lit(True)),
    )
    seen = elected.alias("f").join(row, reduce(and_, conditions), "inner")
    both = watched.unionByName(seen.select("f.failover_id", "r.ns_id", after_us.alias("after_us")))
    first = both.where("ns_id IS NOT NULL").groupBy("failover_id", "ns_id").agg(F.min("after_us").alias("after_us"))
    return first.groupBy("failover_id").agg(
        F.array_sort(F.collect_list(F.when(F.col("after_us").isNotNull(), F.struct("after_us", "ns_id")))).alias(
            "shown"
        ),
        F.array_sort(F.collect_list(F.when(F.col("after_us").isNull(), F.col("ns_id")))).alias("blind"),
    )


def _measured(failovers: DataFrame) -> DataFrame:
    """Return the failovers with phases in seconds, and what is missing of them."""
    shown = F.coalesce("shown", F.array().cast("array<struct<after_us:bigint,ns_id:string>>"))
    blind = F.coalesce("blind", F.array().cast("array<string>"))
    whole = failovers.withColumn("shown", shown).withColumns(
        {
            "namesrvs": F.col("shown")["ns_id"],
            "visible_ms": F.transform(F.col("shown")["after_us"], lambda us: F.floor(us / 1000)),
            "visible_first": F.col("elected") + F.array_min(F.col("shown")["after_us"]),
            "visible_last": F.col("elected") + F.array_max(F.col("shown")["after_us"]),
            "slowest_namesrv": F.get(F.reverse(F.col("shown")["ns_id"]), F.lit(0)),
        }
    )
    unplanned = ~F.coalesce(F.col("cause").isin(*UNDETECTED_CAUSES), F.lit(False))
    expected = {"last_beat": unplanned, "detected": unplanned}
    unseen = [
        F.when(F.col(moment).isNull() & expected.get(moment, F.lit(True)), moment)
        for moment in (*_MOMENTS[:5], "visible")
    ]
    phases = {f"{phase}_s": (F.col(until) - F.col(since)) / 1e6 for phase, (since, until) in PHASES.items()}
    nowhere = whole.withColumn("visible", F.col("visible_last"))
    on_some = F.transform(blind, lambda name: F.concat(F.lit("visible on "), name))
    named = nowhere.withColumn("missing", F.concat(F.array_compact(F.array(*unseen)), on_some)).withColumns(phases)
    return named.withColumns({moment: F.timestamp_micros(moment) for moment in _MOMENTS})


def _phases(failovers: DataFrame) -> DataFrame:
    """Return what each phase takes, by cluster."""
    told = F.explode(F.array(*(F.struct(F.lit(name).alias("phase"), F.col(f"{name}_s").alias("s")) for name in PHASES)))
    each = (
        failovers.select("cluster", told.alias("told")).select("cluster", "told.phase", "told.s").where("s IS NOT NULL")
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
    inputs=("controller", "broker_state", "ns_tick"),
    parts=parts,
    result=result,
    part_columns=PART_COLUMNS,
    columns=COLUMNS,
)
