"""The store with etcd: commits go to the local file first, and a task brings them to etcd in batches.

An acknowledgement "local" means that the local file has it, which survives `kill -9` and a power failure; each flush
interval the rows that have changed are written to etcd. What an operator changes, and groups that are written through,
wait for etcd and are not in the file: from there they would take effect whenever this manager leads again, long after
their caller was told that the outcome is unknown.

At the begin of a lead etcd gets what only the local file has, if this manager was also the last one that led: the key
`last-lead` names its file and its lead, and the file has its lead too. Otherwise another manager may have acknowledged
other offsets since, and what the file has is dropped. Memory is never behind etcd: a write takes the newest values, and
a row that has moved (by a write whose answer was lost) is merged and written again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Final

from offsets.commits.etcd_rows import EtcdRows, PresentRow, RowWrite, RowWritten
from offsets.commits.events import (
    COMMITS_REFUSED,
    FLUSH_FAILURES,
    CommitsRefused,
    FlushFailed,
    FlushRecovered,
    ForeignKeyFound,
    LocalOffsetsDropped,
    OffsetsCompensated,
    OffsetsLeftDirty,
    RowsFlushed,
    RowUnreadable,
)
from offsets.commits.log_file import LogFile, StoreBusy
from offsets.commits.stored import Change, RowName, StoredOffset, encoded_row, is_newer
from offsets.commits.table import OffsetTable
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.telemetry.events import Count, Counted, Event
from store.store import Deposed, OutcomeUnknown, StoreError

#: Rows that are encoded and sent together: some milliseconds of the event loop.
FLUSH_ROWS_MAX: Final = 300
#: How long a change that waits for etcd is collected with others.
NOW_MS: Final = 10
#: How long a caller waits for etcd.
CONFIRMED_S: Final = 20
#: How long after a failed flush the next one begins at most.
RETRY_MS_MAX: Final = 2000
#: How long a stop waits until etcd has everything.
STOP_S: Final = 20
#: Records beyond this size are replaced by those of what etcd lacks; some 200,000 commits.
RECORDS_BYTES_MAX: Final = 8 << 20


class RowNotWritable(StoreError):
    """Some queues were not changed: their rows cannot be read."""


class _Direct:
    """Changes that wait for etcd."""

    def __init__(self, changes: Sequence[Change]) -> None:
        #: Those that are not written yet, by row.
        self.rows: dict[RowName, list[Change]] = {}
        for change in changes:
            self.rows.setdefault(change.name, []).append(change)
        self.size: Final = len(changes)
        #: Queues that cannot be written, and why.
        self.refused = 0
        self.why = ""
        self.done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()

    def end(self, error: StoreError | None) -> None:
        if not self.done.done():
            self.done.set_result(error)


class WriteBehind:
    def __init__(
        self,
        file: LogFile,
        rows: EtcdRows,
        clock: Clock,
        tasks: BackgroundTasks,
        emit: Callable[[Event], None],
        *,
        flush_interval_ms: int,
        dirty_keys_max: int,
        is_written_through: Callable[[str], bool],
    ) -> None:
        """Take how long commits are collected, for how many queues they may wait, and which groups wait for etcd."""
        self._file, self._rows, self._clock, self._emit = file, rows, clock, emit
        self._interval_ms, self._dirty_max = flush_interval_ms, dirty_keys_max
        self.is_written_through: Final = is_written_through
        self._table = OffsetTable(0)
        self._is_loaded = False
        self._loading = asyncio.Lock()
        #: Queues of which etcd lacks the durable value, by row, but for those that are being written.
        self._dirty: dict[RowName, set[int]] = {}
        #: With those.
        self.dirty_keys = 0
        self._dirty_since_ms = 0
        self._direct: list[_Direct] = []
        self._direct_changes = 0
        self._arrived = asyncio.Event()
        #: Somebody waits for etcd.
        self._urgent = asyncio.Event()
        self._failures = 0
        self._is_refusing = False
        #: Why the last flush failed; blank if it did not.
        self.last_error = ""
        self._task = tasks.keep_running(self._flush_forever, "flush_commits")

    @property
    def oldest_dirty_ms(self) -> int:
        """For how long etcd has not had everything."""
        return self._clock.now_ms() - self._dirty_since_ms if self.dirty_keys else 0

    # The lead

    async def load(self, table: OffsetTable) -> None:
        """Fill a table at the begin of a lead, and take its changes from now on; raises StoreError."""
        # Where the lead is lost and won again meanwhile, the former load ends first.
        async with self._loading:
            self.stop_leading()
            file, lead = self._file, self._rows.lead.number
            last = await self._rows.last_lead()
            async for name, row in self._rows.load():
                if row.problem:
                    table.unreadable[name] = row.problem
                    self._emit(RowUnreadable(error=row.problem))
                else:
                    table.merge(name, row.queues, row.revision)
            for problem in self._rows.foreign:
                self._emit(ForeignKeyFound(error=problem))
            newest = await self._newest_records()
            self._check_lead(lead)
            self._table = table
            if (last.file, last.lead) == (file.id, file.lead):
                await self._compensate(newest, lead)
            elif lost := sum(is_newer(value, table.read(*key)) for key, value in newest.items()):
                self._emit(LocalOffsetsDropped(queues=lost))
            # Nothing is lost where this ends in between: the file has no records.
            await file.drop(file.number)
            await file.belong_to(lead)
            await self._rows.lead_with(file.id)
            self._check_lead(lead)
            self._is_loaded = True

    def _check_lead(self, lead: int) -> None:
        if self._rows.lead.number != lead:
            raise Deposed("this offset manager lost the lead while it loaded the offsets")

    async def _newest_records(self) -> dict[tuple[RowName, int], StoredOffset]:
        newest: dict[tuple[RowName, int], StoredOffset] = {}

        def read() -> None:
            for name, queue_id, value in self._file.changes():
                if is_newer(value, newest.get((name, queue_id))):
                    newest[name, queue_id] = value

        await self._file.run(read)
        return newest

    async def _compensate(self, newest: Mapping[tuple[RowName, int], StoredOffset], lead: int) -> None:
        table, queues = self._table, 0
        for (name, queue_id), value in newest.items():
            if is_newer(value, table.read(name, queue_id)) and name not in table.unreadable:
                row = table.rows.get(name)
                table.merge(name, {queue_id: value}, 0 if row is None else row.revision)
                self._note_dirty(name, queue_id)
                queues += 1
        while self._dirty:
            # Another manager may have led if this one leads again.
            self._check_lead(lead)
            await self._flush_some()
        if queues:
            self._emit(OffsetsCompensated(queues=queues))

    def stop_leading(self) -> None:
        """Take no changes until the next `load`; those that wait for etcd end with an unknown outcome."""
        self._is_loaded = False
        self._table = OffsetTable(0)
        self._dirty, self.dirty_keys = {}, 0
        direct, self._direct, self._direct_changes = self._direct, [], 0
        for waiting in direct:
            waiting.end(OutcomeUnknown("this offset manager ceased to lead meanwhile"))

    # Changes

    async def store(self, changes: Sequence[Change]) -> None:
        """Stage commits that were decided just now, and return once they are in the local file.

        Those of groups that are written through are in etcd then. Raises StoreError; OutcomeUnknown says that some may
        be stored, all others that nothing is.
        """
        self._check_takes(changes)
        through = [change for change in changes if self.is_written_through(change.name.group)]
        local = [change for change in changes if not self.is_written_through(change.name.group)] if through else changes
        table = self._table

        def note_dirty() -> None:
            if table is self._table:
                for name, queue_id, _, _ in local:
                    self._note_dirty(name, queue_id)
                self._arrived.set()

        stored = self._file.store(local, table, note_dirty) if local else None
        try:
            if through:
                await self.store_now(through)
            if stored is not None and (error := await stored) is not None:
                raise error
        except StoreError as error:
            raise OutcomeUnknown(str(error)) if through and local else error from None

    async def store_now(self, changes: Sequence[Change]) -> None:
        """Stage changes that were decided just now, and return once etcd has them.

        Until then commits of queues that get a new epoch are refused. Raises RowNotWritable for queues that are not
        changed, OutcomeUnknown after CONFIRMED_S, while they are still being stored, and where the lead ends.
        """
        self._check_takes(())
        self._table.stage(changes)
        direct = _Direct(changes)
        self._direct.append(direct)
        self._direct_changes += direct.size
        self._arrived.set()
        self._urgent.set()
        try:
            async with asyncio.timeout(CONFIRMED_S):
                error = await asyncio.shield(direct.done)
        except TimeoutError:
            raise OutcomeUnknown(
                f"no answer of etcd within {CONFIRMED_S} s: {self.last_error or 'it is slow'}"
            ) from None
        if error is not None:
            raise error

    def write_again(self, names: Iterable[RowName]) -> None:
        """Write rows again from which deletions were forgotten."""
        for name in names:
            self._dirty.setdefault(name, set())
        self._arrived.set()

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                while self._is_loaded and (self._dirty or self.dirty_keys or self._direct):
                    self._urgent.set()
                    self._arrived.set()
                    await asyncio.sleep(NOW_MS / 1000)
        self._task.cancel()
        if self.dirty_keys:
            self._emit(OffsetsLeftDirty(dirty_keys=self.dirty_keys))
        await self._file.close()
        self._rows.close()

    def _check_takes(self, changes: Sequence[Change]) -> None:
        if not self._is_loaded:
            raise Deposed("this offset manager does not lead, or is loading the offsets")
        lacking = self.dirty_keys + self._direct_changes
        if lacking + len(changes) > self._dirty_max:
            lacking += sum(queue_id not in self._dirty.get(name, ()) for name, queue_id, _, _ in changes)
            if lacking > self._dirty_max:
                self._emit(Counted(count=Count(COMMITS_REFUSED)))
                if not self._is_refusing:
                    self._emit(CommitsRefused(dirty_keys=self.dirty_keys))
                self._is_refusing = True
                why = self.last_error or "it is slow"
                raise StoreBusy(
                    f"etcd lacks the offsets of {self._dirty_max} queues, as many as it may ({why}): try again"
                )

    def _note_dirty(self, name: RowName, queue_id: int) -> None:
        queues = self._dirty.setdefault(name, set())
        if queue_id not in queues:
            queues.add(queue_id)
            if not self.dirty_keys:
                self._dirty_since_ms = self._clock.now_ms()
            self.dirty_keys += 1

    # The task

    async def _flush_forever(self) -> None:
        while True:
            await self._arrived.wait()
            await self._pause()
            self._arrived.clear()
            self._urgent.clear()
            try:
                await self._flush()
            except StoreError as error:
                self._failed(error)
            finally:
                # Also after a fault of ours: the next run of this task writes it.
                if self._is_loaded and (self._dirty or self._direct):
                    self._arrived.set()
            with suppress(StoreError):  # whoever records next is told
                await self._trim()

    async def _pause(self) -> None:
        """Let changes come together; after a failure nobody makes the next attempt come sooner."""
        if self._failures:
            retry_ms = min(self._interval_ms << min(self._failures, 10), RETRY_MS_MAX)
            await asyncio.sleep(max(self._interval_ms, retry_ms) / 1000)
            return
        with suppress(TimeoutError):
            # No `wait_for`, which forgets that it was cancelled at the moment at which it ends.
            async with asyncio.timeout(self._interval_ms / 1000):
                await self._urgent.wait()
            await asyncio.sleep(NOW_MS / 1000)

    async def _flush(self) -> None:
        began_ms = self._clock.now_ms()
        rows = len(self._dirty) + sum(len(direct.rows) for direct in self._direct)
        for _ in range(0, rows, FLUSH_ROWS_MAX):
            if self._is_loaded:
                await self._flush_some()
        self._dirty_since_ms = began_ms
        if self._failures:
            self._emit(FlushRecovered(failures=self._failures))
        self._failures, self.last_error, self._is_refusing = 0, "", False

    def _failed(self, error: StoreError) -> None:
        self.last_error = str(error)
        self._emit(Counted(count=Count(FLUSH_FAILURES)))
        if not self._failures:
            self._emit(FlushFailed(error=str(error)))
        self._failures += 1
        if isinstance(error, Deposed):
            self.stop_leading()

    async def _flush_some(self) -> None:
        """Write FLUSH_ROWS_MAX rows at most, first those that callers wait for; raises StoreError."""
        table, began_ms = self._table, self._clock.now_ms()
        wanted = chain((name for direct in self._direct for name in direct.rows), self._dirty)
        names = list(islice(dict.fromkeys(wanted), FLUSH_ROWS_MAX))
        taken = {name: self._dirty.pop(name, set()) for name in names}
        waiting = {name: [direct for direct in self._direct if name in direct.rows] for name in names}
        try:
            written = await self._rows.put([self._write_of(name, waiting[name]) for name in names])
        except BaseException:
            if table is self._table:
                self._put_back(taken)
            raise
        if table is not self._table:
            return
        stored = {
            name: queues for (name, queues), row in zip(taken.items(), written, strict=True) if self._took(name, row)
        }
        for name in stored:
            for direct in waiting[name]:
                table.confirm(direct.rows.pop(name))
        keys = sum(map(len, stored.values()))
        self.dirty_keys -= keys
        self._put_back({name: queues for name, queues in taken.items() if name not in stored})
        self._end_direct()
        self._emit(RowsFlushed(written=len(stored), queues=keys, seconds=(self._clock.now_ms() - began_ms) / 1000))

    def _write_of(self, name: RowName, waiting: Sequence[_Direct]) -> RowWrite:
        row = self._table.rows[name]
        queues = dict(row.queues)
        for change in chain.from_iterable(direct.rows[name] for direct in waiting):
            if is_newer(change.after, queues.get(change.queue_id)):
                queues[change.queue_id] = change.after
        return RowWrite(name, encoded_row(queues) if queues else None, row.revision)

    def _took(self, name: RowName, written: RowWritten) -> bool:
        match written:
            case int(revision):
                self._table.rows[name].revision = revision
                return True
            case PresentRow(queues, revision, ""):
                self._table.merge(name, queues, revision)
            case PresentRow(_, _, problem):
                self._table.unreadable[name] = problem
                self._emit(RowUnreadable(error=problem))
        return False

    def _put_back(self, rows: Mapping[RowName, set[int]]) -> None:
        """Leave rows for the next pass; none that cannot be read is ever written."""
        for name, queues in rows.items():
            if name in self._table.unreadable:
                self.dirty_keys -= len(queues)
                continue
            again = self._dirty.setdefault(name, set())
            self.dirty_keys -= len(again & queues)
            again |= queues

    def _end_direct(self) -> None:
        """Answer the callers of whom nothing is left to be written."""
        for direct in self._direct:
            for name in [name for name in direct.rows if name in self._table.unreadable]:
                refused = direct.rows.pop(name)
                self._table.withdraw(refused)
                direct.refused, direct.why = direct.refused + len(refused), self._table.unreadable[name]
            if not direct.rows:
                self._direct_changes -= direct.size
                left = f"{direct.refused} of {direct.size} queues were not changed: {direct.why}"
                direct.end(RowNotWritable(left) if direct.refused else None)
        self._direct = [direct for direct in self._direct if direct.rows]

    async def _trim(self) -> None:
        """Put records of what etcd lacks in place of all, once they are large; raises FileProblem."""
        # Without the lead nothing is known of what etcd lacks.
        if self._file.log_bytes < RECORDS_BYTES_MAX or not self._is_loaded:
            return
        upto, read = self._file.number, self._table.read
        dirty = ((name, queue_id) for name, queues in self._dirty.items() for queue_id in queues)
        values = ((name, queue_id, read(name, queue_id)) for name, queue_id in dirty)
        # One record, queued before anything else happens: none gets into the file of another lead.
        await self._file.run(
            None, [Change(name, queue_id, None, value) for name, queue_id, value in values if value is not None]
        )
        await self._file.drop(upto)
