"""A4: how long it took from a broker's last heartbeat until it was removed.

A NameServer gives a silent broker up when its timeout is over, 120 s as it is set by default, and a controller who was
silent for as long as it waits, which its rows have. What is longer points at looks that are late.

A connection that ends is a sign: a process that dies, whoever kills it, has its connections ended by FIN or RST by its
host. There a NameServer takes no time, and a controller what it took to ask whether the broker lives. A connection
shows nothing where the host cannot send any more: its power is off, its cable is pulled, its switch is dead. Then it
ends later, or for its silence alone: the server closes it as idle after 120 s. Whoever was silent until then for as
long as its timeout, or for these 120 s, was given up for silence: `idle`.
"""

from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.heartbeats.gap_histogram import NAMESRV, of_brokers
from analytics.shared.job import Inputs, Job, Span
from analytics.shared.rows import of_span
from analytics.shared.state_points import IDLE_MS, ended_by_timeout
from history.columns import Column, Type

_REASONS: Final = (
    "expired; channel_closed; idle: its connection was closed as nothing came; of a controller what spoke for its death"
)

PARTS: Final = (
    Column("cluster", Type.STRING, "cluster of the broker"),
    Column("source", Type.STRING, "namesrv or controller"),
    Column("ns_id", Type.STRING, "the server that gave it up"),
    Column("reason", Type.STRING, _REASONS),
    Column("timeout_ms", Type.LONG, "ms of silence after which it expires; null where the row has none"),
    Column(
        "delay_ms",
        Type.LONG,
        "ms from the last heartbeat to the removal, monotonic clock; 0 where the connection ended",
    ),
)

COLUMNS: Final = (
    Column("source", Type.STRING, "namesrv or controller"),
    Column("reason", Type.STRING, _REASONS),
    Column("timeout_ms", Type.LONG, "ms of silence after which brokers are given up; null where unknown"),
    Column("n", Type.LONG, "removals"),
    Column("p50_ms", Type.DOUBLE, "half of the delays are not longer"),
    Column("p95_ms", Type.DOUBLE, "95 % are not longer"),
    Column("max_ms", Type.LONG, "the longest"),
    Column("mean_ms", Type.DOUBLE, "their mean"),
    Column(
        "expected_ms", Type.DOUBLE, "mean to expect: the timeout, if idle 120 s at most; null: no silence was timed"
    ),
)

#: Reasons that mean: it was silent for its timeout.
_SILENCE: Final = ("expired", "timeout")
#: The one that means: its connection ended.
_CLOSED: Final = "channel_closed"
#: The one that means: nothing came, until its timeout was over or the server closed its connection.
_IDLE: Final = "idle"


def removals(inputs: Inputs, span: Span) -> DataFrame:
    """Return one row for each broker that a server gave up in the span."""
    by_name_servers = of_brokers(inputs["broker_state"]).filter(F.col("event_type").isin("expired", "channel_closed"))
    by_controllers = of_brokers(inputs["controller"]).filter("event_type = 'failure_detected'")
    controllers_ms = F.coalesce("duration_ms", F.lit(0))
    return _given_up(by_name_servers, span, NAMESRV, F.col("event_type"), F.lit(0)).unionByName(
        _given_up(by_controllers, span, "controller", F.coalesce("cause", "event_type"), controllers_ms)
    )


def _given_up(rows: DataFrame, span: Span, source: str, reason: SparkColumn, closed_ms: SparkColumn) -> DataFrame:
    """Return the removals that rows of one kind of server tell of; `closed_ms`: how long a closed connection took."""
    return (
        of_span(rows, span)
        .filter("silent_ms IS NOT NULL")
        .select(
            "cluster",
            F.lit(source).alias("source"),
            "ns_id",
            _reason(reason).alias("reason"),
            "timeout_ms",
            F.when(_is_closed(reason), closed_ms).otherwise(F.col("silent_ms")).alias("delay_ms"),
        )
    )


def _is_closed(reason: SparkColumn) -> SparkColumn:
    """Return whether the end of a connection was the last sign."""
    return (reason == _CLOSED) & ~ended_by_timeout()


def _reason(reported: SparkColumn) -> SparkColumn:
    """Return why it was given up: a connection that silence ended is no sign of its own."""
    return F.when((reported == _CLOSED) & ended_by_timeout(), _IDLE).otherwise(reported)


def detection_delay(parts: DataFrame, _span: Span) -> DataFrame:
    """Return one row for each cluster, kind of server, reason and timeout."""
    delays = parts.groupBy("cluster", "source", "reason", "timeout_ms").agg(
        F.count_if(F.lit(True)).alias("n"),
        F.percentile("delay_ms", 0.5).alias("p50_ms"),
        F.percentile("delay_ms", 0.95).alias("p95_ms"),
        F.max("delay_ms").alias("max_ms"),
        F.avg("delay_ms").alias("mean_ms"),
    )
    silence_ms = F.when(F.col("reason").isin(*_SILENCE), F.col("timeout_ms"))
    expected_ms = silence_ms.when(F.col("reason") == _IDLE, F.least("timeout_ms", F.lit(IDLE_MS)))
    return delays.withColumn("expected_ms", expected_ms.cast("double"))


JOB: Final = Job(
    id="A4",
    name="detection_delay",
    question="How long did it take from a broker's last heartbeat until it was removed?",
    inputs=("broker_state", "controller"),
    parts_of=removals,
    result_of=detection_delay,
    part_columns=PARTS,
    columns=COLUMNS,
    order=("n DESC",),
)
