"""What tells good timeouts from bad ones, counted: false alarms, real ones, and how phi-accrual would have judged.

A silence that ended by itself is a false alarm for each timeout below it. Most of them stand in the histogram of
intervals. A broker that was given up and registered again at the same process of the server, sooner than any timeout
offered would have let it, is one more: it was slow, not dead.
"""

from functools import reduce
from statistics import NormalDist
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from analytics.gap_histogram import GAP_COLUMNS, GAP_INPUTS, ended_in, four_digits, gap_histogram
from analytics.job import Inputs, Span
from analytics.schemas import in_columns
from history.schemas import Column, Type

SILENCE_INPUTS: Final = (*GAP_INPUTS, "broker_state")

#: A longer silence is a failure, even if the broker comes back: no timeout offered would have borne with it.
SILENCE_MAX_MS: Final = 180_000

#: Phi-accrual looks at so many intervals before the present one, of the same day and the same process of the server.
PHI_INTERVALS: Final = 200
#: It judges nothing before it has seen so many.
PHI_INTERVALS_MIN: Final = 50
#: The least standard deviation it assumes.
PHI_DEVIATION_MIN_MS: Final = 500.0

PHI_THRESHOLDS: Final = tuple(range(4, 17))

#: phi = -log10(1 - F) reaches a threshold so many standard deviations above the mean.
PHI_DEVIATIONS: Final = tuple(-NormalDist().inv_cdf(10.0**-phi) for phi in PHI_THRESHOLDS)

GAP: Final = "gap"
PHI: Final = "phi"
FAILURE: Final = "failure"

PARTS: Final = (
    *GAP_COLUMNS,
    Column("what", Type.STRING, "gap: a row of the histogram; phi: judged intervals; failure: removals"),
    Column("alarms", Type.LONG, "phi: so many of the thresholds, from the lowest on, each of the n intervals reached"),
    Column("mean_sum_ms", Type.DOUBLE, "phi: sum of the means before each interval"),
    Column("deviation_sum_ms", Type.DOUBLE, "phi: sum of the standard deviations before each interval"),
)

_BROKER: Final = ("cluster", "broker_name", "broker_id")
_NAMESRV: Final = "namesrv"


