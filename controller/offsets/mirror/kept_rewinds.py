"""Where groups were before somebody set them back, or deleted their offsets: a new master may still show that.

Pure. A slave copies offsets every 10 s, or every 60 s (docs/protocol/offsets.md 1), but one of 5.5.0 keeps what it had
once anybody has pulled from its master (docs/protocol/broker-admin.md 15): that may be weeks old. No slave removes what
was deleted. So it is not time that ends a rewind, but that the group goes past where it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror.changes import MirrorChanges, MovedEntries
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import Regression
from controller.offsets.values import OFFSET_MAX

#: Queues of all sets together, about 200 bytes each.
REWINDS_MAX: Final = 100_000
#: Entries that are looked at before others run: about a millisecond.
_SLICE_ENTRIES: Final = 1000

#: Queues of one set that have changed and wait to be stored, by name; where there are more, the whole set is.
_CHANGED_MAX: Final = 20_000

_Queue = tuple[EntryKey, int]
#: By entry and queue id, the highest offset before it went back; those that went back last are at the end.
Rewinds = dict[_Queue, int]


class RewindChanges(NamedTuple):
    """What has changed of the rewinds of one set since the last update."""

    #: The highest offset before a queue went back; None: its group is there again, or it was forgotten.
    from_offsets: Mapping[_Queue, int | None]
    #: Whether these are all that the set has.
    are_all: bool = False


class KeptRewinds:
    """The rewinds and deletions of all sets: one for each queue, until its group goes past it.

    Above the limit the set with the most forgets its oldest ones. What a new master shows counts as newer there.
    Offsets of broadcasting groups and of light queues are left out, as they are not guarded.
    """

    def __init__(self, limit: int = REWINDS_MAX) -> None:
        self._limit = limit
        self._by_set: dict[SetName, Rewinds] = {}
        #: By set, what has changed since `take_changes`; None: too much to be named.
        self._changed: dict[SetName, dict[_Queue, None] | None] = {}

    def slices(self, changes: MirrorChanges) -> Iterator[None]:
        """Remember what went back within a run, and forget what groups went past; yield after each millisecond or so.

        Between two runs nobody went anywhere: what another master shows may be the older copy that this is for.
        """
        if not changes.is_same_memory:
            return
        name, moved = changes.set_name, changes.moved
        if name in self._by_set:
            yield from self._forget_passed(name, moved)
        if moved.decreased or moved.vanished:
            yield from self._note_back(name, moved)
            self._forget_above_limit()

    def restore(self, regressions: Iterable[Regression]) -> None:
        """Remember what an earlier process has seen go back, also what groups have gone past: that changes nothing."""
        for each in regressions:
            set_name, key, queue_id = each.queue
            if key.kind is EntryKind.CLUSTERING and each.now.run.has_memory_of(each.former.run):
                self._note(set_name, (key, queue_id), each.from_offset)
        self._forget_above_limit()

    def restore_stored(self, set_name: SetName, rewinds: Rewinds) -> None:
        """Remember what an earlier process has stored of a set, as from before all that is known here."""
        known = self._by_set.get(set_name, {})
        if earlier := {queue: max(offset, known.get(queue, 0)) for queue, offset in rewinds.items()}:
            self._by_set[set_name] = earlier | {queue: at for queue, at in known.items() if queue not in earlier}
        self._forget_above_limit()

    def forget(self, set_name: SetName) -> None:
        """Forget the rewinds of a set, which is removed where they are stored too."""
        self._by_set.pop(set_name, None)
        self._changed.pop(set_name, None)

    def of_set(self, set_name: SetName) -> Rewinds:
        """Return the highest offset that a queue had before it went back, by entry and queue id."""
        return dict(self._by_set.get(set_name, {}))

    def take_changes(self) -> Mapping[SetName, RewindChanges]:
        """Return what has changed since the last call, those that went back last at the end."""
        changed, self._changed = self._changed, {}
        return {name: self._changes_of(name, queues) for name, queues in changed.items()}

    def put_back(self, changes: Mapping[SetName, RewindChanges]) -> None:
        """Let changes that could not be stored be taken again, with what is known then."""
        for name, each in changes.items():
            if each.are_all:
                self._changed[name] = None
            for queue in each.from_offsets:
                self._changed_at(name, queue)

    def take_all_again(self) -> None:
        """Let everything be taken: what is stored has nothing of it, or something else."""
        self._changed = dict.fromkeys(self._by_set)

    def _changes_of(self, name: SetName, queues: Iterable[_Queue] | None) -> RewindChanges:
        rewinds = self._by_set.get(name, {})
        if queues is None:
            return RewindChanges(dict(rewinds), are_all=True)
        return RewindChanges({queue: rewinds.get(queue) for queue in queues})

    def _changed_at(self, name: SetName, queue: _Queue) -> None:
        if (queues := self._changed.setdefault(name, {})) is None:
            return
        queues.pop(queue, None)
        queues[queue] = None
        if len(queues) > _CHANGED_MAX:
            self._changed[name] = None

    def _note(self, name: SetName, queue: _Queue, from_offset: int) -> None:
        # One that goes back twice may still be shown where it was first.
        rewinds = self._by_set.setdefault(name, {})
        former = rewinds.pop(queue, -1)
        rewinds[queue] = max(from_offset, former)
        if from_offset > former:
            self._changed_at(name, queue)

    def _remove(self, name: SetName, queue: _Queue) -> None:
        rewinds = self._by_set[name]
        del rewinds[queue]
        self._changed_at(name, queue)
        if not rewinds:
            del self._by_set[name]

    def _forget_passed(self, name: SetName, moved: MovedEntries) -> Iterator[None]:
        keys = {key for key, _ in self._by_set[name]}
        for place, (key, moves, _) in enumerate(chain(moved.advanced, moved.new), 1):
            if key in keys:
                for queue_id, _, after in moves:
                    assert after is not None, "it went there"
                    if after >= self._by_set.get(name, {}).get((key, queue_id), OFFSET_MAX + 1):
                        self._remove(name, (key, queue_id))
            if place % _SLICE_ENTRIES == 0:
                yield None

    def _note_back(self, name: SetName, moved: MovedEntries) -> Iterator[None]:
        for place, (key, moves, _) in enumerate(chain(moved.decreased, moved.vanished), 1):
            if key.kind is EntryKind.CLUSTERING:
                for queue_id, before, _ in moves:
                    assert before is not None, "it was somewhere before it went back"
                    self._note(name, (key, queue_id), before)
            if place % _SLICE_ENTRIES == 0:
                yield None

    def _forget_above_limit(self) -> None:
        while (surplus := sum(map(len, self._by_set.values())) - self._limit) > 0:
            name, largest = max(self._by_set.items(), key=lambda each: len(each[1]))
            for queue in list(islice(largest, surplus)):
                self._remove(name, queue)
