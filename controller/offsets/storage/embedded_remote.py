"""The remote store in a SQLite file, for one manager without etcd. It is as durable as the disk that the file is on.

A thread of its own waits for the disk. Each step is one statement for many rows: SQLite gives the interpreter's lock
back at each statement, and a busy event loop takes long to return it.
"""

import asyncio
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from controller.offsets.storage.formats.row_keys import ForeignKey, path_of, row_of
from controller.offsets.storage.formats.row_values import UnreadableRow, decoded_row, encoded_row
from controller.offsets.storage.lagging_mark import LaggingMark, MarkedFile
from controller.offsets.storage.remote import (
    ABSENT,
    PutOutcome,
    RemoteRow,
    RowMoved,
    RowPage,
    RowResult,
    RowStored,
    RowWrite,
)
from controller.offsets.storage.sqlite_file import FileKind, SqliteFile
from controller.offsets.values import GroupTopic
from remoting.clock import Clock

FILE_NAME: Final = "offsets.db"
#: Takes the last revision.
MARK_NAME: Final = "offsets.mark"
SCHEMA_VERSION: Final = 1
#: Rows of one page.
PAGE_ROWS: Final = 500
#: Rows of one statement.
STATEMENT_ROWS: Final = 500

_KIND: Final = FileKind(
    title="a store of offsets",
    application_id=0x524D_514F,
    schema_version=SCHEMA_VERSION,
    schema=(
        """CREATE TABLE IF NOT EXISTS offsets (
            key TEXT PRIMARY KEY, revision INTEGER NOT NULL, digest INTEGER NOT NULL, value BLOB NOT NULL
        ) WITHOUT ROWID""",
        # Revisions never come again, also where a row is removed and made anew.
        "CREATE TABLE IF NOT EXISTS last_revision (revision INTEGER NOT NULL)",
        "INSERT INTO last_revision SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM last_revision)",
        "CREATE TABLE IF NOT EXISTS store (id TEXT NOT NULL)",
        "INSERT INTO store SELECT lower(hex(randomblob(8))) WHERE NOT EXISTS (SELECT 1 FROM store)",
    ),
    remedy=(
        "it holds the offsets of all groups. Restore it from a backup, or move it away and let the offsets be read "
        "from the brokers again"
    ),
)

_MARKED: Final = MarkedFile("store", "revisions", "groups go back to the offsets of that copy, and read again")

Result = TypeVar("Result")


class _Put(NamedTuple):
    """A write as the file takes it."""

    key: str
    #: None removes the row.
    value: bytes | None
    revision: int


