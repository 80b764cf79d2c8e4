"""A6: when NameServers that were watching gave different answers about the same broker.

Compared are whether they have it, at which address, and which version of its topics they know. What one of them hears
a moment later than the others is no divergence: see PRESENCE_US, SCAN_US and the version's own limit.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from analytics.broker_states import STATE_INPUTS, STATE_PARTS, UP, answers, of_name_servers, state_parts
from analytics.intervals import joined, levels
from analytics.job import Inputs, Job, Span
from analytics.schemas import in_columns
from history.schemas import Column, Type

#: How long NameServers may differ in whether a broker is there, and where.
PRESENCE_US: Final = 2_000_000

#: They look for silent brokers so often (Java: each 5 s), each at moments of its own: so much later than the first one
#: another may give a broker up.
SCAN_US: Final = 10_000_000

#: How many of its periods they may differ in a broker's version: one registration may be lost.
VERSION_PERIODS: Final = 1.5

#: Brokers register so often, unless told otherwise.
PERIOD_MS_DEFAULT: Final = 30_000

#: Beats that come more often than that are no registrations, and carry no version.
PERIOD_MS_MIN: Final = 10_000

VERSION: Final = "version"

PARTS: Final = (
    *STATE_PARTS,
    Column("version", Type.STRING, "kind version: the data version that the server knows from at_us on"),
    Column("period_ms", Type.LONG, "kind version: the longest period of its registrations, where known"),
)

COLUMNS: Final = (
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id in its set"),
    Column("kind", Type.STRING, "presence, address or version"),
    Column("start_time", Type.TIMESTAMP, "when the NameServers began to differ"),
    Column("end_time", Type.TIMESTAMP, "when they agreed again, or one of them was no longer watching"),
    Column("seconds", Type.DOUBLE, "how long that was"),
    Column("states", Type.STRINGS, "`<NameServer>=<its answer>` two seconds later, in the order of their names"),
)

_BROKER: Final = ("cluster", "broker_name", "broker_id")
_VIEW: Final = ("ns_id", *_BROKER)

#: What answers are about.
_SUBJECT: Final = ("kind", *_BROKER)

#: Columns of an answer that a NameServer gave for some time; `silent`: it gave the broker up by a scan.
GIVEN: Final = (*_SUBJECT, "ns_id", "start_us", "end_us", "value", "silent")


def divergence_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what became known in the span, as for availability, and when each NameServer first knew each version."""
    mine = of_name_servers(inputs, JOB.inputs)
    tables = [state_parts(mine, span), _versions(mine, span)]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)
    return together.select(*in_columns(PARTS))


def divergence(parts: DataFrame, span: Span) -> DataFrame:
    """Return one row for each time that NameServers differed about a broker for longer than is usual."""
    # Looked at so often that its plan, six times as large, would take longer than the work.
    said = answers(parts, span).localCheckpoint()
    given = _plain(said).unionByName(_known_versions(parts, said.filter(F.col("state") == UP), span))
    periods = parts.filter(F.col("kind") == VERSION).groupBy(*_BROKER).agg(F.max("period_ms").alias("period_ms"))
    differences = _differences(given).join(F.broadcast(periods), list(_BROKER), "left")
    return _told(differences.filter(_is_long()), given).select("cluster", *in_columns(COLUMNS))


def _is_long() -> SparkColumn:
    """Tell whether a difference is more than what one NameServer hears, or sees by its scan, later than another."""
    period_ms = F.when(F.col("period_ms") >= PERIOD_MS_MIN, F.col("period_ms")).otherwise(PERIOD_MS_DEFAULT)
    presence_us = F.when(F.col("by_scan"), SCAN_US + PRESENCE_US).otherwise(PRESENCE_US)
    version_us = period_ms * F.lit(VERSION_PERIODS * 1000)
    return F.col("end_us") - F.col("start_us") > F.when(F.col("kind") == VERSION, version_us).otherwise(presence_us)


