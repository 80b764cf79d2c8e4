"""A2: how regularly brokers beat, and how many beats did not come: who suffers from network, pauses or overload.

Beats to all NameServers of one broker are taken together, those to controllers apart. What came late because the
server itself stood still is no fault of a broker, and left out.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.gap_histogram import (
    GAP_COLUMNS,
    GAP_INPUTS,
    GAP_KEYS,
    added_up,
    gap_histogram,
    usual_period_ms,
    with_quantiles,
)
from analytics.job import Job, Span
from analytics.schemas import in_columns
from history.schemas import Column, Type

COLUMNS: Final = (
    Column("source", Type.STRING, "namesrv or controller: to whom it beats"),
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id in its set"),
    Column("n", Type.LONG, "intervals between beats that ended in the window"),
    Column(
        "period_ms",
        Type.DOUBLE,
        "ms between its beats as a rule: their median; of quick ones what their summaries tell",
    ),
    Column("mean_ms", Type.DOUBLE, "mean ms between beats"),
    Column("p50_ms", Type.LONG, "half of the intervals are not longer; four digits, as the other quantiles"),
    Column("p95_ms", Type.LONG, "95 % are not longer"),
    Column("p99_ms", Type.LONG, "99 % are not longer"),
    Column("p999_ms", Type.LONG, "99.9 % are not longer"),
    Column("max_ms", Type.LONG, "the longest interval, exactly"),
    Column("mad_ms", Type.LONG, "half of the intervals are no farther from the median"),
    Column("missed", Type.LONG, "beats that did not come: sum of max(0, round(interval / period) - 1)"),
    Column("miss_ratio", Type.DOUBLE, "missed / (missed + n), 0 to 1"),
)

_SHARES: Final = {"p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


def heartbeat_gaps(parts: DataFrame, _span: Span) -> DataFrame:
    """Return one row for each broker that beat at least twice."""
    ranked = with_quantiles(added_up(parts), "gap_ms", _SHARES)
    far = ranked.withColumn("far_ms", F.abs(F.col("gap_ms") - F.col("p50_ms")))
    together = (
        with_quantiles(far, "far_ms", {"mad_ms": 0.5})
        .groupBy(*GAP_KEYS)
        .agg(
            *(F.sum(name).alias(name) for name in ("n", "sum_ms", "missed", "uncounted_n", "period_sum_ms")),
            # The same on all rows of a broker.
            *(F.max(name).alias(name) for name in ("max_ms", "p50_ms", *_SHARES, "mad_ms")),
        )
    )
    told = together.withColumns(
        {
            "mean_ms": F.try_divide("sum_ms", "n"),
            "period_ms": usual_period_ms(F.col("p50_ms")),
            "miss_ratio": F.try_divide(F.col("missed"), F.col("missed") + F.col("n")),
        }
    )
    return told.select("cluster", *in_columns(COLUMNS))


JOB: Final = Job(
    id="A2",
    name="heartbeat_gaps",
    question="How regularly does each broker beat, and how many of its beats did not come?",
    inputs=GAP_INPUTS,
    parts=gap_histogram,
    result=heartbeat_gaps,
    part_columns=GAP_COLUMNS,
    columns=COLUMNS,
    order=("miss_ratio DESC NULLS LAST", "max_ms DESC"),
)
