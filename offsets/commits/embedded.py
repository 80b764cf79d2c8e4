"""The store without etcd: one file on this machine, for one manager.

A change is acknowledged once its record is synced. As records grow, the rows that they have changed are written to the
table of rows in the same file, some at a time between the records, and the records are dropped then. A start reads the
rows and replays the records on top: `merge` keeps the newer value, so the order does not matter.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from offsets.commits.events import LocalFileFailed
from offsets.commits.formats import encoded_row
from offsets.commits.log_file import FileProblem, LogFile
from offsets.commits.stored import Change, RowName
from offsets.commits.table import OffsetTable
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.telemetry.events import Event

#: Records beyond this size are folded into rows; some 400,000 commits.
RECORDS_BYTES_MAX: Final = 16 << 20
#: Rows that are folded in one transaction: commits wait for it.
FOLD_ROWS: Final = 500


class EmbeddedStore:
    """All offsets in one file; used from one event loop."""

    #: Nothing ever waits for another store.
    dirty_keys = 0
    oldest_dirty_ms = 0
    last_error = ""

    def __init__(self, folder: Path, clock: Clock, tasks: BackgroundTasks, emit: Callable[[Event], None]) -> None:
        """Open the file, or make it; blocks. Raises FileProblem."""
        self._file: Final = LogFile(folder, "embedded", clock)
        self._tasks, self._emit = tasks, emit
        self._table = OffsetTable(0)
        #: Rows that records have changed since the last fold began.
        self._changed: set[RowName] = set()
        self._folding: asyncio.Task[bool] | None = None
        self._is_failing = False

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
        self._file.check_room(len(changes))
        table, stored = self._table, asyncio.get_running_loop().create_future()
        table.stage(changes)

        def done(error: Exception | None) -> None:
            if error is None:
                table.confirm(changes)
                self._changed.update(change.name for change in changes)
            else:
                table.withdraw(changes)
            self._told(error)
            if not stored.done():
                stored.set_result(error)
            self._fold_if_large()

        self._file.append(changes, done)
        if (error := await stored) is not None:
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

    def _told(self, error: Exception | None) -> None:
        if error is not None and not self._is_failing:
            self._emit(LocalFileFailed(error=str(error)))
        self._is_failing = error is not None

    def _fold_if_large(self) -> None:
        is_at_rest = self._folding is None or self._folding.done()
        if self._file.log_bytes > RECORDS_BYTES_MAX and is_at_rest and not self._is_failing:
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
