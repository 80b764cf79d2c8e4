"""Histograms of intervals between heartbeats: additive, small, enough for quantiles, missed heartbeats, timeouts.

Intervals are those that the servers measured by their monotonic clocks, while they knew the broker; so none spans an
outage, a restart of the server, or rows that were lost. Those in which the server itself paused are left out. They
are rounded up to four digits: for each timeout of no more digits, an interval is longer than it exactly if it is so
when it is rounded.

The period of a broker's heartbeats is as configured by an operator, or the default of the kind if intervals agree. Rows
do not hold what a broker is configured to. A broker registers once more whenever its topics change, which makes
intervals shorter, and a lost heartbeat makes one interval of two. What shows of a period is a peak: many intervals of
one length. Without one the period is not known, and no heartbeat is counted as missed.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from analytics.shared.days import MINUTE_US
from analytics.shared.job import Inputs, Span
from analytics.shared.observation import without_process_pauses
from analytics.shared.rows import BROKER_COLUMNS, CLUSTER
from history.columns import Column, Type
from history.schemas import INTERVAL_BINS

GAP_INPUTS: Final = ("heartbeat", "heartbeat_summary", "ns_tick")

#: Rows that do not say who wrote them are of NameServers, which were the first to write any.
NAMESRV: Final = "namesrv"

#: Broker of the heartbeats, and the kind of server that receives them.
GAP_KEYS: Final = ("cluster", "source", "broker_name", "broker_id")

GAP_COLUMNS: Final = (
    CLUSTER,
    Column("source", Type.STRING, "namesrv or controller: the receiver of the heartbeats"),
    *BROKER_COLUMNS,
    Column("timeout_ms", Type.LONG, "ms of silence after which the broker is given up"),
    Column("kind", Type.STRING, "register, heartbeat, data_version or controller: what ended the interval"),
    Column("gap_ms", Type.LONG, "ms between two heartbeats, rounded up to four digits"),
    Column("n", Type.LONG, "so many such intervals; 0 in rows of sums alone"),
    Column("sum_ms", Type.LONG, "ms of them together; of quick brokers one row has it for all"),
    Column("summed_n", Type.LONG, "so many intervals are in that sum: not late ones whose minute was never summarised"),
    Column("max_ms", Type.LONG, "the longest of them; of quick brokers one row has it for all"),
    Column("last_us", Type.LONG, "when the last of them ended, Unix us"),
)

#: Up to here summaries have the lengths of intervals; each longer one has a row of its own.
_LATE_FROM: Final = INTERVAL_BINS.index(1.5)

#: The middle of each bin of a summary that is not late, as a multiple of the period.
_MIDDLES: Final = tuple(
    (low + high) / 2 for low, high in zip((0.0, *INTERVAL_BINS), INTERVAL_BINS[: _LATE_FROM + 1], strict=False)
)


#: Kind of a heartbeat -> ms between two of them, as brokers are configured by default: registerNameServerPeriod and
#: brokerHeartbeatInterval.
PROMISED_MS: Final = {"register": 30_000, "heartbeat": 1_000, "data_version": 1_000, "controller": 1_000}

#: Broker set and kind -> ms between two heartbeats, as operators configure them; without a set: of all that have none
#: of their own.
Periods = Mapping[tuple[str | None, str], int]

#: A heartbeat that comes so much after its time is late, and beyond that it was missed. A process that is held up, or
#: its machine, may be for most of a second; of heartbeats that are that quick, three quarters of a period are only
#: late.
LATE_PERIODS: Final = 0.25
LATE_MS: Final = 750

#: Intervals are of one length if they are not farther from it than by this part of it.
_PEAK_WIDTH: Final = 0.05
#: A peak at the promised period has at least so many intervals for each one that is longer.
_PROMISED_LEAST: Final = 0.5
#: The peak of a longer period has more than so large a part of the longer intervals, and so large a part of all.
_LONGER_MORE_THAN: Final = 0.5
_ALL_LEAST: Final = 0.05
#: A longer period than promised is known by so many intervals at least.
_INTERVALS_LEAST: Final = 20


def gap_histogram(inputs: Inputs, span: Span) -> DataFrame:
    """Return the intervals that ended in the span: GAP_COLUMNS."""
    return _of_heartbeats(intervals(inputs, span)).unionByName(_of_summaries(_summaries(inputs, span)))


def intervals(inputs: Inputs, span: Span) -> DataFrame:
    """Return the rows of intervals that ended in the span, but for those in which the server paused."""
    reported = of_brokers(inputs["heartbeat"]).filter(ended_in(span) & F.col("interval_ms").isNotNull())
    since_us = F.col("mono_us") - F.col("interval_ms") * 1000
    return without_process_pauses(reported, inputs["ns_tick"], F.col("interval_ms"), since_us, F.col("mono_us"))


def of_brokers(rows: DataFrame) -> DataFrame:
    """Return rows about brokers with their source; one below 0 is no broker yet: it waits for a controller's id."""
    has_id = F.coalesce(F.col("broker_id") >= 0, F.lit(True))
    return rows.filter(has_id).withColumn("source", F.coalesce("source", F.lit(NAMESRV)))


