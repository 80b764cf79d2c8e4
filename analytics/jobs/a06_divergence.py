"""A6: when NameServers that were watching gave different answers about the same broker.

Compared are whether they have it, at which address, and which version of its topics they know. What one of them hears
a moment later than the others is no divergence: see PRESENCE_US and the version's own limit. That one gives up a silent
broker some seconds before another one is: clients of both got different answers. What a NameServer
lacked that had just started has a row of its own, see `cold_starts`.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.shared.broker_states import (
    BROKER,
    STATE_INPUTS,
    STATE_PARTS,
    of_name_servers,
    reported_states,
    state_parts,
    watched,
)
from analytics.shared.cold_starts import COLD_PARTS, cold_parts, cold_spells, lacking_contact
from analytics.shared.intervals import joined, levels
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import BROKER_COLUMNS
from analytics.shared.state_points import UP
from analytics.spark.schemas import united
from history.columns import Column, Type

#: How long NameServers may differ in whether a broker is there, and where.
PRESENCE_US: Final = 2_000_000

#: How many of its periods they may differ in a broker's version: one registration may be lost.
VERSION_PERIODS: Final = 1.5

#: Brokers register so often, unless configured otherwise.
PERIOD_MS_DEFAULT: Final = 30_000

#: Heartbeats that come more often than that are no registrations, and carry no version.
PERIOD_MS_MIN: Final = 10_000

VERSION: Final = "version"
PERIOD: Final = "period"
COLD: Final = "cold"
COMPARED: Final = "compared"

PARTS: Final = (
    *STATE_PARTS,
    Column("version", Type.STRING, "kind version: the data version that the server knows from at_us on"),
    Column("period_ms", Type.LONG, "kind period: the length of its intervals, in whole seconds, that fill most time"),
    Column("filled_ms", Type.LONG, "kind period: how long these are together"),
    *COLD_PARTS,
)

COLUMNS: Final = (
    *BROKER_COLUMNS,
    Column(
        "kind",
        Type.STRING,
        "presence, address or version: what NameServers differed in; cold: a NameServer that had just started lacked "
        "brokers that were there, or that it had before; compared: which NameServers had them, how long",
    ),
    Column("start_time", Type.TIMESTAMP, "when the NameServers began to differ, or the cold one to answer"),
    Column("end_time", Type.TIMESTAMP, "when they agreed again, or one of them was no longer watching"),
    Column("seconds", Type.DOUBLE, "how long that was"),
    Column(
        "states", Type.STRINGS, "`<NameServer>=<its answer>` two seconds later, ordered by name; compared: their names"
    ),
    Column("ns_id", Type.STRING, "cold: which NameServer"),
    Column("lacked", Type.STRINGS, "cold: the brokers that it lacked for more than two seconds, `<set>:<broker id>`"),
    Column(
        "lacked_seen",
        Type.LONG,
        "cold: so many of those another NameServer had meanwhile; the others it had itself before, and nobody watched "
        "whether they were there",
    ),
    Column(
        "not_found_min",
        Type.LONG,
        "cold: route queries that it had answered with `no such topic` by the end, at least; also such about topics "
        "that are nowhere; null where it did not record that",
    ),
    Column("not_found_max", Type.LONG, "cold: the same, at most: ticks record it each 10 s"),
    Column("compared_s", Type.DOUBLE, "compared: how long at least two of them were watching at the same time"),
)

_VIEW: Final = ("ns_id", *BROKER)

#: What answers are about.
_SUBJECT: Final = ("kind", *BROKER)

#: Columns of an answer that a NameServer gave for some time.
GIVEN: Final = (*_SUBJECT, "ns_id", "start_us", "end_us", "value")


def divergence_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what became known in the span, as for availability, who started, who knew which version, and periods."""
    mine = of_name_servers(inputs, JOB.inputs)
    tables = [state_parts(mine, span), _versions(mine, span), _periods(mine, span), cold_parts(mine, span)]
    return united(tables)


