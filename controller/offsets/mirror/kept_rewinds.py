"""Where groups were before somebody set them back, or deleted their offsets: a new master may still show that.

Pure. A slave copies offsets every 10 s, or every 60 s (docs/protocol/offsets.md 1), but one of 5.5.0 keeps what it had
once anybody has pulled from its master (docs/protocol/broker-admin.md 15): that may be weeks old. No slave removes what
was deleted. So it is not time that ends a rewind, but that the group goes past where it was.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror.changes import MirrorChanges, MovedEntries
from controller.offsets.mirror.masters import SetName
from controller.offsets.values import OFFSET_MAX

#: What queues of all sets count together; one of them takes about 200 bytes here and up to 1 KiB in the file.
REWINDS_MAX: Final = 100_000
#: Entries that are looked at before others run: about a millisecond.
_SLICE_ENTRIES: Final = 1000
#: Of topic and group, which the file has twice for each queue.
_NAME_CHARACTERS: Final = 128

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

    Above the limit the largest set forgets its oldest ones: a queue counts once for each _NAME_CHARACTERS of
    its names, as those are stored with it. What a new master shows counts as newer there.
    Offsets of broadcasting groups and of light queues are left out, as they are not guarded.
    """

    def __init__(self, limit: int = REWINDS_MAX) -> None:
        self._limit = limit
        self._by_set: dict[SetName, Rewinds] = {}
        #: By set, what its queues count.
        self._counts: Counter[SetName] = Counter()
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
            yield from self._forget_surplus()

    def restore(self, set_name: SetName, rewinds: Rewinds) -> None:
        """Remember what an earlier process has stored of a set, as from before all that is known here."""
        known = self._by_set.get(set_name, {})
        if earlier := {queue: max(offset, known.get(queue, 0)) for queue, offset in rewinds.items()}:
            self._by_set[set_name] = earlier | {queue: at for queue, at in known.items() if queue not in earlier}
            self._counts[set_name] = sum(map(_count_of, self._by_set[set_name]))
        deque(self._forget_surplus(), maxlen=0)

    def forget(self, set_name: SetName) -> None:
        """Forget the rewinds of a set, which is removed where they are stored too."""
        self._by_set.pop(set_name, None)
        self._counts.pop(set_name, None)
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
        if (former := rewinds.pop(queue, -1)) < 0:
            self._counts[name] += _count_of(queue)
        rewinds[queue] = max(from_offset, former)
        if from_offset > former:
            self._changed_at(name, queue)

    def _remove(self, name: SetName, queue: _Queue) -> None:
        rewinds = self._by_set[name]
        del rewinds[queue]
        self._counts[name] -= _count_of(queue)
        self._changed_at(name, queue)
        if not rewinds:
            del self._by_set[name], self._counts[name]

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

    def _forget_surplus(self) -> Iterator[None]:
        while (surplus := self._counts.total() - self._limit) > 0:
            ((name, _),) = self._counts.most_common(1)
            for queue in list(islice(self._by_set[name], _SLICE_ENTRIES)):
                if surplus > 0:
                    self._remove(name, queue)
                    surplus -= _count_of(queue)
            yield None


def _count_of(queue: _Queue) -> int:
    key, _ = queue
    return 1 + (len(key.topic) + len(key.group)) // _NAME_CHARACTERS
