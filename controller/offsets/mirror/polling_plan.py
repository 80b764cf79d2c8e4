"""When which master is read. Pure: times are monotonic ms.

Readings are spread over the period, each set at its own part of it, so that a hundred answers of half a megabyte do not
come at once. A set whose last reading failed waits for its turn among those that fail: however many of them hang, they
take nothing from those that answer.
"""

from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

from controller.offsets.mirror.masters import MirroredMaster, SetName

#: Broker sets that are mirrored; further ones are left out, and counted.
SETS_MAX: Final = 4096


class PollingPlan:
    """Which readings are due, and which may begin."""

    def __init__(self, period_ms: int, polls_max: int, failing_max: int) -> None:
        self._period_ms = period_ms
        self._polls_max = polls_max
        self._failing_max = failing_max
        self._masters: dict[SetName, MirroredMaster] = {}
        #: When each set is read next.
        self._due_ms: dict[SetName, int] = {}
        self._failing: set[SetName] = set()
        #: Sets that are read now -> whether they count among those that fail.
        self._under_way: dict[SetName, bool] = {}
        #: Sets that are too many.
        self.left_out = 0

    def keep(self, masters: Iterable[MirroredMaster], now_ms: int) -> None:
        """Read these masters from now on, and no others. A set begins at its part of the period."""
        found = {each.set_name: each for each in masters}
        kept = dict(sorted(found.items())[:SETS_MAX]) if len(found) > SETS_MAX else found
        self.left_out = len(found) - len(kept)
        for name, master in kept.items():
            if name not in self._due_ms:
                self._due_ms[name] = self._first_ms(name, now_ms)
            if self._masters.get(name) != master:
                # Another broker has not failed yet.
                self._failing.discard(name)
        for name in self._due_ms.keys() - kept.keys():
            del self._due_ms[name]
            self._failing.discard(name)
        self._masters = kept

    def begin(self, now_ms: int) -> Iterator[MirroredMaster]:
        """Yield the masters to be read now, and count them as under way; those that failed last come last."""
        due = sorted((at, name) for name, at in self._due_ms.items() if at <= now_ms and name not in self._under_way)
        for is_failing in (False, True):
            free = (self._failing_max if is_failing else self._polls_max) - self._count(is_failing=is_failing)
            for _, name in [each for each in due if (each[1] in self._failing) is is_failing][: max(free, 0)]:
                self._under_way[name] = is_failing
                # Whatever was missed is not made up for.
                self._due_ms[name] += self._period_ms * (1 + (now_ms - self._due_ms[name]) // self._period_ms)
                yield self._masters[name]

    def ended(self, name: SetName, *, is_read: bool) -> None:
        """Count a reading as done."""
        del self._under_way[name]
        if name in self._due_ms and not is_read:
            self._failing.add(name)
        else:
            self._failing.discard(name)

    def is_master(self, master: MirroredMaster) -> bool:
        """Return whether a set still has this master, in this epoch."""
        return self._masters.get(master.set_name) == master

    def next_ms(self, now_ms: int) -> int:
        """Return when something is due next, a period from now at the latest."""
        waiting = (at for name, at in self._due_ms.items() if name not in self._under_way)
        return min(min(waiting, default=now_ms + self._period_ms), now_ms + self._period_ms)

    def _count(self, *, is_failing: bool) -> int:
        return sum(each is is_failing for each in self._under_way.values())

    def _first_ms(self, name: SetName, now_ms: int) -> int:
        """Return the next time at a set's own part of the period: the same in every process."""
        part_ms = crc32(str(name).encode()) % self._period_ms
        return now_ms + (part_ms - now_ms) % self._period_ms