def divergence(parts: DataFrame, span: Span) -> DataFrame:
    """Return a row for each time that NameServers differed about a broker, and for each that one was cold."""
    # Looked at so often that its plan, six times as large, would take longer than the work.
    reported = reported_states(parts, span).localCheckpoint()
    without_contact = lacking_contact(parts, reported, span).localCheckpoint()
    given = reduce(
        DataFrame.unionByName,
        [
            _plain(reported),
            _without_contact(without_contact),
            _known_versions(parts, reported.filter(F.col("state") == UP), span),
        ],
    )
    periods = _fills_most(parts.filter(F.col("kind") == PERIOD))
    differences = _differences(given).join(F.broadcast(periods), list(BROKER), "left")
    findings = _findings(differences.filter(_is_long()), given)
    cold = _timed(cold_spells(without_contact.filter("is_cold"), reported, parts, PRESENCE_US)).withColumn(
        "kind", F.lit(COLD)
    )
    tables = [findings, cold, _compared(watched(parts, span), reported)]
    return united(tables)


def _is_long() -> SparkColumn:
    """Return whether a difference is more than a registration that one NameServer gets later than another."""
    period_ms = F.when(F.col("period_ms") >= PERIOD_MS_MIN, F.col("period_ms")).otherwise(PERIOD_MS_DEFAULT)
    version_us = period_ms * F.lit(VERSION_PERIODS * 1000)
    return F.col("end_us") - F.col("start_us") > F.when(F.col("kind") == VERSION, version_us).otherwise(PRESENCE_US)


def _plain(reported: DataFrame) -> DataFrame:
    """Return whether each NameServer had each broker, and where: GIVEN."""
    is_up = F.col("state") == UP
    presence = F.struct(F.lit("presence").alias("kind"), F.when(is_up, "up").otherwise("absent").alias("value"))
    address = F.struct(F.lit("address").alias("kind"), F.when(is_up, F.col("address")).alias("value"))
    both = reported.withColumn("answer", F.explode(F.array(presence, address)))
    return (
        both.withColumns({"kind": F.col("answer.kind"), "value": F.col("answer.value")})
        .select(*GIVEN)
        .dropna(subset=["value"])
    )


def _without_contact(without_contact: DataFrame) -> DataFrame:
    """Return that a NameServer lacked a broker from its start on, which did not register soon: GIVEN."""
    late = without_contact.filter("NOT is_cold")
    return late.withColumns({"kind": F.lit("presence"), "value": F.lit("absent")}).select(*GIVEN)


def _differences(given: DataFrame) -> DataFrame:
    """Return when more than one answer was given at the same time."""
    by_answer = joined(given, [*_SUBJECT, "value"]).withColumn("answers", F.lit(1).cast("bigint"))
    return joined(levels(by_answer, list(_SUBJECT), ["answers"]).filter("answers > 1"), list(_SUBJECT))


def _findings(differences: DataFrame, given: DataFrame) -> DataFrame:
    """Add who gave which answer, when those who agree had time to do so."""
    answers_given = given.select(
        *_SUBJECT, "ns_id", "value", F.col("start_us").alias("from_us"), F.col("end_us").alias("to_us")
    )
    both = answers_given.join(F.broadcast(differences), list(_SUBJECT), "inner")
    soon_us = F.col("start_us") + PRESENCE_US
    then = both.filter((F.col("from_us") <= soon_us) & (soon_us < F.col("to_us")))
    states = F.array_sort(F.collect_set(F.concat_ws("=", "ns_id", "value")))
    return _timed(then.groupBy(*_SUBJECT, "start_us", "end_us").agg(states.alias("states")))


def _timed(spans: DataFrame) -> DataFrame:
    return spans.withColumns(
        {
            "start_time": F.timestamp_micros("start_us"),
            "end_time": F.timestamp_micros("end_us"),
            "seconds": (F.col("end_us") - F.col("start_us")) / 1e6,
        }
    )


def _compared(watching: DataFrame, reported: DataFrame) -> DataFrame:
    """Return who reported each cluster, and how long at least two of these watched: differences are of that time.

    NameServers that share no cluster have nothing to agree on.
    """
    one = (
        watching.join(reported.select("ns_id", "cluster").distinct(), "ns_id", "inner")
        .select("cluster", "ns_id", "start_us", "end_us")
        .withColumn("servers", F.lit(1).cast("bigint"))
    )
    together = levels(one, ["cluster"], ["servers"]).filter("servers > 1")
    compared_s = together.groupBy("cluster").agg((F.sum(F.col("end_us") - F.col("start_us")) / 1e6).alias("compared_s"))
    names = one.groupBy("cluster").agg(F.array_sort(F.collect_set("ns_id")).alias("states"))
    return names.join(compared_s, "cluster", "left").select(
        "cluster", F.lit(COMPARED).alias("kind"), "states", F.coalesce("compared_s", F.lit(0.0)).alias("compared_s")
    )