def _plain(said: DataFrame) -> DataFrame:
    """Return whether each NameServer had each broker, and where: GIVEN."""
    is_up = F.col("state") == UP
    presence = F.struct(F.lit("presence").alias("kind"), F.when(is_up, "up").otherwise("absent").alias("value"))
    address = F.struct(F.lit("address").alias("kind"), F.when(is_up, F.col("address")).alias("value"))
    both = said.withColumn("answer", F.explode(F.array(presence, address)))
    return (
        both.withColumns({"kind": F.col("answer.kind"), "value": F.col("answer.value")})
        .select(*GIVEN)
        .dropna(subset=["value"])
    )


def _differences(given: DataFrame) -> DataFrame:
    """Return when more than one answer was given at the same time, and whether that began `by_scan`."""
    by_answer = joined(given, [*_SUBJECT, "value"]).withColumn("answers", F.lit(1).cast("bigint"))
    differences = joined(levels(by_answer, list(_SUBJECT), ["answers"]).filter("answers > 1"), list(_SUBJECT))
    scans = given.filter("silent").select(*_SUBJECT, "start_us", F.lit(True).alias("by_scan")).distinct()
    return differences.join(F.broadcast(scans), [*_SUBJECT, "start_us"], "left")


def _told(differences: DataFrame, given: DataFrame) -> DataFrame:
    """Add who gave which answer, when those who agree had time to do so."""
    answers_given = given.select(
        *_SUBJECT, "ns_id", "value", F.col("start_us").alias("from_us"), F.col("end_us").alias("to_us")
    )
    both = answers_given.join(F.broadcast(differences), list(_SUBJECT), "inner")
    soon_us = F.col("start_us") + PRESENCE_US
    then = both.filter((F.col("from_us") <= soon_us) & (soon_us < F.col("to_us")))
    states = F.array_sort(F.collect_set(F.concat_ws("=", "ns_id", "value")))
    return (
        then.groupBy(*_SUBJECT, "start_us", "end_us")
        .agg(states.alias("states"))
        .withColumns(
            {
                "start_time": F.timestamp_micros("start_us"),
                "end_time": F.timestamp_micros("end_us"),
                "seconds": (F.col("end_us") - F.col("start_us")) / 1e6,
            }
        )
    )


# Versions


def _versions(inputs: Inputs, span: Span) -> DataFrame:
    """Return when each NameServer first knew each version in the span, and which one it knew at the beginning.

    Of the time before the span only the last hour and the last rows are there, which is enough for that.
    """
    columns = [*_VIEW, "event_time", "dv_state_version", "dv_timestamp", "dv_counter"]
    unknown_ms = F.lit(None).cast("bigint").alias("period_ms")
    own = inputs["broker_state"].filter("event_type IN ('registered_first', 'changed', 'address_changed')")
    rows = inputs["heartbeat"].select(*columns, "period_ms").unionByName(own.select(*columns, unknown_ms))
    is_before = F.col("event_time") < F.timestamp_micros(F.lit(span.start_us))
    told = rows.filter(F.col("dv_counter").isNotNull() & (F.unix_micros("event_time") < span.end_us))
    known = told.groupBy(*_VIEW, "dv_state_version", "dv_timestamp", "dv_counter", is_before.alias("is_before")).agg(
        F.unix_micros(F.min("event_time")).alias("first_us"),
        F.unix_micros(F.max("event_time")).alias("last_us"),
        F.max("period_ms").alias("period_ms"),
    )
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
            "period_ms",
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
            "silent": F.lit(False),
            "start_us": F.greatest("start_us", "from_us"),
            "end_us": F.least("end_us", "to_us"),
        }
    ).select(*GIVEN)


JOB: Final = Job(
    id="A6",
    name="divergence",
    question="When did NameServers give different answers about the same broker?",
    inputs=(*STATE_INPUTS, "heartbeat"),
    parts=divergence_parts,
    result=divergence,
    part_columns=PARTS,
    columns=COLUMNS,
    order=("seconds DESC NULLS FIRST",),
)
