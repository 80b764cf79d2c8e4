"""What a number of events in some time says about their rate."""

import math
from statistics import NormalDist
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

#: On each side one time in twenty is allowed to be wrong.
CONFIDENCE: Final = 0.95

_Z: Final = NormalDist().inv_cdf(CONFIDENCE)

#: Up to here bounds are exact; of greater counts the approximation is right within 0.1 %.
_EXACT_UP_TO: Final = 40


def _chance_of_at_most(count: int, mean: float) -> float:
    """Return how likely a Poisson process of this mean brings at most so many."""
    return sum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1))


def _mean_with(count: int, chance: float) -> float:
    """Return the mean of which at most so many come with this chance."""
    low, high = 1e-9, 10.0 * (count + 5)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance_of_at_most(count, middle) > chance else (low, middle)
    return low


#: Of none in a time T: the rate is below 3 / T, by the rule of three.
_UPPER: Final = tuple(_mean_with(count, 1 - CONFIDENCE) for count in range(_EXACT_UP_TO + 1))
#: Of one: with that mean, one or more are counted one time in twenty.
_LOWER: Final = tuple(_mean_with(count, CONFIDENCE) for count in range(_EXACT_UP_TO))


def poisson_upper(count: Column) -> Column:
    """Return the number that the mean is below with 95 %, where so many were counted.

    Beyond a few counts by Wilson and Hilferty's approximation.
    """
    exact = F.get(_array(_UPPER), count.cast("int"))
    return F.coalesce(exact, _wilson_hilferty(count + 1, _Z))


def poisson_lower(count: Column) -> Column:
    """Return the number that the mean is above with 95 %; null where none were counted."""
    exact = F.get(_array(_LOWER), count.cast("int") - 1)
    return F.when(count > 0, F.coalesce(exact, _wilson_hilferty(count, -_Z)))


def _array(numbers: tuple[float, ...]) -> Column:
    return F.lit(list(numbers))


def _wilson_hilferty(shape: Column, z: float) -> Column:
    k = F.greatest(shape.cast("double"), F.lit(1.0))
    return k * F.pow(1 - 1 / (9 * k) + z / (3 * F.sqrt(k)), 3)
