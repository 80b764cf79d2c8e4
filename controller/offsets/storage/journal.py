"""The local journal: offsets that are acknowledged and that the remote store does not have yet, in a SQLite file.

An acknowledgement "local" means that a record here is synced. A thread of its own writes; changes that come while it
waits for the disk go into its next transaction together, as one record: SQLite gives the interpreter's lock back at
each statement, so a statement for each change would wait for the busy event loop as often. Records are only appended.
Once they are far larger than what is dirty, a snapshot of that takes their place. The number of the last one is kept
beside them: the log of SQLite ends at its first damaged part, without an error.
"""

import asyncio
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.dirty_offsets import DirtyOffset, DirtyTable
from controller.offsets.storage.formats.checks import check_changes
from controller.offsets.storage.formats.records import FlushedRow, decoded, encoded_changes, encoded_snapshot
from controller.offsets.storage.lagging_mark import LaggingMark, MarkedFile
from controller.offsets.storage.sqlite_file import FileKind, FileProblem, SqliteFile
from controller.offsets.values import GroupTopic
from remoting.clock import Clock
from store.store import StoreError

FILE_NAME: Final = "offset-journal.db"
#: Takes the number of the last record.
MARK_NAME: Final = "offset-journal.mark"
SCHEMA_VERSION: Final = 1
#: Changes in one transaction, apart from the last caller's: those that come later wait for it.
CHANGES_MAX: Final = 20_000
#: Changes that may wait for the disk at once; at 64 bytes they are some MiB.
WAITING_CHANGES_MAX: Final = 100_000
#: When a caller that was refused may come again.
BUSY_MS: Final = 500
#: Records that take less are left as they are.
LOG_BYTES_MIN: Final = 16 << 20
#: How many bytes a dirty offset takes in a snapshot, roughly.
_OFFSET_BYTES: Final = 64
#: A snapshot is written once records are so many times as large as it would be.
_SNAPSHOT_FACTOR: Final = 4

_KIND: Final = FileKind(
    title="a journal of offsets",
    application_id=0x524D_514A,
    schema_version=SCHEMA_VERSION,
    schema=(
        "CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, digest INTEGER NOT NULL, body BLOB NOT NULL)",
        # Of the remote store that the records are for; empty until it is known.
        "CREATE TABLE IF NOT EXISTS store (id TEXT NOT NULL)",
    ),
    remedy=(
        "it holds offsets that were acknowledged and not sent to the remote store yet. Restore it from a backup, or "
        "move it away and start without it: groups then read again what they consumed since the last flush"
    ),
)
_MARKED: Final = MarkedFile("journal", "records", "groups then read again what they consumed since the last flush")


class JournalBusy(StoreError):
    """The disk is too slow for what is committed; nothing of the batch is stored."""

    def __init__(self, path: Path, waiting: int, wait_ms: int) -> None:
        self.waiting, self.wait_ms = waiting, wait_ms
        super().__init__(
            f"{path}: {waiting} changes wait for the disk, and {WAITING_CHANGES_MAX} may: try again in {wait_ms} ms"
        )


class JournalClosed(StoreError):
    """The journal takes nothing any more."""


@dataclass(slots=True)
class _Snapshot:
    """Everything that is dirty after a record, as copies that the thread may read."""

    number: int
    rows: list[tuple[GroupTopic, dict[int, DirtyOffset]]]
    #: How large it is, once it is written.
    bytes: int = 0


@dataclass(slots=True)
class _Waiting:
    """What is to be stored: changes, what was flushed, a snapshot in place of former records, or the store's id."""

    changes: Sequence[OffsetChange] = ()
    flushed: Sequence[FlushedRow] = ()
    snapshot: _Snapshot | None = None
    #: The id of the remote store, where that is new.
    store_id: str = ""
    #: Gets the number of the record.
    stored: "asyncio.Future[int] | None" = None


class _Written(NamedTuple):
    """What has become of a batch."""

    number: int
    bytes: int
    failure: Exception | None = None


