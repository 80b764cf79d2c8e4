"""The one local file: records of changes, each synced before it is acknowledged.

SQLite with a write-ahead log that is synced at each commit. A thread of its own writes; what comes while it waits for
the disk goes into its next transaction together, as one record. (A statement for each change would wait as often for a
busy event loop to return the interpreter's lock.) SQLite ends a damaged log without an error: what followed there is
told, and read again. An older copy of the file looks like any other.
"""

import asyncio
import os
import secrets
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from offsets.commits.events import CommitsLost, LocalFileFailed
from offsets.commits.stored import (
    Change,
    RowName,
    StoredOffset,
    Unreadable,
    decoded_record,
    encoded_record,
)
from offsets.commits.table import OffsetTable
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.telemetry.events import Event
from store.high_water import FileWatch, Unseen
from store.store import StoreError

FILE_NAME: Final = "commits.db"
#: Changes of one transaction, apart from the last caller's.
BATCH_CHANGES_MAX: Final = 20_000
#: Changes that may wait for the disk: some MiB.
WAITING_CHANGES_MAX: Final = 100_000
#: Records beyond this size, and beyond twice what the last rewrite left, are rewritten; some 400,000 commits.
RECORDS_BYTES_MAX: Final = 16 << 20
#: Changes that are rewritten in one transaction: a millisecond of the event loop, and commits wait for it.
REWRITTEN_CHANGES: Final = 2_000
_APPLICATION_ID: Final = 0x524D_5143
_SCHEMA_VERSION: Final = 2
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, digest INTEGER NOT NULL, body BLOB NOT NULL)",
    # The file's id; `embedded` or `etcd`; and the lead of this manager, in etcd, under which the records were made.
    "CREATE TABLE IF NOT EXISTS file (id TEXT NOT NULL, store TEXT NOT NULL, lead INTEGER NOT NULL)",
)
#: What the write-ahead log keeps of the disk after a burst.
_LOG_BYTES_MAX: Final = 64 << 20
#: Before the first frame of that log.
_LOG_HEAD_BYTES: Final = 32

#: Called in the event loop with the error of a write; None once it is synced.
Done = Callable[[Exception | None], None]


