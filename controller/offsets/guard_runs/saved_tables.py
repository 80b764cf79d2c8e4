"""What the mirror has saved, as the guard takes it. Pure."""

from collections import ChainMap
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, cast

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.guard.candidates import SavedQueue, SavedTable, TableKey
from controller.offsets.guard_runs.occasions import Resets, Rewinds
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import REGRESSIONS_MAX, RegressionCause, RegressionLog
from controller.offsets.mirror.saved_offsets import SavedOffsets

#: What somebody has set back on purpose; what another manager's guard has set back cannot be told from it.
ON_PURPOSE: Final = frozenset(
    {
        RegressionCause.OPERATOR_RESET,
        RegressionCause.GUARD_OR_REWIND,
        RegressionCause.REWIND,
        RegressionCause.DELETED,
    }
)
#: Rewinds that are looked at before others run: about a millisecond.
_SLICE_REWINDS: Final = 500


def set_back_since(
    regressions: RegressionLog,
    set_name: SetName,
    unix_ms: int,
    resets: Resets,
    causes: AbstractSet[RegressionCause] = ON_PURPOSE,
) -> Resets:
    """Return `resets` and to where else somebody has set queues of a set back since a reading; 0 for deleted offsets.

    Later runs than that of the reading may have been read, and what was set back there is newer than what it has.
    """
    later: dict[tuple[EntryKey, int], int] = {}
    for each in regressions.last(
        REGRESSIONS_MAX,
        lambda one: one.queue.set_name == set_name and one.cause in causes and one.unix_ms > unix_ms,
    ):
        queue, offset = (each.queue.key, each.queue.queue_id), each.to_offset or 0
        later[queue] = min(later.get(queue, offset), resets.get(queue, offset), offset)
    # Not a copy: `resets` may have every queue.
    return ChainMap(later, cast("dict[tuple[EntryKey, int], int]", resets))


class SavedTableReading:
    """Decodes what was saved, a slice at a time."""

    def __init__(self, saved: SavedOffsets, rewinds: Rewinds, resets: Resets) -> None:
        self._saved = saved
        self._rewinds = rewinds
        self._resets = resets
        self._found: dict[TableKey, dict[int, SavedQueue]] = {}

    @property
    def table(self) -> SavedTable:
        """What was decoded: all of it once the slices are done."""
        return self._found

    def slices(self) -> Iterator[None]:
        """Decode, and yield after each slice of about a millisecond."""
        for entry in self._saved.entries():
            if entry is None:
                yield None
                continue
            self._found[_table_key(entry.key)] = {
                queue_id: self._queue(entry.key, queue_id, offset) for queue_id, offset in entry.offsets.items()
            }
        yield from self._deleted()

    def _deleted(self) -> Iterator[None]:
        """Add the queues of which somebody has deleted the offset: a new master may still have it."""
        for place, (key, queue_id) in enumerate(self._rewinds, 1):
            queues = self._found.setdefault(_table_key(key), {})
            if queue_id not in queues:
                queues[queue_id] = self._queue(key, queue_id, None)
            if place % _SLICE_REWINDS == 0:
                yield None

    def _queue(self, key: EntryKey, queue_id: int, offset: int | None) -> SavedQueue:
        return SavedQueue(offset, self._rewinds.get((key, queue_id)), self._resets.get((key, queue_id)))


def _table_key(key: EntryKey) -> TableKey:
    return TableKey(key.group, key.topic, key.kind is EntryKind.BROADCAST)
