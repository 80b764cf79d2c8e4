"""What a number of events in some time says about their rate."""

import math
from statistics import NormalDist
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

#: On each side one time in twenty is allowed to be wrong.
CONFIDENCE: Final = 0.95

_Z: Final = NormalDist().inv_cdf(CONFIDENCE)

#: Of none in a time T: the rate is below 3 / T, by the rule of three.
_OF_NONE: Final = -math.log(1 - CONFIDENCE)

#: Of one: with that mean, one or more are counted one time in twenty.
_OF_ONE: Final = -math.log(CONFIDENCE)


def poisson_upper(count: Column) -> Column:
    """Return the number that the mean is below with 95 %, where so many were counted.

    By Wilson and Hilferty's approximation, within 1 % of the exact bound; exact for none.
    """
    some = _wilson_hilferty(count + 1, _Z)
    return F.when(count == 0, _OF_NONE).otherwise(some)


def poisson_lower(count: Column) -> Column:
    """Return the number that the mean is above with 95 %; null where none were counted.

    As above, within 3 %; exact for one, for which the approximation is bad.
    """
    return F.when(count == 1, _OF_ONE).when(count > 1, _wilson_hilferty(count, -_Z))


def _wilson_hilferty(shape: Column, z: float) -> Column:
    k = F.greatest(shape.cast("double"), F.lit(1.0))
    return k * F.pow(1 - 1 / (9 * k) + z / (3 * F.sqrt(k)), 3)
