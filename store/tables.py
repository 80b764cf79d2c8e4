"""The tables of broker sets and of documents in the file of the embedded store, and the count of all changes; blocks.

Each change of an entry counts its revision up. The table `removed` adds up the changes that no entry counts: those of
documents too, so that to releases without documents, which leave their table alone, the file is whole.
"""

import sqlite3
import zlib
from pathlib import Path
from typing import Final

import msgspec

from controller.sets.stored_set import NewerFormat, StoredSet, decode_stored_set
from store.documents import DOCUMENT_PAGE, DocumentKind, VersionedDocument, fault_of_value
from store.store import StoreError, VersionedEntry

_ENTRIES: Final = """
CREATE TABLE IF NOT EXISTS entries (
    broker_name TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    entry TEXT NOT NULL,
    digest INTEGER
) WITHOUT ROWID
"""

_DOCUMENTS: Final = """
CREATE TABLE IF NOT EXISTS documents (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    value BLOB NOT NULL,
    digest INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
)
"""

_encode: Final = msgspec.json.Encoder().encode
#: What is stored as no row at all.
_NOTHING: Final = _encode(StoredSet()).decode()


def entry_text(entry: StoredSet) -> str:
    return _encode(entry).decode()


def create_tables(connection: sqlite3.Connection) -> None:
    connection.execute(_ENTRIES)
    connection.execute(_DOCUMENTS)
    connection.execute("CREATE TABLE IF NOT EXISTS removed (revisions INTEGER NOT NULL)")
    if connection.execute("SELECT count(*) FROM removed").fetchone() == (0,):
        connection.execute("INSERT INTO removed VALUES (0)")
    if "digest" not in {row[1] for row in connection.execute("PRAGMA table_info(entries)")}:
        connection.execute("ALTER TABLE entries ADD COLUMN digest INTEGER")


def count_changes(connection: sqlite3.Connection) -> int:
    """Return how many changes of entries and documents are in the file."""
    query = "SELECT (SELECT coalesce(sum(revision), 0) FROM entries) + revisions FROM removed"
    (number,) = connection.execute(query).fetchone()
    return int(number)


def add_changes(connection: sqlite3.Connection, number: int) -> None:
    """Count changes that no entry counts: of one that is removed, and of documents."""
    connection.execute("UPDATE removed SET revisions = revisions + ?", (number,))


class EntryTable:
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path

    def load(self) -> dict[str, VersionedEntry]:
        """Return all entries; raises StoreError if one cannot be read."""
        rows = self._connection.execute("SELECT broker_name, entry, revision, digest FROM entries").fetchall()
        return {row[0]: self._versioned(*row) for row in rows}

    def read(self, broker_name: str) -> VersionedEntry:
        query = "SELECT broker_name, entry, revision, digest FROM entries WHERE broker_name = ?"
        row = self._connection.execute(query, (broker_name,)).fetchone()
        return VersionedEntry() if row is None else self._versioned(*row)

    def put(self, broker_name: str, text: str, revision: int) -> bool:
        """Write an entry if it is at this revision, and return whether it was; an empty one is removed."""
        run = self._connection.execute
        if revision == 0:
            new = (broker_name, text, _digest(broker_name, text, 1))
            return bool(run("INSERT OR IGNORE INTO entries VALUES (?, 1, ?, ?)", new).rowcount)
        if text == _NOTHING:
            return self._remove(broker_name, revision)
        done = run(
            "UPDATE entries SET entry = ?, digest = ?, revision = revision + 1 WHERE broker_name = ? AND revision = ?",
            (text, _digest(broker_name, text, revision + 1), broker_name, revision),
        )
        return bool(done.rowcount)

    def _remove(self, broker_name: str, revision: int) -> bool:
        removed = self._connection.execute(
            "DELETE FROM entries WHERE broker_name = ? AND revision = ?", (broker_name, revision)
        )
        if removed.rowcount:
            # Its changes happened, and so did this one.
            add_changes(self._connection, revision + 1)
        return bool(removed.rowcount)

    def _versioned(self, broker_name: str, text: str, revision: int, digest: int | None) -> VersionedEntry:
        try:
            entry = decode_stored_set(text)
        except NewerFormat as error:
            raise StoreError(f"{self._path}: the entry of {broker_name} {error}") from None
        except msgspec.DecodeError as error:
            raise StoreError(
                f"{self._path}: the entry of {broker_name} cannot be read: {error}; restore the file from a backup, "
                "or remove it and let the brokers register again"
            ) from None
        # Entries of the first releases have no digest.
        if digest is not None and digest != _digest(broker_name, text, revision):
            raise StoreError(
                f"{self._path}: the entry of {broker_name} is damaged; restore the folder from a backup, or remove "
                "it and adopt the brokers"
            )
        return VersionedEntry(entry, revision)


