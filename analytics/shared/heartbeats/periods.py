"""The period of a broker's heartbeats: as configured by an operator, or the default of the kind if intervals agree.

Rows do not hold what a broker is configured to. A broker registers once more whenever its topics change, which makes
intervals shorter, and a lost heartbeat makes one interval of two. What shows of a period is a peak: many intervals of
one length. Without one the period is not known, and no heartbeat is counted as missed.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

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
#: A longer period than promised is configured_ms of so many intervals.
_INTERVALS_LEAST: Final = 20


class Peaks(NamedTuple):
    """How many intervals of a broker are where its period would show."""

    #: All of them, and those that are longer than a heartbeat in time would leave them.
    n: SparkColumn
    longer_n: SparkColumn
    #: Those of the promised length, of the median length of the longer ones, and of half of that.
    promised_n: SparkColumn
    median_n: SparkColumn
    half_n: SparkColumn


def promised_ms(periods: Periods) -> SparkColumn:
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


def is_configured(periods: Periods) -> SparkColumn:
    """Return whether an operator configured how often a broker sends heartbeats of the `kind` of a row."""
    of_all = [F.col("kind") == kind for name, kind in periods if name is None]
    of_set = [(F.col("kind") == kind) & (F.col("broker_name") == name) for name, kind in periods if name is not None]
    return reduce(lambda one, other: one | other, [*of_all, *of_set], F.lit(False))


def is_longer(gap_ms: SparkColumn, period_ms: SparkColumn) -> SparkColumn:
    """Return whether an interval is longer than a heartbeat in time would leave it."""
    return gap_ms > period_ms * (1 + LATE_PERIODS)


def is_at(gap_ms: SparkColumn, length_ms: SparkColumn) -> SparkColumn:
    """Return whether an interval is of that length."""
    return F.abs(gap_ms - length_ms) <= length_ms * _PEAK_WIDTH


def has_promised(peaks: Peaks) -> SparkColumn:
    """Return whether intervals agree with the promised period: none is longer, or many have its length."""
    return (peaks.longer_n == 0) | (peaks.promised_n >= peaks.longer_n * _PROMISED_LEAST)


def has_longer(peaks: Peaks) -> SparkColumn:
    """Return whether the median of the longer intervals is a period: most of them have its length.

    Lost heartbeats leave more intervals of one period than of two: where half of that length is more usual, it is none.
    """
    is_peak = (peaks.median_n > peaks.longer_n * _LONGER_MORE_THAN) & (peaks.median_n > peaks.half_n)
    return is_peak & (peaks.n >= _INTERVALS_LEAST) & (peaks.median_n >= peaks.n * _ALL_LEAST)


def missed_in(gap_ms: SparkColumn, period_ms: SparkColumn) -> SparkColumn:
    """Return the missed heartbeats of an interval: one for each period after the first, less what may be late."""
    late_ms = F.greatest(period_ms * LATE_PERIODS, F.least(period_ms * (1 - LATE_PERIODS), F.lit(LATE_MS)))
    return F.greatest(F.ceil((gap_ms - late_ms) / period_ms) - 1, F.lit(0)).cast("bigint")
