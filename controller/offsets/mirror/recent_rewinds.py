"""Where groups were before they went back, as long as slaves may not have copied it: a new master may still show that.

Pure. A slave copies offsets every 10 s, or every 60 s (docs/protocol/offsets.md 1).
"""

from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import Regression

#: Two times as long as a slave takes at most to copy offsets.
KEPT_MS: Final = 120_000


class _Rewind(NamedTuple):
    from_offset: int
    unix_ms: int


class RecentRewinds:
    """The rewinds of all sets within KEPT_MS; one for each queue that has offsets at most."""

    def __init__(self) -> None:
        self._by_set: dict[SetName, dict[tuple[EntryKey, int], _Rewind]] = {}

    def note(self, changes: MirrorChanges) -> None:
        """Remember what went back within a run; forget of this set what is older than KEPT_MS."""
        unix_ms = changes.now.answered_unix_ms
        rewinds = self._by_set.get(changes.set_name, {})
        kept = {queue: each for queue, each in rewinds.items() if unix_ms - each.unix_ms <= KEPT_MS}
        if changes.is_same_memory:
            for key, moves, _ in changes.moved.decreased:
                for queue_id, before, _ in moves:
                    assert before is not None, "it was somewhere before it went back"
                    former = kept.get((key, queue_id))
                    # One that goes back twice may still be shown where it was first.
                    highest = before if former is None else max(before, former.from_offset)
                    kept[key, queue_id] = _Rewind(highest, unix_ms)
        if kept:
            self._by_set[changes.set_name] = kept
        else:
            self._by_set.pop(changes.set_name, None)

    def restore(self, regression: Regression) -> None:
        """Remember a rewind that an earlier process has seen."""
        (set_name, key, queue_id), unix_ms = regression.queue, regression.unix_ms
        if regression.to_offset is None or not regression.now.run.has_memory_of(regression.former.run):
            return
        rewinds = self._by_set.setdefault(set_name, {})
        former = rewinds.get((key, queue_id))
        if former is None or unix_ms - former.unix_ms > KEPT_MS:
            rewinds[key, queue_id] = _Rewind(regression.from_offset, unix_ms)
        elif former.unix_ms - unix_ms <= KEPT_MS:
            highest = max(regression.from_offset, former.from_offset)
            rewinds[key, queue_id] = _Rewind(highest, max(unix_ms, former.unix_ms))

    def of_set(self, set_name: SetName, unix_ms: int) -> dict[tuple[EntryKey, int], int]:
        """Return the highest offset that a queue had before it went back, by entry and queue id."""
        rewinds = self._by_set.get(set_name, {})
        return {queue: each.from_offset for queue, each in rewinds.items() if unix_ms - each.unix_ms <= KEPT_MS}