class Journal:
    """The dirty offsets of one offset manager; used from one event loop."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Open or make the file, and read what is dirty; blocks. Raises FileProblem, which names the file."""
        self._clock = clock
        self._file = SqliteFile(folder / FILE_NAME, _KIND)
        #: What the remote store does not have; only records on the disk count.
        self.dirty: Final = DirtyTable()
        #: Of the remote store that the records are for; blank until it is known.
        self.store_id = ""
        #: The last record that `dirty` has.
        self._number = 0
        #: Of all records.
        self._bytes = 0
        try:
            self._replay()
            self._mark = LaggingMark(folder / MARK_NAME, self._number, _MARKED)
        except BaseException:
            self._file.close()
            raise
        #: In the order in which they came; taken by the thread.
        self._waiting: deque[_Waiting] = deque()
        #: Changes that are not on the disk yet.
        self._waiting_changes = 0
        self._arrived = threading.Condition()
        self._is_closing = False
        self._is_compacting = False
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> Path:
        """Return where the file is, for errors."""
        return self._file.path

    async def record(self, changes: Sequence[OffsetChange]) -> int:
        """Store changes, and return their number once they are synced; as `submit`.

        A caller that is cancelled meanwhile has them stored all the same, unless that fails.
        """
        return await self.submit(changes)

    def submit(self, changes: Sequence[OffsetChange]) -> "asyncio.Future[int]":
        """Begin to store changes; their number comes once they are synced, and `dirty` has them then.

        They are stored in the order of the calls. Raises ChangeRefused, JournalBusy or JournalClosed, and FileProblem
        comes in place of the number: then none of them is dirty.
        """
        check_changes(changes)
        if self._is_closing:
            raise JournalClosed(f"{self._file.path}: the offset manager is stopping; send it to another one")
        if self._waiting_changes and self._waiting_changes + len(changes) > WAITING_CHANGES_MAX:
            raise JournalBusy(self._file.path, self._waiting_changes, BUSY_MS)
        self._waiting_changes += len(changes)
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._put(_Waiting(changes=changes, stored=stored))
        return stored

    async def belong_to(self, store_id: str) -> None:
        """Note which remote store all further records are for; raises FileProblem."""
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._put(_Waiting(store_id=store_id, stored=stored))
        await stored
        self.store_id = store_id

    def flushed(self, rows: Sequence[FlushedRow], began_ms: int) -> None:
        """Record that the remote store has these offsets; what was recorded of them since stays dirty.

        `began_ms` is when the flush took them, monotonic. Not waited for: after a crash they would be compared again.
        """
        for row in rows:
            self.dirty.flushed(row.of, row.numbers, began_ms)
        if rows and not self._is_closing:
            self._put(_Waiting(flushed=rows))
            self._compact_if_large()

    async def close(self) -> None:
        """Store what waits, and close the file."""
        self._is_closing = True
        with self._arrived:
            self._arrived.notify()
        thread = self._started_thread()
        await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _put(self, waiting: _Waiting) -> None:
        with self._arrived:
            self._waiting.append(waiting)
            self._arrived.notify()
        self._started_thread()

    def _started_thread(self) -> threading.Thread:
        if self._thread is None:
            # A daemon: a process that ends without closing its journal does not wait for it.
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, args=(loop,), name="offset-journal", daemon=True)
            self._thread.start()
        return self._thread

    def _compact_if_large(self) -> None:
        """Let a snapshot take the place of all records, if these are far larger."""
        wanted_bytes = max(LOG_BYTES_MIN, _SNAPSHOT_FACTOR * _OFFSET_BYTES * len(self.dirty))
        if self._bytes > wanted_bytes and not self._is_compacting:
            self._is_compacting = True
            rows = [(of, dict(row.offsets)) for of, row in self.dirty.rows.items()]
            self._put(_Waiting(snapshot=_Snapshot(self._number, rows)))

    def _taken(self, batch: Sequence[_Waiting], written: _Written) -> None:
        """Make what is on the disk dirty, and answer the callers; in the event loop."""
        now_ms = self._clock.now_ms()
        if written.failure is None:
            self._number = written.number
            self._bytes += written.bytes
        for each in batch:
            self._waiting_changes -= len(each.changes)
            if each.snapshot is not None:
                self._is_compacting = False
            if written.failure is None:
                self.dirty.take(each.changes, written.number, now_ms)
            if each.stored is not None:
                _answer(each.stored, written)
        self._compact_if_large()

    # The thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        number = self._number
        while batch := self._next_batch():
            try:
                written = self._written(self._write(batch, number + 1))
            except Exception as error:  # noqa: BLE001  # whatever it is, nobody may wait for this for ever
                written = _Written(number, 0, error)
            number = written.number
            if written.failure is None:
                self._mark.follow(number)
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._taken, batch, written)
        self._mark.close()
        self._file.close()

    def _next_batch(self) -> list[_Waiting]:
        """Return what is to go into one transaction, once there is something; empty when the journal is closed."""
        batch: list[_Waiting] = []
        changes = 0
        with self._arrived:
            self._arrived.wait_for(lambda: self._waiting or self._is_closing)
            while self._waiting and changes < CHANGES_MAX:
                batch.append(self._waiting.popleft())
                changes += len(batch[-1].changes)
        return batch

    def _write(self, batch: Sequence[_Waiting], number: int) -> _Written:
        """Store a batch as one record of this number, synced; raises FileProblem."""
        body = encoded_changes(
            chain.from_iterable(each.changes for each in batch), chain.from_iterable(each.flushed for each in batch)
        )
        grown_bytes = len(body)
        with self._file.transaction(self._clock.now_ms()) as connection:
            for each in batch:
                if each.snapshot is not None:
                    grown_bytes += _replace_former(connection, each.snapshot)
                if each.store_id:
                    connection.execute("DELETE FROM store")
                    connection.execute("INSERT INTO store VALUES (?)", (each.store_id,))
            connection.execute("INSERT INTO records VALUES (?, ?, ?)", (number, zlib.crc32(body), body))
        return _Written(number, grown_bytes)

    def _written(self, written: _Written) -> _Written:
        """Return a failure where the file is gone; the number is used all the same, as the record has it."""
        try:
            self._file.check_there(self._clock.now_ms())
        except FileProblem as problem:
            return written._replace(failure=problem)
        return written

    def _replay(self) -> None:
        now_ms = self._clock.now_ms()
        try:
            for (store_id,) in self._file.connection.execute("SELECT id FROM store"):
                self.store_id = store_id
            rows = self._file.connection.execute("SELECT number, digest, body FROM records ORDER BY number")
            for number, digest, body in rows:
                self._replay_record(number, digest, body, now_ms)
        except sqlite3.Error as error:
            raise self._file.problem(error) from None

    def _replay_record(self, number: int, digest: int, body: bytes, now_ms: int) -> None:
        if self._number and number != self._number + 1:
            raise self._file.damaged(f"record {self._number + 1} is missing")
        if zlib.crc32(body) != digest:
            raise self._file.damaged(f"record {number} has a wrong checksum")
        try:
            record = decoded(body, number)
        except (TypeError, ValueError, IndexError, msgspec.DecodeError) as error:
            raise self._file.damaged(f"record {number} cannot be read: {error}") from None
        for row in record.flushed:
            self.dirty.flushed(row.of, row.numbers, now_ms)
        for key, dirty in record.entries:
            self.dirty.restore(key, dirty, now_ms)
        self._number = number
        self._bytes += len(body)


def _replace_former(connection: sqlite3.Connection, snapshot: _Snapshot) -> int:
    """Write a snapshot in place of the records up to its own, and return by how many bytes records grow."""
    (former_bytes,) = connection.execute(
        "SELECT coalesce(sum(length(body)), 0) FROM records WHERE number <= ?", (snapshot.number,)
    ).fetchone()
    connection.execute("DELETE FROM records WHERE number <= ?", (snapshot.number,))
    body = encoded_snapshot(snapshot.rows)
    connection.execute("INSERT INTO records VALUES (?, ?, ?)", (snapshot.number, zlib.crc32(body), body))
    return len(body) - int(former_bytes)


def _answer(stored: "asyncio.Future[int]", written: _Written) -> None:
    if stored.done():
        return
    if written.failure is None:
        stored.set_result(written.number)
    else:
        stored.set_exception(written.failure)


async def outcome(stored: "asyncio.Future[int]") -> int:
    """Return what the journal answers; whoever is cancelled waits for it too, since it decides what is raised."""
    try:
        return await asyncio.shield(stored)
    except asyncio.CancelledError:
        while not stored.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({stored})
        stored.result()
        raise