#: Below the first number ms are kept, below the second one tens of ms, and so on.
_STEPS: Final = ((10_000, 1), (100_000, 10), (1_000_000, 100), (10_000_000, 1_000))


def four_digits(gap_ms: SparkColumn) -> SparkColumn:
    """Return ms rounded up to four digits, beyond some hours to ten seconds."""
    step = F.lit(10_000)
    for below_ms, step_ms in reversed(_STEPS):
        step = F.when(gap_ms < below_ms, step_ms).otherwise(step)
    return F.ceil(gap_ms / step) * step


def added_up(histograms: DataFrame, periods: Periods) -> DataFrame:
    """Return the histograms of all days as one for each broker, with what is known of its heartbeats.

    Columns: GAP_KEYS, gap_ms, n, sum_ms, summed_n, max_ms, period_ms, missed; the last two are null where the period is
    not known. A broker that changed the kind of its heartbeats, and with it its timeout, has a period of its own for
    each timeout.
    """
    sums = histograms.groupBy(*GAP_KEYS, "timeout_ms", "kind", "gap_ms").agg(
        *(F.sum(name).alias(name) for name in ("n", "sum_ms", "summed_n")), F.max("max_ms").alias("max_ms")
    )
    same = Window.partitionBy(*GAP_KEYS, "timeout_ms")
    # All that follows finds a broker's rows in one place.
    promised = sums.repartition(*GAP_KEYS).withColumns(
        {
            "promised_ms": F.min(_promised_ms(periods)).over(same),
            "is_configured": F.min_by(_is_configured(periods), _promised_ms(periods)).over(same),
        }
    )
    known = _with_periods(promised, same)
    return known.withColumn("missed", _missed_in(F.col("gap_ms"), F.col("period_ms")) * F.col("n"))


def _with_periods(promised: DataFrame, same: WindowSpec) -> DataFrame:
    """Add `period_ms` where there is one: as configured, the default of the kind, or as the longer intervals show."""
    gap_ms, promised_ms, n = F.col("gap_ms"), F.col("promised_ms"), F.col("n")
    # Longer than a heartbeat in time would leave it.
    longer = gap_ms > promised_ms * (1 + LATE_PERIODS)
    longer_n = F.sum(F.when(longer, n).otherwise(0))
    up_to_now = same.orderBy("gap_ms").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = promised.withColumns({"longer_n": longer_n.over(same), "up_to": longer_n.over(up_to_now)})
    is_half = longer & (n > 0) & (F.col("up_to") * 2 >= F.col("longer_n"))
    halved = ranked.withColumn("median_ms", F.min(F.when(is_half, gap_ms)).over(same))

    def at(length_ms: SparkColumn) -> SparkColumn:
        is_there = F.abs(gap_ms - length_ms) <= length_ms * _PEAK_WIDTH
        return F.sum(F.when(is_there, n).otherwise(0)).over(same)

    all_n, median_ms = F.sum("n").over(same), F.col("median_ms")
    # Intervals agree with the promised period: none is longer, or many have its length.
    agree = (F.col("longer_n") == 0) | (at(promised_ms) >= F.col("longer_n") * _PROMISED_LEAST)
    # The median of the longer ones is a period if most of them have its length. Lost heartbeats leave more intervals of
    # one period than of two: where half of that length is more usual, it is none.
    is_peak = (at(median_ms) > F.col("longer_n") * _LONGER_MORE_THAN) & (at(median_ms) > at(median_ms / 2))
    is_usual = is_peak & (all_n >= _INTERVALS_LEAST) & (at(median_ms) >= all_n * _ALL_LEAST)
    period_ms = F.when(F.col("is_configured") | agree, promised_ms).when(is_usual, median_ms)
    return halved.withColumn("period_ms", period_ms).drop(
        "promised_ms", "is_configured", "longer_n", "up_to", "median_ms"
    )


def with_quantiles(histogram: DataFrame, value: str, shares: dict[str, float]) -> DataFrame:
    """Add to all rows of a broker the least values that so large shares do not exceed."""
    whole = Window.partitionBy(*GAP_KEYS)
    in_order = whole.orderBy(value)
    up_to_now = in_order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = histogram.withColumns({"_up_to": F.sum("n").over(up_to_now), "_all": F.sum("n").over(whole)})
    least = {
        name: F.min(F.when((F.col("n") > 0) & (F.col("_up_to") >= F.ceil(F.col("_all") * share)), F.col(value))).over(
            whole
        )
        for name, share in shares.items()
    }
    return ranked.withColumns(least).drop("_up_to", "_all")


def period_of_most() -> SparkColumn:
    """Return ms between heartbeats from the rows of a broker as `added_up` has them: as of most intervals, or null."""
    return F.max_by("period_ms", F.struct("n", "period_ms")).cast("double")


