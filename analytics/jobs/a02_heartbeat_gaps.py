"""A2: how regularly brokers send heartbeats, and how many were missed, for network faults, pauses or overload.

A heartbeat is missed when none came where one was due, and not within a quarter of a period after that, or 0.75 s of
quick brokers. The period is what an operator says, or what the kind of heartbeat promises where intervals agree
(gap_histogram.py): brokers register once more whenever their topics change, which ends an interval early and is no
reason to miss a heartbeat. Of a broker whose period is not known nothing is counted.

Heartbeats to all NameServers of one broker are taken together, those to controllers apart. What came late because the
server itself paused is no fault of a broker, and left out.
"""

from functools import partial
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.shared.heartbeats.gap_histogram import (
    GAP_COLUMNS,
    GAP_INPUTS,
    GAP_KEYS,
    Periods,
    added_up,
    gap_histogram,
    period_of_most,
    with_quantiles,
)
from analytics.shared.job import Job, Span
from analytics.shared.rows import BROKER_COLUMNS
from history.columns import Column, Type

#: With fewer heartbeats that were due, no share is reported: that many measure it to within ten points.
HEARTBEATS_LEAST: Final = 100

COLUMNS: Final = (
    Column("source", Type.STRING, "namesrv or controller: the receiver of the heartbeats"),
    *BROKER_COLUMNS,
    Column("n", Type.LONG, "intervals between heartbeats that ended in the window"),
    Column(
        "period_ms",
        Type.DOUBLE,
        "ms between heartbeats as `rmq-analytics run --period` says, or the default of their kind, 30 s, "
        "or 1 s if no registrations, or the length of most longer intervals; null: too little history",
    ),
    Column("mean_ms", Type.DOUBLE, "mean ms between heartbeats, without late ones whose minute has no summary"),
    Column("p50_ms", Type.LONG, "half of the intervals are not longer; four digits, as the other quantiles"),
    Column("p95_ms", Type.LONG, "95 % are not longer"),
    Column("p99_ms", Type.LONG, "99 % are not longer"),
    Column("p999_ms", Type.LONG, "99.9 % are not longer"),
    Column("max_ms", Type.LONG, "the longest interval, exactly"),
    Column("mad_ms", Type.LONG, "half of the intervals are no farther from the median"),
    Column(
        "missed",
        Type.LONG,
        "missed heartbeats: one for each period of an interval after its first, and after a quarter of one, or "
        "0.75 s, in which they are only late; null where the period is not known",
    ),
    Column("miss_ratio", Type.DOUBLE, "missed / (missed + n), 0 to 1; null where the period is not known"),
    Column("confidence", Type.STRING, "high: 100 or more heartbeats were due; low: fewer, or the period is not known"),
)

_SHARES: Final = {"p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


def heartbeat_gaps(parts: DataFrame, _span: Span, periods: Periods = MappingProxyType({})) -> DataFrame:
    """Return one row for each broker with at least two heartbeats; `periods` are the configured ones."""
    ranked = with_quantiles(added_up(parts, periods), "gap_ms", {"p50_ms": 0.5, **_SHARES})
    far = ranked.withColumn("far_ms", F.abs(F.col("gap_ms") - F.col("p50_ms")))
    together = (
        with_quantiles(far, "far_ms", {"mad_ms": 0.5})
        .groupBy(*GAP_KEYS)
        .agg(
            *(F.sum(name).alias(name) for name in ("n", "sum_ms", "summed_n", "missed")),
            F.sum(F.when(F.col("period_ms").isNotNull(), F.col("n"))).alias("judged_n"),
            # The same on all rows of a broker.
            *(F.max(name).alias(name) for name in ("max_ms", "p50_ms", *_SHARES, "mad_ms")),
            period_of_most().alias("period_ms"),
        )
    )
    known = F.col("period_ms").isNotNull()
    due = F.col("missed") + F.col("judged_n")
    return together.withColumns(
        {
            "mean_ms": F.try_divide("sum_ms", "summed_n"),
            "miss_ratio": F.when(known, F.try_divide("missed", due)),
            "missed": F.when(known, F.col("missed")),
            "confidence": F.when(known & (due >= HEARTBEATS_LEAST), "high").otherwise("low"),
        }
    )


JOB: Final = Job(
    id="A2",
    name="heartbeat_gaps",
    question="How regularly does each broker send heartbeats, and how many were missed?",
    inputs=GAP_INPUTS,
    parts_of=gap_histogram,
    result_of=heartbeat_gaps,
    part_columns=GAP_COLUMNS,
    columns=COLUMNS,
    order=("miss_ratio DESC NULLS LAST", "max_ms DESC"),
)


def with_periods(periods: Periods) -> Job:
    """Return the analysis with brokers configured so."""
    return JOB._replace(result_of=partial(heartbeat_gaps, periods=periods))
