"""Where groups were before somebody set them back, or deleted their offsets: a new master may still show that.

Pure. A slave copies offsets every 10 s, or every 60 s (docs/protocol/offsets.md 1), but one of 5.5.0 keeps what it had
once anybody has pulled from its master (docs/protocol/broker-admin.md 15): that may be weeks old. No slave removes what
was deleted. So it is not time that ends a rewind, but that the group goes past where it was.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror.changes import MirrorChanges, MovedEntries
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import Regression
from controller.offsets.values import OFFSET_MAX

#: Queues of all sets together, about 200 bytes each.
REWINDS_MAX: Final = 100_000
#: Entries that are looked at before others run: about a millisecond.
_SLICE_ENTRIES: Final = 1000

#: By entry and queue id, the highest offset before it went back; those that went back last are at the end.
_Rewinds = dict[tuple[EntryKey, int], int]


class KeptRewinds:
    """The rewinds and deletions of all sets: one for each queue, until its group goes past it.

    Above the limit the set with the most forgets its oldest ones. What a new master shows counts as newer there.
    Offsets of broadcasting groups and of light queues are left out, as they are not guarded.
    """

    def __init__(self, limit: int = REWINDS_MAX) -> None:
        self._limit = limit
        self._by_set: dict[SetName, _Rewinds] = {}

    def slices(self, changes: MirrorChanges) -> Iterator[None]:
        """Remember what went back within a run, and forget what groups went past; yield after each millisecond or so.

        Between two runs nobody went anywhere: what another master shows may be the older copy that this is for.
        """
        if not changes.is_same_memory:
            return
        moved, rewinds = changes.moved, self._by_set.get(changes.set_name)
        if rewinds is not None:
            yield from _forget_passed(rewinds, moved)
            if not rewinds:
                del self._by_set[changes.set_name]
        if moved.decreased or moved.vanished:
            yield from _note_back(self._by_set.setdefault(changes.set_name, {}), moved)
            self._forget_above_limit()

    def restore(self, regressions: Iterable[Regression]) -> None:
        """Remember what an earlier process has seen go back, also what groups have gone past: that changes nothing."""
        for each in regressions:
            set_name, key, queue_id = each.queue
            if key.kind is EntryKind.CLUSTERING and each.now.run.has_memory_of(each.former.run):
                _note(self._by_set.setdefault(set_name, {}), (key, queue_id), each.from_offset)
        self._forget_above_limit()

    def forget(self, set_name: SetName) -> None:
        """Forget the rewinds of a set."""
        self._by_set.pop(set_name, None)

    def of_set(self, set_name: SetName) -> dict[tuple[EntryKey, int], int]:
        """Return the highest offset that a queue had before it went back, by entry and queue id."""
        return dict(self._by_set.get(set_name, {}))

    def _forget_above_limit(self) -> None:
        while (surplus := sum(map(len, self._by_set.values())) - self._limit) > 0:
            largest = max(self._by_set.values(), key=len)
            for queue in list(islice(largest, surplus)):
                del largest[queue]


def _forget_passed(rewinds: _Rewinds, moved: MovedEntries) -> Iterator[None]:
    keys = {key for key, _ in rewinds}
    for place, (key, moves, _) in enumerate(chain(moved.advanced, moved.new), 1):
        if key in keys:
            for queue_id, _, after in moves:
                assert after is not None, "it went there"
                if after >= rewinds.get((key, queue_id), OFFSET_MAX + 1):
                    del rewinds[key, queue_id]
        if place % _SLICE_ENTRIES == 0:
            yield None


def _note_back(rewinds: _Rewinds, moved: MovedEntries) -> Iterator[None]:
    for place, (key, moves, _) in enumerate(chain(moved.decreased, moved.vanished), 1):
        if key.kind is EntryKind.CLUSTERING:
            for queue_id, before, _ in moves:
                assert before is not None, "it was somewhere before it went back"
                _note(rewinds, (key, queue_id), before)
        if place % _SLICE_ENTRIES == 0:
            yield None


def _note(rewinds: _Rewinds, queue: tuple[EntryKey, int], from_offset: int) -> None:
    # One that goes back twice may still be shown where it was first.
    rewinds[queue] = max(from_offset, rewinds.pop(queue, 0))
