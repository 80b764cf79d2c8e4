"""The table of documents in the file of the embedded store; blocks.

Releases without documents leave the table alone. They count its changes too, as those that no entry counts: to them
the file is whole, and an older copy of it is not.
"""

import sqlite3
import zlib
from pathlib import Path
from typing import Final

from store.documents import DOCUMENT_PAGE, DocumentKind, VersionedDocument, fault_of_value
from store.entry_table import add_changes

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS documents (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    value BLOB NOT NULL,
    digest INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
)
"""


def create_documents(connection: sqlite3.Connection) -> None:
    """Make the table if it is not there yet."""
    connection.execute(_SCHEMA)


class DocumentTable:
    """The documents in one file."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def page(self, kind: DocumentKind, first: str) -> dict[str, VersionedDocument]:
        """Return DOCUMENT_PAGE documents of a kind at most: those from a name on, in their order."""
        query = "SELECT name, value, revision, digest FROM documents WHERE kind = ? AND name >= ? ORDER BY name LIMIT ?"
        rows = self._connection.execute(query, (kind, first, DOCUMENT_PAGE)).fetchall()
        return {row[0]: self._versioned(kind, *row) for row in rows}

    def read(self, kind: DocumentKind, name: str) -> VersionedDocument:
        """Return one document."""
        query = "SELECT name, value, revision, digest FROM documents WHERE kind = ? AND name = ?"
        row = self._connection.execute(query, (kind, name)).fetchone()
        return VersionedDocument() if row is None else self._versioned(kind, *row)

    def put(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> bool:
        """Write a document if it is at this revision, and return whether it was; None removes it."""
        run = self._connection.execute
        if value is None:
            is_done = self._remove(kind, name, revision)
        elif revision == 0:
            new = (kind, name, value, _digest(kind, name, value, 1))
            is_done = bool(run("INSERT OR IGNORE INTO documents VALUES (?, ?, 1, ?, ?)", new).rowcount)
        else:
            digest = _digest(kind, name, value, revision + 1)
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
        if not isinstance(value, bytes) or digest != _digest(kind, name, value, revision):
            fault = "it is damaged"
        elif not (fault := fault_of_value(value)):
            return VersionedDocument(value, revision)
        problem = (
            f"{self._path}: the {kind} {name} cannot be read: {fault}; restore the folder from a backup, or stop the "
            "controller and delete the row from the table documents"
        )
        return VersionedDocument(b"", revision, problem)


def _digest(kind: DocumentKind, name: str, value: bytes, revision: int) -> int:
    return zlib.crc32(value, zlib.crc32(f"{kind}\0{name}\0{revision}\0".encode()))