class FileProblem(StoreError):
    """The file cannot be used, or a write to it failed; the text names it and says what to do."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")


class StoreBusy(StoreError):
    """As much waits for the store as may; nothing of the request is stored."""


class _Write(NamedTuple):
    changes: Sequence[Change]
    done: Done
    #: What else is done in the transaction.
    work: Callable[[], object] | None = None


class LogFile:
    def __init__(self, folder: Path, store: str, clock: Clock, emit: Callable[[Event], None]) -> None:
        """Open or make the file for a store, `embedded` or `etcd`; blocks. Raises FileProblem."""
        self.path: Final = folder / FILE_NAME
        self._clock, self._emit = clock, emit
        #: The last write has failed, which is told once.
        self._is_failing = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, isolation_level=None, timeout=0, check_same_thread=False)
            try:
                self.id, self.lead = self._prepare(store)
                (self.number,) = self._one("SELECT coalesce(max(number), 0) FROM records")
                (self.log_bytes,) = self._one("SELECT coalesce(sum(length(body)), 0) FROM records")
                self._watch = FileWatch(self.path, Path(f"{self.path}-wal"))
            except BaseException:
                self._connection.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise self._problem(error) from None
        self._waiting: deque[_Write] = deque()
        self._waiting_changes = 0
        self._arrived = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def changes(self) -> Iterator[tuple[RowName, int, StoredOffset]]:
        """Yield what the records hold, in the order in which it was written; for work of `run`. Raises FileProblem."""
        last = 0
        for number, digest, body in self._read("SELECT number, digest, body FROM records ORDER BY number"):
            if last and number != last + 1:
                raise self._damaged(f"record {last + 1} is missing")
            if zlib.crc32(body) != digest:
                raise self._damaged(f"record {number} has a wrong checksum")
            try:
                yield from decoded_record(body)
            except Unreadable as error:
                raise self._damaged(f"record {number}: {error}") from None
            last = number

    # Writing

    def store(
        self, changes: Sequence[Change], table: OffsetTable, stored: Callable[[], None]
    ) -> "asyncio.Future[Exception | None]":
        """Stage changes that were decided just now, and store them after those of earlier calls.

        `stored` is called once they are synced, and confirmed in the table. Raises StoreBusy if as many changes wait as
        may, FileProblem if the file is closed, and then nothing is staged.
        """
        self._check_open()
        if self._waiting_changes and self._waiting_changes + len(changes) > WAITING_CHANGES_MAX:
            raise StoreBusy(
                f"{self.path}: {self._waiting_changes} changes wait for the disk, which is the limit: try again"
            )
        result: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        table.stage(changes)

        def done(error: Exception | None) -> None:
            if error is None:
                table.confirm(changes)
                stored()
            else:
                table.withdraw(changes)
                if not self._is_failing:
                    self._emit(LocalFileFailed(error=str(error)))
            self._is_failing = error is not None
            if not result.done():
                result.set_result(error)

        self._put(_Write(changes, done))
        return result

    async def run(self, work: Callable[[], object] | None, changes: Sequence[Change] = ()) -> None:
        """Do work in the thread of the file, as a part of a transaction; raises what it raises, and FileProblem.

        `changes`, which are in the table already, are stored with it.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(_Write(changes, lambda error: _resolve(done, error), work))
        await done

    async def rewrite(self, changes: Iterable[Change]) -> None:
        """Put records of these changes in place of all that are there; those made meanwhile stay. Raises FileProblem.

        Changes are taken some at a time between commits, and may be of that moment.
        """
        upto, left = self.number, iter(changes)
        while part := list(islice(left, REWRITTEN_CHANGES)):
            await self.run(None, part)
        await self.drop(upto)

    async def drop(self, upto: int) -> None:
        """Drop the records up to one, which are stored elsewhere. Raises FileProblem."""

        def work() -> None:
            # The record of this transaction follows, so the number of the last one stays known.
            self._connection.execute("DELETE FROM records WHERE number <= ?", (upto,))
            (self.log_bytes,) = self._one("SELECT coalesce(sum(length(body)), 0) FROM records")

        await self.run(work)

    async def belong_to(self, lead: int) -> None:
        """Note the lead under which further records are made. Raises FileProblem."""
        await self.run(lambda: self._connection.execute("UPDATE file SET lead = ?", (lead,)))
        self.lead = lead

    async def close(self) -> None:
        was_closing, self._is_closing = self._is_closing, True
        if self._thread is None:
            if not was_closing:
                self._close()
            return
        with self._arrived:
            self._arrived.notify()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    def _check_open(self) -> None:
        if self._is_closing:
            raise FileProblem(self.path, "the offset manager is stopping; send it to another one")

    def _put(self, write: _Write) -> None:
        self._check_open()
        self._waiting_changes += len(write.changes)
        with self._arrived:
            self._waiting.append(write)
            self._arrived.notify()
        if self._thread is None:
            # A daemon: a process that ends without closing the file does not wait for it.
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, args=(loop,), name="commits-file", daemon=True)
            self._thread.start()

    def _written(self, batch: Sequence[_Write], number: int, error: Exception | None) -> None:
        self.number = number
        for write in batch:
            self._waiting_changes -= len(write.changes)
            write.done(error)

    # The thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        number = self.number
        while batch := self._next_batch():
            error: Exception | None = None
            try:
                self._write(batch, number + 1)
                number += 1
                self._check_there()
            except (sqlite3.Error, OSError) as failure:
                error = self._problem(failure)
            except Exception as failure:  # noqa: BLE001  # whatever it is, nobody may wait for this for ever
                error = failure
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._written, batch, number, error)
        self._close()

    def _next_batch(self) -> list[_Write]:
        """Return what goes into one transaction, once there is something; empty at the end."""
        batch: list[_Write] = []
        changes = 0
        with self._arrived:
            self._arrived.wait_for(lambda: self._waiting or self._is_closing)
            while self._waiting and changes < BATCH_CHANGES_MAX:
                batch.append(self._waiting.popleft())
                changes += len(batch[-1].changes)
        return batch

    def _write(self, batch: Sequence[_Write], number: int) -> None:
        body = encoded_record(chain.from_iterable(write.changes for write in batch))
        run = self._connection.execute
        self._undo()  # a transaction that failed so badly that it could not be undone
        run("BEGIN IMMEDIATE")
        try:
            for write in batch:
                if write.work is not None:
                    write.work()
            run("REPLACE INTO records VALUES (?, ?, ?)", (number, zlib.crc32(body), body))
            self._check_there()
            run("COMMIT")
        except BaseException:
            self._undo()
            raise
        self.log_bytes += len(body)

    def _undo(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def _close(self) -> None:
        self._connection.close()

    # Opening, and what is wrong

    def _prepare(self, store: str) -> tuple[str, int]:
        run = self._connection.execute
        # Held until the end: two processes on one file would each acknowledge.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA journal_size_limit = {_LOG_BYTES_MAX}")
        if lost := self._lost_transactions():
            self._emit(CommitsLost(transactions=lost))
        run("BEGIN EXCLUSIVE")
        (application_id,), (version,) = self._one("PRAGMA application_id"), self._one("PRAGMA user_version")
        if (application_id, version) not in ((0, 0), (_APPLICATION_ID, _SCHEMA_VERSION)):
            raise FileProblem(self.path, f"it has schema {version}, or is another program's: give it another folder")
        (found,) = self._one("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._damaged(" ".join(str(found).split()))
        for statement in _SCHEMA:
            run(statement)
        if not run("SELECT 1 FROM file").fetchone():
            run("INSERT INTO file VALUES (?, ?, 0)", (secrets.token_hex(8), store))
        run(f"PRAGMA application_id = {_APPLICATION_ID}")
        run(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        run("COMMIT")
        file_id, former, lead = self._one("SELECT id, store, lead FROM file")
        if former != store:
            raise FileProblem(
                self.path, f"it was made with the store {former}, and {store} is configured: give it another folder"
            )
        return file_id, lead

    def _lost_transactions(self) -> int:
        """Return how many transactions the log has behind the part that SQLite has read, before it is written over.

        A frame of the log is a page behind 24 bytes: its number; in the last of a transaction the size of the database,
        else 0; two salts, which each use of the file has anew, the first of them raised by one.
        """
        frame_bytes = 24 + self._one("PRAGMA page_size")[0]
        _, read, _ = self._one("PRAGMA wal_checkpoint")
        with Path(f"{self.path}-wal").open("rb") as log:
            head = log.read(_LOG_HEAD_BYTES)
            frames = range(_LOG_HEAD_BYTES, os.fstat(log.fileno()).st_size, frame_bytes)
            found = [os.pread(log.fileno(), 24, at)[4:16] for at in frames]
        # Where the head is damaged nothing was read. A new use whose first transaction is not whole has lost nothing.
        newest = max((frame[4:] for frame in found), default=b"")
        if not read and int.from_bytes(newest[:4]) + 1 == int.from_bytes(head[16:20]):
            return 0
        salts = head[16:24] if read else newest
        return sum(any(frame[:4]) and frame[4:] == salts for frame in found[read:])

    def _check_there(self) -> None:
        """Raise FileProblem if the next start would not find what is written."""
        try:
            missing = self._watch.missing(self._clock.now_ms())
        except Unseen as unseen:
            if not unseen.is_for_long:
                return
            raise FileProblem(self.path, f"it cannot be checked: {unseen}; check its folder and its disk") from None
        if missing is not None:
            raise FileProblem(missing, "it was removed or replaced while in use; nothing is stored until a restart")

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()

    def _read(self, query: str) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query)
        except sqlite3.Error as error:
            raise self._problem(error) from None

    def _damaged(self, why: str) -> FileProblem:
        return FileProblem(
            self.path, f"it is damaged ({why}): restore it from a backup, or move it away; groups then read again"
        )

    def _problem(self, error: Exception) -> FileProblem:
        if isinstance(error, FileProblem):
            return error
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_FULL:
                return FileProblem(self.path, "the disk is full: make room; what was acknowledged is kept")
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return FileProblem(self.path, "another process uses it: give each offset manager its own folder")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return self._damaged(str(error))
        return FileProblem(self.path, f"it cannot be used: {error}; check the folder, its owner and its disk")


def _resolve(future: "asyncio.Future[None]", error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class EmbeddedStore:
    """The store without etcd: the file alone, for one manager.

    A change is acknowledged once its record is synced. As records grow, all offsets are recorded anew, some at a time
    between commits, and the former records are dropped then. A start replays the records: `merge` keeps the newer
    value, so their order does not matter.
    """

    #: Nothing ever waits for another store.
    dirty_keys = 0
    oldest_dirty_ms = 0
    last_error = ""

    def __init__(self, folder: Path, clock: Clock, tasks: BackgroundTasks, emit: Callable[[Event], None]) -> None:
        """Open the file, or make it; blocks. Raises FileProblem."""
        self._file: Final = LogFile(folder, "embedded", clock, emit)
        self._tasks = tasks
        self._table = OffsetTable(0)
        #: What the last rewrite left.
        self._rewritten_bytes = 0
        self._rewriting: asyncio.Task[bool] | None = None

    async def load(self, table: OffsetTable) -> None:
        """Fill a table, and take its changes from now on; raises FileProblem."""

        def read() -> None:
            for name, queue_id, value in self._file.changes():
                table.merge(name, {queue_id: value})

        await self._file.run(read)
        self._table = table
        self._rewrite_if_large()

    def is_written_through(self, _: str) -> bool:
        """Return that an acknowledgement means this machine's disk, for every group."""
        return False

    async def store(self, changes: Sequence[Change]) -> None:
        """Stage changes that were decided just now, and return once they are on the disk.

        Raises StoreError, and then nothing is stored. A caller that is cancelled leaves nothing half done.
        """
        if (error := await self._file.store(changes, self._table, self._rewrite_if_large)) is not None:
            raise error

    async def store_now(self, changes: Sequence[Change]) -> None:
        """Do the same: an operator's changes are as durable as any."""
        await self.store(changes)

    def write_again(self, names: Iterable[RowName]) -> None:
        """Do nothing: the next rewrite leaves out what was forgotten."""

    def stop_leading(self) -> None:
        """Do nothing: this manager leads as long as it lives."""

    async def close(self) -> None:
        if self._rewriting is not None:
            self._rewriting.cancel()
        await self._file.close()

    def _rewrite_if_large(self) -> None:
        is_at_rest = self._rewriting is None or self._rewriting.done()
        if is_at_rest and self._file.log_bytes > max(RECORDS_BYTES_MAX, 2 * self._rewritten_bytes):
            self._rewriting = self._tasks.start(self._rewrite(), "rewrite_commits")

    async def _rewrite(self) -> None:
        rows = self._table.rows
        present = ((name, list(rows[name].queues.items())) for name in tuple(rows) if name in rows)
        # The next write that fails, or succeeds, tells; records stay until then.
        with suppress(FileProblem):
            await self._file.rewrite(
                Change(name, queue_id, None, value) for name, queues in present for queue_id, value in queues
            )
        # After a failure too: on a full disk an attempt at each commit would take what an operator frees.
        self._rewritten_bytes = self._file.log_bytes