def _digest(broker_name: str, text: str, revision: int) -> int:
    return zlib.crc32(f"{broker_name}\0{revision}\0{text}".encode(errors="surrogatepass"))


class DocumentTable:
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection, self._path = connection, path

    def page(self, kind: DocumentKind, first: str) -> dict[str, VersionedDocument]:
        """Return DOCUMENT_PAGE documents of a kind at most: those from a name on, in their order."""
        query = "SELECT name, value, revision, digest FROM documents WHERE kind = ? AND name >= ? ORDER BY name LIMIT ?"
        rows = self._connection.execute(query, (kind, first, DOCUMENT_PAGE)).fetchall()
        return {row[0]: self._versioned(kind, *row) for row in rows}

    def read(self, kind: DocumentKind, name: str) -> VersionedDocument:
        query = "SELECT name, value, revision, digest FROM documents WHERE kind = ? AND name = ?"
        row = self._connection.execute(query, (kind, name)).fetchone()
        return VersionedDocument() if row is None else self._versioned(kind, *row)

    def put(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> bool:
        """Write a document if it is at this revision, and return whether it was; None removes it."""
        run = self._connection.execute
        if value is None:
            is_done = self._remove(kind, name, revision)
        elif revision == 0:
            new = (kind, name, value, _document_digest(kind, name, value, 1))
            is_done = bool(run("INSERT OR IGNORE INTO documents VALUES (?, ?, 1, ?, ?)", new).rowcount)
        else:
            digest = _document_digest(kind, name, value, revision + 1)
            done = run(
                "UPDATE documents SET value = ?, digest = ?, revision = revision + 1 "
                "WHERE kind = ? AND name = ? AND revision = ?",
                (value, digest, kind, name, revision),
            )
            is_done = bool(done.rowcount)
        if is_done:
            add_changes(self._connection, 1)
        return is_done

    def _remove(self, kind: DocumentKind, name: str, revision: int) -> bool:
        if revision == 0:
            return self.read(kind, name).revision == 0
        removed = self._connection.execute(
            "DELETE FROM documents WHERE kind = ? AND name = ? AND revision = ?", (kind, name, revision)
        )
        return bool(removed.rowcount)

    def _versioned(self, kind: DocumentKind, name: str, value: object, revision: int, digest: int) -> VersionedDocument:
        if not isinstance(value, bytes) or digest != _document_digest(kind, name, value, revision):
            fault = "it is damaged"
        elif not (fault := fault_of_value(value)):
            return VersionedDocument(value, revision)
        problem = (
            f"{self._path}: the {kind} {name} cannot be read: {fault}; restore the folder from a backup, or stop the "
            "controller and delete the row from the table documents"
        )
        return VersionedDocument(b"", revision, problem)


def _document_digest(kind: DocumentKind, name: str, value: bytes, revision: int) -> int:
    return zlib.crc32(value, zlib.crc32(f"{kind}\0{name}\0{revision}\0".encode()))