# Versions


def _versions(inputs: Inputs, span: Span) -> DataFrame:
    """Return when each NameServer first knew each version in the span, and which one it knew at the beginning.

    Of the time before the span only the last hour and the last rows are there, which is enough for that.
    """
    columns = [*_VIEW, "event_time", "dv_state_version", "dv_timestamp", "dv_counter"]
    own = inputs["broker_state"].filter("event_type IN ('registered_first', 'changed', 'address_changed')")
    rows = inputs["heartbeat"].select(*columns).unionByName(own.select(*columns))
    is_before = F.col("event_time") < F.timestamp_micros(F.lit(span.start_us))
    findings = rows.filter(F.col("dv_counter").isNotNull() & (F.unix_micros("event_time") < span.end_us))
    known = findings.groupBy(
        *_VIEW, "dv_state_version", "dv_timestamp", "dv_counter", is_before.alias("is_before")
    ).agg(F.unix_micros(F.min("event_time")).alias("first_us"), F.unix_micros(F.max("event_time")).alias("last_us"))
    latest = F.max(F.when(F.col("is_before"), F.col("last_us"))).over(Window.partitionBy(*_VIEW))
    start_us = F.lit(span.start_us).cast("bigint")
    at_us = F.when(F.col("is_before"), start_us).otherwise(F.col("first_us"))
    version = F.concat_ws(".", "dv_state_version", "dv_timestamp", "dv_counter")
    return (
        known.withColumn("latest_us", latest)
        .filter("NOT is_before OR last_us = latest_us")
        .select(
            *_VIEW,
            F.lit(VERSION).alias("kind"),
            at_us.alias("at_us"),
            at_us.alias("since_us"),
            version.alias("version"),
        )
    )


def _known_versions(parts: DataFrame, up: DataFrame, span: Span) -> DataFrame:
    """Return which version each NameServer knew, while it had the broker: GIVEN."""
    view = Window.partitionBy(*_VIEW).orderBy("at_us", "version")
    last_us = F.lit(span.end_us).cast("bigint")
    versions = parts.filter(F.col("kind") == VERSION).select(
        *_VIEW,
        "version",
        F.col("at_us").alias("from_us"),
        F.coalesce(F.lead("at_us").over(view), last_us).alias("to_us"),
    )
    both = up.join(versions, list(_VIEW), "inner").filter("start_us < to_us AND from_us < end_us")
    return both.withColumns(
        {
            "kind": F.lit(VERSION),
            "value": F.col("version"),
            "start_us": F.greatest("start_us", "from_us"),
            "end_us": F.least("end_us", "to_us"),
        }
    ).select(*GIVEN)


# Periods


def _periods(inputs: Inputs, span: Span) -> DataFrame:
    """Return how often each broker registered in the span.

    What a server takes for its period, `period_ms` of its rows, goes by few intervals: of lost heartbeats it may be
    twice what it is. One more registration, when topics are altered, leaves two short intervals.
    """
    us = F.unix_micros("event_time")
    within = (us >= span.start_us) & (us < span.end_us)
    is_registration = (F.col("event_type") == "heartbeat") & (F.col("period_ms") >= PERIOD_MS_MIN)
    own = inputs["heartbeat"].filter(within & is_registration & F.col("interval_ms").isNotNull())
    whole_ms = (F.round(F.col("interval_ms") / 1000) * 1000).cast("bigint")
    lengths = own.select(*BROKER, whole_ms.alias("period_ms"), F.col("interval_ms").alias("filled_ms"))
    return _fills_most(lengths).withColumn("kind", F.lit(PERIOD))


def _fills_most(lengths: DataFrame) -> DataFrame:
    """Return of each broker the period whose intervals fill most time, and how much."""
    each = lengths.groupBy(*BROKER, "period_ms").agg(F.sum("filled_ms").alias("filled_ms"))
    most = F.max(F.struct("filled_ms", "period_ms"))
    return each.groupBy(*BROKER).agg(most.alias("most")).select(*BROKER, "most.*")


JOB: Final = Job(
    id="A6",
    name="divergence",
    question="When did NameServers give different answers about the same broker?",
    inputs=(*STATE_INPUTS, "heartbeat"),
    parts_of=divergence_parts,
    result_of=divergence,
    part_columns=PARTS,
    columns=COLUMNS,
    order=("kind = 'compared' DESC", "kind = 'cold' DESC", "seconds DESC NULLS FIRST"),
)
