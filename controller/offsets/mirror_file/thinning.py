"""Which changes in the file of the mirror become one, as they grow old. Pure: times are Unix ms.

Every change of the last hour is kept, then the last value of each minute for a day, then that of each hour. What is
older than KEPT_MS goes into the table that all changes begin from.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final, NamedTuple

HOUR_MS: Final = 3_600_000
#: Changes are kept so long.
KEPT_MS: Final = 14 * 24 * HOUR_MS


class _Step(NamedTuple):
    """Changes of one tier become those of the next one."""

    #: How old they are at least.
    after_ms: int
    #: All in so much time become one.
    within_ms: int


#: By tier of what is merged: every change, one a minute.
_STEPS: Final = (_Step(HOUR_MS, 60_000), _Step(24 * HOUR_MS, HOUR_MS))
#: Of changes of which there is one an hour.
TIERS: Final = len(_STEPS)


class StoredChange(NamedTuple):
    """A change in the file."""

    number: int
    unix_ms: int


class Merge(NamedTuple):
    """Changes of one set that become one of the next tier, the oldest first; the last one's time stays."""

    changes: tuple[StoredChange, ...]


def ready_before(tier: int, unix_ms: int) -> int:
    """Return before when changes of a tier are old enough to be merged."""
    step = _STEPS[tier]
    return (unix_ms - step.after_ms) // step.within_ms * step.within_ms


def merges(tier: int, changes: Iterable[StoredChange]) -> Iterator[Merge]:
    """Yield what becomes one, of changes of a tier that are old enough and in their order."""
    within_ms = _STEPS[tier].within_ms
    for _, together in groupby(changes, lambda each: each.unix_ms // within_ms):
        yield Merge(tuple(together))