def ended_in(span: Span) -> SparkColumn:
    """Return whether a row is one of the span."""
    return F.col("event_time").between(
        F.timestamp_micros(F.lit(span.start_us)), F.timestamp_micros(F.lit(span.end_us - 1))
    )


def _of_heartbeats(heartbeats: DataFrame) -> DataFrame:
    """Count intervals that have rows. Sums over those of quick brokers stand in their summaries."""
    is_summarised = F.col("event_type") == "gap"
    return (
        heartbeats.withColumns(
            {
                "gap_ms": four_digits(F.col("interval_ms")),
                "told_ms": F.when(is_summarised, 0).otherwise(F.col("interval_ms")),
            }
        )
        .groupBy(*GAP_KEYS, "timeout_ms", "kind", "gap_ms")
        .agg(
            F.count_if(F.lit(True)).alias("n"),
            F.sum("told_ms").alias("sum_ms"),
            F.count_if(~is_summarised).alias("summed_n"),
            F.max("interval_ms").alias("max_ms"),
            F.unix_micros(F.max("event_time")).alias("last_us"),
        )
    )


def _summaries(inputs: Inputs, span: Span) -> DataFrame:
    """Return the summaries of the span, but for those of minutes in which the server paused.

    A summary is made after its minute; an interval that ended in the minute may have begun before it.
    """
    reported = of_brokers(inputs["heartbeat_summary"]).filter(
        ended_in(span) & F.col("hist").isNotNull() & (F.col("period_ms") > 0)
    )
    since_us = F.col("mono_us") - (F.unix_micros("event_time") - F.unix_micros("minute"))
    longest_ms = F.col("interval_max_ms")
    return without_process_pauses(
        reported, inputs["ns_tick"], longest_ms, since_us - longest_ms * 1000, since_us + F.lit(MINUTE_US)
    )


def _of_summaries(summaries: DataFrame) -> DataFrame:
    """Count intervals that are only known by the bin of a summary, as if all were as long as its middle.

    The row of the first bin, which is there even if it is empty, has sum and longest of all, late ones too.
    """
    bins = F.array(*(F.sum(F.get("hist", F.lit(bin_))) for bin_ in range(len(_MIDDLES))))
    by_period = summaries.groupBy(*GAP_KEYS, "timeout_ms", "kind", "period_ms").agg(
        bins.alias("bins"),
        F.sum("interval_sum_ms").alias("all_ms"),
        F.sum("n").alias("all_n"),
        F.max("interval_max_ms").alias("longest_ms"),
        F.unix_micros(F.max("event_time")).alias("last_us"),
    )
    each = by_period.select("*", F.posexplode("bins").alias("bin", "n"))
    middle_ms = F.get(F.array(*(F.lit(middle) for middle in _MIDDLES)), F.col("bin")) * F.col("period_ms")
    first = F.col("bin") == 0
    return each.filter("n > 0 OR bin = 0").select(
        *GAP_KEYS,
        "timeout_ms",
        "kind",
        four_digits(F.ceil(middle_ms)).alias("gap_ms"),
        "n",
        F.when(first, F.col("all_ms")).otherwise(0).alias("sum_ms"),
        F.when(first, F.col("all_n")).otherwise(0).alias("summed_n"),
        F.when(first, F.col("longest_ms")).alias("max_ms"),
        "last_us",
    )


# What is promised


def _promised_ms(periods: Periods) -> SparkColumn:
    """Return ms between heartbeats of a row's `kind` and `broker_name`; of unknown kinds those of a registration."""
    of_all = PROMISED_MS | {kind: period_ms for (name, kind), period_ms in periods.items() if name is None}
    of_set = {f"{kind}/{name}": period_ms for (name, kind), period_ms in periods.items() if name is not None}
    configured_ms = F.try_element_at(_map(of_all), F.col("kind"))
    if of_set:
        configured_ms = F.coalesce(
            F.try_element_at(_map(of_set), F.concat_ws("/", "kind", "broker_name")), configured_ms
        )
    return F.coalesce(configured_ms, F.lit(of_all["register"])).cast("bigint")


def _map(numbers: Mapping[str, int]) -> SparkColumn:
    return F.create_map(*(F.lit(each) for pair in numbers.items() for each in pair))


def _is_configured(periods: Periods) -> SparkColumn:
    """Return whether an operator configured how often a broker sends heartbeats of the `kind` of a row."""
    of_all = [F.col("kind") == kind for name, kind in periods if name is None]
    of_set = [(F.col("kind") == kind) & (F.col("broker_name") == name) for name, kind in periods if name is not None]
    return reduce(lambda one, other: one | other, [*of_all, *of_set], F.lit(False))


def _missed_in(gap_ms: SparkColumn, period_ms: SparkColumn) -> SparkColumn:
    """Return the missed heartbeats of an interval: one for each period after the first, less what may be late."""
    late_ms = F.greatest(period_ms * LATE_PERIODS, F.least(period_ms * (1 - LATE_PERIODS), F.lit(LATE_MS)))
    return F.greatest(F.ceil((gap_ms - late_ms) / period_ms) - 1, F.lit(0)).cast("bigint")
