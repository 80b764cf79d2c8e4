"""The store without etcd: one file on this machine, for one manager.

A change is acknowledged once its record is synced. As records grow, the rows that they have changed are written to the
table of rows in the same file, some at a time between the records, and the records are dropped then. A start reads the
rows and replays the records on top: `merge` keeps the newer value, so the order does not matter.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from offsets.commits.log_file import FileProblem, LogFile
from offsets.commits.stored import Change, RowName, encoded_row
from offsets.commits.table import OffsetTable
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.telemetry.events import Event

if TYPE_CHECKING:
    import asyncio

#: Records beyond this size are folded into rows; some 400,000 commits.
RECORDS_BYTES_MAX: Final = 16 << 20
#: Rows that are folded in one transaction: commits wait for it.
FOLD_ROWS: Final = 500


class EmbeddedStore:
    #: Nothing ever waits for another store.
    dirty_keys = 0
    oldest_dirty_ms = 0
    last_error = ""

    def __init__(self, folder: Path, clock: Clock, tasks: BackgroundTasks, emit: Callable[[Event], None]) -> None:
        """Open the file, or make it; blocks. Raises FileProblem."""
        self._file: Final = LogFile(folder, "embedded", clock, emit)
        self._tasks = tasks
        self._table = OffsetTable(0)
        #: Rows that records have changed since the last fold began.
        self._changed: set[RowName] = set()
        self._folding: asyncio.Task[bool] | None = None

    async def load(self, table: OffsetTable) -> None:
        """Fill a table, and take its changes from now on; raises FileProblem."""
        await self._file.run(lambda: self._load(table))
        self._table = table
        self._fold_if_large()

    def is_written_through(self, _: str) -> bool:
        """Return that an acknowledgement means this machine's disk, for every group."""
        return False

    async def store(self, changes: Sequence[Change]) -> None:
        """Stage changes that were decided just now, and return once they are on the disk.

        Raises StoreError, and then nothing is stored. A caller that is cancelled leaves nothing half done.
        """

        def stored() -> None:
            self._changed.update(change.name for change in changes)
            self._fold_if_large()

        if (error := await self._file.store(changes, self._table, stored)) is not None:
            raise error

    async def store_now(self, changes: Sequence[Change]) -> None:
        """Do the same: an operator's changes are as durable as any."""
        await self.store(changes)

    def write_again(self, names: Iterable[RowName]) -> None:
        """Let the next fold write rows from which deletions were forgotten."""
        self._changed.update(names)

    def stop_leading(self) -> None:
        """Do nothing: this manager leads as long as it lives."""

    async def close(self) -> None:
        """Store what waits, and close the file."""
        if self._folding is not None:
            self._folding.cancel()
        await self._file.close()

    def _load(self, table: OffsetTable) -> None:
        for name, queues in self._file.rows():
            table.merge(name, queues)
        for name, queue_id, value in self._file.changes():
            table.merge(name, {queue_id: value})
            self._changed.add(name)

    def _fold_if_large(self) -> None:
        is_at_rest = self._folding is None or self._folding.done()
        if self._file.log_bytes > RECORDS_BYTES_MAX and is_at_rest:
            self._folding = self._tasks.start(self._fold(), "fold_commits")

    async def _fold(self) -> None:
        changed, self._changed = self._changed, set()
        upto = self._file.number
        try:
            names = iter(tuple(changed))
            while part := tuple(islice(names, FOLD_ROWS)):
                rows = self._table.rows
                await self._file.put_rows(
                    {
                        name: encoded_row(rows[name].queues) if name in rows and rows[name].queues else None
                        for name in part
                    }
                )
            await self._file.drop(upto)
        except FileProblem:
            # The next write that fails, or succeeds, tells; records stay until then.
            self._changed |= changed