class EmbeddedRemote:
    """All rows in one file."""

    is_shared = False
    #: Nobody else ever leads.
    leads_seen = 0

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Open or make the file; blocks. Raises FileProblem, which names it."""
        self._clock = clock
        self._file = SqliteFile(folder / FILE_NAME, _KIND)
        try:
            #: In copies of the file too.
            self.id: Final = str(self._value("SELECT id FROM store"))
            revision = int(str(self._value("SELECT revision FROM last_revision")))
            self._mark = LaggingMark(folder / MARK_NAME, revision, _MARKED)
        except BaseException:
            self._file.close()
            raise
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="offset-store")

    def _value(self, query: str) -> object:
        try:
            found = self._file.connection.execute(query).fetchone()
        except sqlite3.Error as error:
            raise self._file.problem(error) from None
        if found is None:
            raise self._file.damaged(f"nothing was found by {query}")
        return found[0]

    async def store_id(self) -> str:
        """Return the id of the file."""
        return self.id

    async def load_page(self, start: bytes | None) -> RowPage:
        """Return PAGE_ROWS rows at most."""
        return await self._call(partial(self._load_page, "" if start is None else start.decode()))

    async def put(self, writes: Sequence[RowWrite]) -> PutOutcome:
        """Store rows in one transaction; those that moved keep no other away."""
        return await self._call(partial(self._put, writes))

    async def delete(self, rows: Mapping[GroupTopic, int]) -> PutOutcome:
        """Remove rows at these revisions."""
        return await self.put([RowWrite(of, {}, revision) for of, revision in rows.items()])

    async def close(self) -> None:
        """Close the file, once what is under way has ended."""
        await self._call(self.close_file)
        self._thread.shutdown(wait=False)

    def close_file(self) -> None:
        """Close the file while nothing is under way; blocks."""
        self._mark.close()
        self._file.close()

    async def _call(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _load_page(self, start: str) -> RowPage:
        self._file.check_there(self._clock.now_ms())
        query = "SELECT key, revision, digest, value FROM offsets WHERE key >= ? ORDER BY key LIMIT ?"
        try:
            found = self._file.connection.execute(query, (start, PAGE_ROWS)).fetchall()
        except sqlite3.Error as error:
            raise self._file.problem(error) from None
        rows: dict[GroupTopic, RemoteRow] = {}
        foreign: list[str] = []
        for key, revision, digest, value in found:
            try:
                rows[row_of(key)] = self._row(key, revision, digest, value)
            except ForeignKey as error:
                foreign.append(f"{self._file.path}: {error}; delete it from the table offsets")
        end = f"{found[-1][0]}\0".encode() if len(found) == PAGE_ROWS else None
        return RowPage(rows, foreign, end)

    def _row(self, key: str, revision: int, digest: int, value: bytes) -> RemoteRow:
        try:
            if digest == _digest(key, value):
                return RemoteRow(decoded_row(value), revision)
            fault = "its checksum is wrong"
        except UnreadableRow as error:
            fault = str(error)
        problem = (
            f"{self._file.path}: the row {key} cannot be read: {fault}. Restore the file from a backup, or stop the "
            "offset manager and delete the row from the table offsets"
        )
        return RemoteRow(revision=revision, problem=problem)

    def _put(self, writes: Sequence[RowWrite]) -> PutOutcome:
        puts = [_Put(path_of(of), encoded_row(queues) if queues else None, revision) for of, queues, revision in writes]
        with self._file.transaction(self._clock.now_ms()) as connection:
            present = _present(connection, [each.key for each in puts])
            (revision,) = connection.execute("UPDATE last_revision SET revision = revision + 1 RETURNING *").fetchone()
            fitting = [each for each in puts if present.get(each.key, ABSENT) == each.revision]
            for at in range(0, len(fitting), STATEMENT_ROWS):
                _write(connection, fitting[at : at + STATEMENT_ROWS], revision)
        self._mark.follow(revision)
        self._file.check_there(self._clock.now_ms())
        stored = {each.key: RowStored(ABSENT if each.value is None else revision) for each in fitting}
        results = [stored.get(each.key) or self._moved(each.key) for each in puts]
        return PutOutcome(results, transactions=1)

    def _moved(self, key: str) -> RowResult:
        query = "SELECT revision, digest, value FROM offsets WHERE key = ?"
        found = self._file.connection.execute(query, (key,)).fetchone()
        return RowMoved(RemoteRow() if found is None else self._row(key, *found))


def _present(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the revisions of the rows that are there."""
    present: dict[str, int] = {}
    for at in range(0, len(keys), STATEMENT_ROWS):
        part = keys[at : at + STATEMENT_ROWS]
        marks = ",".join("?" * len(part))
        # Keys are escaped: they have neither blanks nor line ends.
        query = f"SELECT group_concat(key || ' ' || revision, char(10)) FROM offsets WHERE key IN ({marks})"  # noqa: S608  # marks only
        (text,) = connection.execute(query, part).fetchone()
        for line in (text or "").splitlines():
            key, revision = line.split(" ")
            present[key] = int(revision)
    return present


def _write(connection: sqlite3.Connection, puts: Sequence[_Put], revision: int) -> None:
    rows = [(each.key, revision, _digest(each.key, each.value), each.value) for each in puts if each.value is not None]
    if rows:
        marks = ",".join(["(?, ?, ?, ?)"] * len(rows))
        connection.execute(f"REPLACE INTO offsets VALUES {marks}", [each for row in rows for each in row])  # noqa: S608  # marks only
    if removed := [each.key for each in puts if each.value is None]:
        marks = ",".join("?" * len(removed))
        connection.execute(f"DELETE FROM offsets WHERE key IN ({marks})", removed)  # noqa: S608  # marks only


def _digest(key: str, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key.encode()))