def silence_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return what the span tells about timeouts of NameServers: PARTS."""
    histogram = gap_histogram(inputs, span).filter(F.col("source") == _NAMESRV).withColumn("what", F.lit(GAP))
    tables = [histogram, _phi(inputs["heartbeat"], span), *_removals(inputs["broker_state"], span)]
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)
    return together.select(*in_columns(PARTS))


# Phi-accrual


def _phi(beats: DataFrame, span: Span) -> DataFrame:
    """Judge each interval by those before it; return how many thresholds they reached, counted.

    Sums that run on are subtracted from each other, which costs the same for each row, however many intervals a
    judgement looks back. Each day is judged by itself, so that days can be taken apart.
    """
    day = F.floor(F.unix_micros("event_time") / F.lit(86_400_000_000))
    view = Window.partitionBy("view", "day").orderBy("mono_us")
    up_to_now = view.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    gap_ms = F.col("interval_ms")
    told = beats.filter(ended_in(span) & gap_ms.isNotNull() & (F.col("event_type") == "beat")).filter(
        F.col("source") == _NAMESRV
    )
    running = told.select(
        *_BROKER,
        # One number instead of three names to sort by.
        F.xxhash64("boot_id", "broker_name", "broker_id").alias("view"),
        day.alias("day"),
        "mono_us",
        "interval_ms",
    ).withColumns(
        {
            "count": F.row_number().over(view),
            "sum": F.sum(gap_ms).over(up_to_now),
            "squares": F.sum(gap_ms * gap_ms).over(up_to_now),
        }
    )
    judged = _judged(running, view)
    return judged.groupBy(*_BROKER, "alarms").agg(
        F.lit(PHI).alias("what"),
        F.count_if(F.lit(True)).alias("n"),
        F.sum("interval_ms").alias("sum_ms"),
        F.sum("mean").alias("mean_sum_ms"),
        F.sum("deviation").alias("deviation_sum_ms"),
    )


def _judged(running: DataFrame, view: WindowSpec) -> DataFrame:
    """Add mean and deviation of the intervals before each one, and how many thresholds it reached."""
    long_ago = PHI_INTERVALS + 1
    lagged = running.withColumns(
        {
            "first_sum": F.lag("sum", long_ago, 0).over(view),
            "first_squares": F.lag("squares", long_ago, 0).over(view),
        }
    )
    # All but the present one.
    before = F.least(F.col("count") - 1, F.lit(PHI_INTERVALS))
    gap_ms = F.col("interval_ms")
    mean = (F.col("sum") - gap_ms - F.col("first_sum")) / before
    variance = (F.col("squares") - gap_ms * gap_ms - F.col("first_squares")) / before - F.col("mean") * F.col("mean")
    deviation = F.greatest(F.sqrt(F.greatest(F.col("variance"), F.lit(0.0))), F.lit(PHI_DEVIATION_MIN_MS))
    return (
        lagged.filter(F.col("count") > PHI_INTERVALS_MIN)
        .withColumn("mean", mean)
        .withColumn("variance", variance)
        .withColumn("deviation", deviation)
        .withColumn("alarms", _thresholds_reached((gap_ms - F.col("mean")) / F.col("deviation")))
    )


def _thresholds_reached(deviations: SparkColumn) -> SparkColumn:
    """Return how many thresholds lie below so many deviations; most intervals reach none, which is looked at first."""
    reached = F.when(deviations <= PHI_DEVIATIONS[0], 0)
    for count, limit in enumerate(PHI_DEVIATIONS[1:], start=1):
        reached = reached.when(deviations <= limit, count)
    return reached.otherwise(len(PHI_DEVIATIONS))


# Removals


def _removals(states: DataFrame, span: Span) -> list[DataFrame]:
    """Return silences that a removal interrupted, as rows of the histogram, and how many removals were failures."""
    place = Window.partitionBy("ns_id", "boot_id", *_BROKER).orderBy("mono_us", "seq")
    removed = F.col("event_type").isin("expired", "channel_closed")
    rows = (
        states.filter(F.coalesce("source", F.lit(_NAMESRV)) == _NAMESRV)
        .filter(removed | F.col("event_type").isin("registered_first", "unregistered"))
        .withColumn("seq", F.substring_index("event_id", "-", -1).cast("bigint"))
        .withColumns(
            {
                "before": F.lag("event_type").over(place),
                "silent_before_ms": F.lag("silent_ms").over(place)
                + (F.col("mono_us") - F.lag("mono_us").over(place)) / 1000,
            }
        )
        .filter(ended_in(span))
    )
    came_back = (F.col("event_type") == "registered_first") & (F.col("before") == "expired")
    slow = rows.filter(came_back & (F.col("silent_before_ms") <= SILENCE_MAX_MS))
    gap_ms = F.ceil("silent_before_ms")
    false_alarms = slow.select(
        *_BROKER,
        F.lit(_NAMESRV).alias("source"),
        F.lit(GAP).alias("what"),
        four_digits(gap_ms).alias("gap_ms"),
        F.lit(1).alias("n"),
        gap_ms.alias("sum_ms"),
        gap_ms.alias("max_ms"),
        F.lit(0).alias("missed"),
        F.lit(0).alias("uncounted_n"),
        F.lit(0).alias("period_sum_ms"),
    )
    return [false_alarms, _failures(rows.filter(removed), 1), _failures(slow, -1)]


def _failures(rows: DataFrame, sign: int) -> DataFrame:
    """Count removals, or take back those that were none."""
    return rows.groupBy(*_BROKER).agg(F.lit(FAILURE).alias("what"), (F.count_if(F.lit(True)) * sign).alias("n"))
