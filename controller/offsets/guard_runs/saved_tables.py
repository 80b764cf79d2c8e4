"""What the mirror has saved, as the guard takes it. Pure."""

from collections.abc import Iterator

from controller.offsets.entry_keys import EntryKind
from controller.offsets.guard.candidates import SavedQueue, SavedTable, TableKey
from controller.offsets.guard_runs.occasions import Resets, Rewinds
from controller.offsets.mirror.saved_offsets import SavedOffsets


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
            key = entry.key
            self._found[TableKey(key.group, key.topic, key.kind is EntryKind.BROADCAST)] = {
                queue_id: SavedQueue(offset, self._rewinds.get((key, queue_id)), self._resets.get((key, queue_id)))
                for queue_id, offset in entry.offsets.items()
            }
