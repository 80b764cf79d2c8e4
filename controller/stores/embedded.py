"""The embedded store: one SQLite file, for one controller process, durable at every commit."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from controller.entry import Entry
from controller.store import EntryMoved, Kept, Member, OutcomeUnknown, StoreError, Witness
from controller.stores.observer import NoObserver, StoreObserver

FILE_NAME: Final = "controller.db"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS entries (
    broker_name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    entry TEXT NOT NULL
) WITHOUT ROWID
"""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Entry).decode

Result = TypeVar("Result")


class StoreInUse(StoreError):
    """Another process has the file, or it cannot be opened."""


class EmbeddedStore:
    """The entries in one file; a thread of its own waits for the disk."""

    def __init__(self, folder: Path, observer: StoreObserver | None = None) -> None:
        """Open or make the file in `folder`; raises StoreInUse."""
        self._path = folder / FILE_NAME
        self._observer = observer or NoObserver()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-store")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = self._thread.submit(self._open).result()
        except (OSError, sqlite3.Error) as error:
            self._thread.shutdown()
            raise StoreInUse(f"{self._path} cannot be used: {error}; is another controller running on it?") from None

    async def join(self, me: Member, witness: Witness) -> None:
        """Lead alone and for ever: nobody else can open the file."""
        witness.members_changed((me,))
        witness.leads(None)

    async def resign(self) -> None:
        """Nobody is there to lead instead."""

    async def load(self) -> Mapping[str, Kept]:
        """Return all entries."""
        rows = await self._call(
            "load", lambda: self._connection.execute("SELECT broker_name, entry, revision FROM entries").fetchall()
        )
        return {name: self._kept(name, entry, revision) for name, entry, revision in rows}

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
        text = _encode(entry).decode()
        return await self._call("commit", lambda: self._commit(broker_name, text, revision))

    async def close(self) -> None:
        """Close the file."""
        await self._call("close", self._connection.close)
        self._thread.shutdown(wait=False)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=0, check_same_thread=False)
        # Held from the first write on until the end: two controllers on one file would each elect.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # A write-ahead log is synced once for each commit; FULL syncs it, or the last ones would be gone after a crash.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute(_SCHEMA)
        connection.execute("COMMIT")
        return connection

    def _commit(self, broker_name: str, text: str, revision: int) -> int:
        run = self._connection.execute
        if revision == 0:
            done = run("INSERT OR IGNORE INTO entries VALUES (?, 1, ?)", (broker_name, text))
        else:
            done = run(
                "UPDATE entries SET entry = ?, revision = revision + 1 WHERE broker_name = ? AND revision = ?",
                (text, broker_name, revision),
            )
        if not done.rowcount:
            raise EntryMoved(f"{broker_name} is no longer at revision {revision}")
        return revision + 1

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
