"""Broker sets that nobody shows any more, and how long their mirrors are kept. Pure: times are Unix ms.

Whoever registers a broker names a set: without a limit each name would stay for good.
"""

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.polling_plan import SETS_MAX

#: A set that nobody shows is kept so long.
KEPT_MS: Final = 14 * 24 * 3_600_000
#: Sets that are kept; of more, those go first that nobody has shown for the longest time.
KEPT_SETS_MAX: Final = 2 * SETS_MAX


class AbsenceChanges(NamedTuple):
    """What one look has found."""

    #: Nobody shows them since now.
    absent: Collection[SetName]
    #: Somebody shows them again.
    back: Collection[SetName]
    #: With the time since when nobody has shown them: they are not kept any more.
    dropped: Collection[tuple[SetName, int]]


class AbsentSets:
    """Since when nobody shows each of some sets."""

    def __init__(self, sets_max: int = KEPT_SETS_MAX) -> None:
        self._sets_max = sets_max
        self._since_ms: dict[SetName, int] = {}

    def restore(self, name: SetName, since_ms: int) -> None:
        """Take what an earlier process has found."""
        self._since_ms[name] = since_ms

    def since(self, name: SetName) -> int | None:
        """Return since when nobody shows a set; None if somebody does."""
        return self._since_ms.get(name)

    def look(
        self,
        mirrored: AbstractSet[SetName],
        shown: AbstractSet[SetName],
        now_ms: int,
        age_ms: Callable[[int], int],
    ) -> AbsenceChanges:
        """Find what has changed of the sets that are mirrored, beside those that somebody shows.

        `age_ms` returns how long ago a moment was: the clock may have leapt ahead since.
        """
        since_ms = self._since_ms
        back = since_ms.keys() & shown
        for name in back:
            del since_ms[name]
        absent = mirrored - shown - since_ms.keys()
        since_ms |= dict.fromkeys(absent, now_ms)
        too_many = max(len(mirrored) - self._sets_max, 0)
        longest = sorted(since_ms, key=lambda name: since_ms[name])
        dropped = [
            (name, since_ms.pop(name))
            for place, name in enumerate(longest)
            if place < too_many or age_ms(since_ms[name]) > KEPT_MS
        ]
        return AbsenceChanges(absent, back, dropped)
