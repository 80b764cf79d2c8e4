"""How often a broker beats: what the kind of its beats promises, unless an operator says otherwise.

Rows do not hold what a broker is configured to, and intervals do not tell it: a broker registers once more whenever its
topics change, and a lost beat makes one interval of two.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

#: Kind of a beat -> ms between two of them, as brokers are configured by default: registerNameServerPeriod and
#: brokerHeartbeatInterval.
PROMISED_MS: Final = {"register": 30_000, "heartbeat": 1_000, "data_version": 1_000, "controller": 1_000}

#: Broker set and kind -> ms between two beats, as operators tell them; without a set: of all that have none of their
#: own.
Periods = Mapping[tuple[str | None, str], int]

#: A beat that comes so much after its time is late, and beyond that it was missed. A process that is held up, or its
#: machine, may be for most of a second; of beats that are that quick, three quarters of a period are only late.
LATE_PERIODS: Final = 0.25
LATE_MS: Final = 750

#: Up to so many periods an interval is a usual one.
_USUAL_PERIODS: Final = 1 + LATE_PERIODS
#: If fewer of the intervals are usual ones, the promise is not kept: the broker is configured otherwise.
_USUAL_LEAST: Final = 0.05
#: That can be told of so many intervals.
_INTERVALS_LEAST: Final = 20


def promised_ms(periods: Periods) -> SparkColumn:
    """Return ms between beats of the `kind` of a row of a `broker_name`; of unknown kinds those of a registration."""
    of_all = PROMISED_MS | {kind: period_ms for (name, kind), period_ms in periods.items() if name is None}
    of_set = {f"{kind}/{name}": period_ms for (name, kind), period_ms in periods.items() if name is not None}
    told = F.try_element_at(_map(of_all), F.col("kind"))
    if of_set:
        told = F.coalesce(F.try_element_at(_map(of_set), F.concat_ws("/", "kind", "broker_name")), told)
    return F.coalesce(told, F.lit(of_all["register"])).cast("bigint")


def _map(numbers: Mapping[str, int]) -> SparkColumn:
    return F.create_map(*(F.lit(each) for pair in numbers.items() for each in pair))


def usual_n(gap_ms: SparkColumn, period_ms: SparkColumn, n: SparkColumn) -> SparkColumn:
    """Return how many of the intervals of a row keep the promise."""
    return F.when(gap_ms <= period_ms * _USUAL_PERIODS, n).otherwise(0)


def is_longer(usual: SparkColumn, n: SparkColumn) -> SparkColumn:
    """Tell of all intervals whether a broker beats less often than its beats promise: hardly any is a usual one.

    Extra beats only make intervals shorter, and lost ones leave some as they are.
    """
    return (n >= _INTERVALS_LEAST) & (usual < n * _USUAL_LEAST)


def missed_in(gap_ms: SparkColumn, period_ms: SparkColumn) -> SparkColumn:
    """Return how many beats did not come in an interval: one for each period after the first, and what may be late."""
    late_ms = F.greatest(period_ms * LATE_PERIODS, F.least(period_ms * (1 - LATE_PERIODS), F.lit(LATE_MS)))
    return F.greatest(F.ceil((gap_ms - late_ms) / period_ms) - 1, F.lit(0)).cast("bigint")
