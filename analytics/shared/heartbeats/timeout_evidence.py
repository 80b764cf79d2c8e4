"""What separates good timeouts from bad ones, counted: false alarms, real ones, and how phi-accrual would have judged.

A silence that ended by itself is a false alarm for each timeout below it. Most of them stand in the histogram of
intervals. A broker that was given up and registered again at the same process of the server from the same address,
sooner than any timeout offered would have let it, is one more: it was slow, not dead. Time in which the server itself
paused is no evidence.

Of a broker that lets a slave act for its master, other heartbeats than registrations may come sooner after it was given
up. Only registrations are recorded then, so that such a silence is up to 30 s too long.
"""

from statistics import NormalDist
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from analytics.shared.broker_states import BROKER
from analytics.shared.days import DAY_US, MINUTE_US
from analytics.shared.heartbeats.gap_histogram import (
    GAP_COLUMNS,
    GAP_INPUTS,
    NAMESRV,
    ended_in,
    four_digits,
    gap_histogram,
    intervals,
    of_brokers,
)
from analytics.shared.job import Inputs, Span
from analytics.shared.observation import without_process_pauses
from analytics.shared.rows import of_namesrv, sequence
from analytics.spark.schemas import united
from history.columns import Column, Type

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
WATCHED: Final = "watched"

PARTS: Final = (
    *GAP_COLUMNS,
    Column(
        "what",
        Type.STRING,
        "gap: a row of the histogram; phi: judged intervals; failure: removals; watched: n minutes of NameServers",
    ),
    Column("alarms", Type.LONG, "phi: so many of the thresholds, from the lowest on, each of the n intervals reached"),
    Column("mean_sum_ms", Type.DOUBLE, "phi: sum of the means before each interval"),
    Column("deviation_sum_ms", Type.DOUBLE, "phi: sum of the standard deviations before each interval"),
    Column("minutes", Type.LONG, "watched: the same minutes, each counted once however many NameServers watched"),
)


def silence_parts(inputs: Inputs, span: Span) -> DataFrame:
    """Return the evidence of the span about timeouts of NameServers: PARTS."""
    histogram = gap_histogram(inputs, span).filter(F.col("source") == NAMESRV).withColumn("what", F.lit(GAP))
    tables = [histogram, _phi(intervals(inputs, span)), *_removals(inputs, span), _watched(inputs["ns_tick"], span)]
    return united(tables)


# Phi-accrual


def _phi(heartbeats: DataFrame) -> DataFrame:
    """Judge each interval by those before it; return how many thresholds they reached, counted.

    Sums that run on are subtracted from each other, which costs the same for each row, however many intervals a
    judgement looks back. Each day is judged by itself, so that days can be taken apart.
    """
    day = F.floor(F.unix_micros("event_time") / F.lit(DAY_US))
    view = Window.partitionBy("view", "day").orderBy("mono_us")
    up_to_now = view.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    gap_ms = F.col("interval_ms")
    received = heartbeats.filter((F.col("event_type") == "heartbeat") & (F.col("source") == NAMESRV))
    running = received.select(
        *BROKER,
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
    return judged.groupBy(*BROKER, "alarms").agg(
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
        {"first_sum": F.lag("sum", long_ago, 0).over(view), "first_squares": F.lag("squares", long_ago, 0).over(view)}
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


def _removals(inputs: Inputs, span: Span) -> list[DataFrame]:
    """Return silences that a removal interrupted, as rows of the histogram, and how many removals were failures.

    Only silence counts: how soon a connection is seen to end depends on no timeout.
    """
    rows = _with_the_one_before(inputs["broker_state"]).filter(ended_in(span))
    came_back = (F.col("event_type") == "registered_first") & (F.col("before") == "expired") & F.col("same_address")
    slow = rows.filter(came_back & (F.col("silent_before_ms") <= SILENCE_MAX_MS))
    gap_ms = F.ceil("silent_before_ms")
    since_us = F.col("mono_us") - gap_ms * 1000
    false_alarms = without_process_pauses(slow, inputs["ns_tick"], gap_ms, since_us, F.col("mono_us")).select(
        *BROKER,
        F.lit(NAMESRV).alias("source"),
        F.lit(GAP).alias("what"),
        F.lit("register").alias("kind"),
        four_digits(gap_ms).alias("gap_ms"),
        F.lit(1).alias("n"),
        gap_ms.alias("sum_ms"),
        F.lit(1).alias("summed_n"),
        gap_ms.alias("max_ms"),
    )
    return [false_alarms, _failures(rows.filter("event_type = 'expired'"), 1), _failures(slow, -1)]


def _with_the_one_before(states: DataFrame) -> DataFrame:
    """Return arrivals and departures at each process of a NameServer, with the broker's one before."""
    place = Window.partitionBy("ns_id", "boot_id", *BROKER).orderBy("mono_us", "seq")
    since_ms = (F.col("mono_us") - F.lag("mono_us").over(place)) / 1000
    return (
        of_brokers(states)
        .filter(F.col("source") == NAMESRV)
        .filter(F.col("event_type").isin("expired", "channel_closed", "registered_first", "unregistered"))
        .withColumn("seq", sequence())
        .withColumns(
            {
                "before": F.lag("event_type").over(place),
                "silent_before_ms": F.lag("silent_ms").over(place) + since_ms,
                "same_address": F.col("broker_addr").eqNullSafe(F.lag("broker_addr").over(place)),
            }
        )
    )


def _failures(rows: DataFrame, sign: int) -> DataFrame:
    """Count removals, or take back those that were none."""
    return rows.groupBy(*BROKER).agg(F.lit(FAILURE).alias("what"), (F.count_if(F.lit(True)) * sign).alias("n"))


# Who watched


def _watched(ticks: DataFrame, span: Span) -> DataFrame:
    """Count the minutes in which NameServers ticked: how many of them see one and the same pause of a broker."""
    us = F.unix_micros("event_time")
    mine = ticks.filter(ended_in(span) & of_namesrv())
    by_minute = mine.groupBy(F.floor(us / MINUTE_US)).agg(F.count_distinct("ns_id").alias("servers"))
    counted = by_minute.agg(F.sum("servers").alias("n"), F.count_if(F.lit(True)).alias("minutes"))
    return counted.filter("n > 0").withColumn("what", F.lit(WATCHED))
