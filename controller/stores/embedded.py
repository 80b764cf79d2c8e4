"""The embedded store: one SQLite file, for one controller process, durable at every commit.

Commits that come while the disk is waited for go into the next transaction together, each with its own answer.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from controller.entry import Entry
from controller.store import EntryMoved, Kept, Member, OutcomeUnknown, StoreError, Witness
from controller.stores.observer import NoObserver, StoreObserver

FILE_NAME: Final = "controller.db"
#: Commits in one transaction: those that come later wait for it.
TOGETHER_MAX: Final = 500

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS entries (
    broker_name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    entry TEXT NOT NULL
) WITHOUT ROWID
"""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Entry).decode
#: What is stored as no row at all.
_NOTHING: Final = _encode(Entry()).decode()

Result = TypeVar("Result")


class StoreInUse(StoreError):
    """Another process has the file, or it cannot be opened."""


class _Commit:
    """What one caller wants stored, and what has become of it."""

    __slots__ = ("broker_name", "failure", "is_done", "is_given_up", "is_stored", "revision", "text")

    def __init__(self, broker_name: str, text: str, revision: int) -> None:
        self.broker_name = broker_name
        self.text = text
        self.revision = revision
        #: Nobody waits for it any more: it is not to be begun.
        self.is_given_up = False
        self.is_done = False
        self.is_stored = False
        #: Why the transaction failed: nobody knows whether it is stored.
        self.failure: Exception | None = None


class EmbeddedStore:
    """The entries in one file; a thread of its own waits for the disk."""

    def __init__(self, folder: Path, observer: StoreObserver | None = None) -> None:
        """Open or make the file in `folder`; raises StoreInUse, or StoreError if what is in it cannot be read."""
        self._path = folder / FILE_NAME
        self._observer = observer or NoObserver()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-store")
        #: In the order they came; taken by the thread.
        self._waiting: deque[_Commit] = deque()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._thread.submit(self._open).result()
        except (OSError, sqlite3.Error) as error:
            self._thread.shutdown()
            raise StoreInUse(f"{self._path} cannot be used: {error}; is another controller running on it?") from None
        except StoreError:
            self._thread.shutdown()
            raise

    async def join(self, me: Member, witness: Witness) -> None:
        """Lead alone and for ever: nobody else can open the file."""
        witness.members_changed((me,))
        witness.leads(None)

    async def resign(self) -> None:
        """Nobody is there to lead instead."""

    def pass_on(self) -> None:
        """Nobody is there to lead instead."""

    async def load(self) -> Mapping[str, Kept]:
        """Return all entries."""
        return await self._call("load", self._load)

    async def read(self, broker_name: str) -> Kept:
        """Return one entry."""
        row = await self._call(
            "read",
            lambda: self._connection.execute(
                "SELECT entry, revision FROM entries WHERE broker_name = ?", (broker_name,)
            ).fetchone(),
        )
        return Kept() if row is None else self._kept(broker_name, *row)

    async def commit(self, broker_name: str, entry: Entry, revision: int) -> int:
        """Store an entry; it is on the disk when this returns."""
        wanted = _Commit(broker_name, _encode(entry).decode(), revision)
        self._waiting.append(wanted)
        try:
            return await self._call("commit", lambda: self._committed(wanted))
        finally:
            wanted.is_given_up = True

    async def size_bytes(self) -> int | None:
        """There is no etcd, and nothing that has a quota."""
        return None

    async def close(self) -> None:
        """Close the file."""
        await self._call("close", self._connection.close)
        self._thread.shutdown(wait=False)

    def _open(self) -> None:
        self._connection = connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=0, check_same_thread=False
        )
        try:
            self._prepare(connection)
            # There is no other copy: a controller that cannot read it had better not start.
            self._load()
        except (sqlite3.Error, StoreError):
            connection.close()
            raise

    @staticmethod
    def _prepare(connection: sqlite3.Connection) -> None:
        # Held from the first write on until the end: two controllers on one file would each elect.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # A write-ahead log is synced once for each commit; FULL syncs it, or the last ones would be gone after a crash.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute(_SCHEMA)
        connection.execute("COMMIT")

    def _load(self) -> dict[str, Kept]:
        rows = self._connection.execute("SELECT broker_name, entry, revision FROM entries").fetchall()
        return {name: self._kept(name, entry, revision) for name, entry, revision in rows}

    def _committed(self, wanted: _Commit) -> int:
        """Return the next revision once this is stored; an earlier caller may have stored it along with its own."""
        while not wanted.is_done:
            self._commit_some()
        if wanted.failure is not None:
            raise OutcomeUnknown(f"{self._path}: {wanted.failure}") from wanted.failure
        if not wanted.is_stored:
            raise EntryMoved(f"{wanted.broker_name} is no longer at revision {wanted.revision}")
        return wanted.revision + 1

    def _commit_some(self) -> None:
        """Store what waits, in one transaction: all of it is on the disk after this, or nobody knows."""
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOGETHER_MAX))]
        together = [each for each in taken if not each.is_given_up]
        failure: Exception | None = None
        try:
            self._connection.rollback()  # where the one before failed so badly that it could not be undone
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for each in together:
                    each.is_stored = self._put(each)
        except Exception as error:  # noqa: BLE001  # whatever it is, nobody may wait for this for ever
            failure = error
        for each in taken:
            each.failure, each.is_done = failure, True

    def _put(self, wanted: _Commit) -> bool:
        run = self._connection.execute
        if wanted.revision == 0:
            return bool(
                run("INSERT OR IGNORE INTO entries VALUES (?, 1, ?)", (wanted.broker_name, wanted.text)).rowcount
            )
        if wanted.text == _NOTHING:
            removed = run(
                "DELETE FROM entries WHERE broker_name = ? AND revision = ?", (wanted.broker_name, wanted.revision)
            )
            return bool(removed.rowcount)
        done = run(
            "UPDATE entries SET entry = ?, revision = revision + 1 WHERE broker_name = ? AND revision = ?",
            (wanted.text, wanted.broker_name, wanted.revision),
        )
        return bool(done.rowcount)

    def _kept(self, broker_name: str, text: str, revision: int) -> Kept:
        try:
            return Kept(_decode(text), revision)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self._path}: the entry of {broker_name} cannot be read: {error}; restore the file from a backup, "
                "or remove it and let the brokers register again"
            ) from None

    async def _call(self, kind: str, work: Callable[[], Result]) -> Result:
        loop = asyncio.get_running_loop()
        begun_s, result = loop.time(), "unknown"
        try:
            answer = await loop.run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise OutcomeUnknown(f"{self._path}: {error}") from error
        except EntryMoved:
            result = "moved"
            raise
        else:
            result = "ok"
            return answer
        finally:
            self._observer.store_call(kind, result, loop.time() - begun_s)
