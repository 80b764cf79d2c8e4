"""Keeps operations in a SQLite file of this manager; blocks, so it is used from a thread, one call at a time."""

import sqlite3
import zlib
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controller.offsets.restore.operations import OPERATIONS_MAX, QUEUES_KEPT_MAX, Operation, OperationKind
from controller.offsets.storage.sqlite_file import FileKind, FileProblem, FormerMark, SqliteFile
from remoting.clock import Clock

FILE_NAME: Final = "offset-operations.db"
SCHEMA_VERSION: Final = 1

_KIND: Final = FileKind(
    title="the operations of an offset manager",
    application_id=0x524D_5152,
    schema_version=SCHEMA_VERSION,
    schema=(
        (
            "CREATE TABLE IF NOT EXISTS operations (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
            "kind TEXT NOT NULL, writer TEXT NOT NULL, unix_ms INTEGER NOT NULL, undoes TEXT NOT NULL, "
            "is_finished INTEGER NOT NULL, queues INTEGER NOT NULL, body BLOB NOT NULL)"
        ),
    ),
    remedy=(
        "it holds what undoes former restores and resets. Restore it from a backup, or move it away and start without "
        "it: what was done until now can then not be undone by its id"
    ),
    former_mark=FormerMark(0x524D_514F, "operations"),
)
_HEAD: Final = "id, kind, writer, unix_ms, undoes, is_finished, queues"
_KINDS: Final = frozenset(each.value for each in OperationKind)
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Operation)


class OperationHead(NamedTuple):
    """An operation without its queues."""

    operation_id: str
    #: An OperationKind, or what a later release has written.
    kind: str
    writer: str
    unix_ms: int
    undoes: str
    is_finished: bool
    queues: int


class OperationFile:
    """The last operations."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Open or make the file; raises FileProblem."""
        self._clock = clock
        self._file = SqliteFile(folder / FILE_NAME, _KIND)

    def keep(self, operation: Operation) -> None:
        """Store an operation, or its outcomes; the oldest ones are removed.

        Raises FileProblem, and then stores nothing.
        """
        values = (
            operation.operation_id,
            operation.kind.value,
            operation.writer,
            operation.unix_ms,
            operation.undoes,
            operation.is_finished,
            operation.count,
            zlib.compress(_ENCODER.encode(operation), 1),
        )
        with self._file.transaction(self._clock.now_ms()) as connection:
            connection.execute(
                f"INSERT INTO operations ({_HEAD}, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - a constant
                "ON CONFLICT (id) DO UPDATE SET is_finished = excluded.is_finished, queues = excluded.queues, "
                "body = excluded.body",
                values,
            )
            _remove_oldest(connection)

    def find(self, operation_id: str) -> Operation | None:
        """Return an operation; None if it is not kept, or not any more. Raises FileProblem."""
        try:
            found = self._file.connection.execute(
                "SELECT kind, body FROM operations WHERE id = ?", (operation_id,)
            ).fetchone()
            if found is None:
                return None
            kind, body = found
            if kind not in _KINDS:
                raise FileProblem(
                    self._file.path,
                    f"operation {operation_id} is of kind {kind}, which this release does not know: run the release "
                    "that has written it",
                )
            return _DECODER.decode(zlib.decompress(body))
        except sqlite3.Error as error:
            raise self._file.problem(error) from None
        except (zlib.error, msgspec.DecodeError) as error:
            raise self._file.damaged(f"operation {operation_id}: {error}") from None

    def last(self) -> list[OperationHead]:
        """Return the operations that are kept, the newest first. Raises FileProblem."""
        try:
            rows = self._file.connection.execute(
                f"SELECT {_HEAD} FROM operations ORDER BY number DESC"  # noqa: S608 - a constant
            ).fetchall()
        except sqlite3.Error as error:
            raise self._file.problem(error) from None
        return [OperationHead(row[0], row[1], row[2], row[3], row[4], bool(row[5]), row[6]) for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _remove_oldest(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM operations WHERE number NOT IN (SELECT number FROM (SELECT number, "
        "sum(queues) OVER (ORDER BY number DESC) AS kept, row_number() OVER (ORDER BY number DESC) AS place "
        "FROM operations) WHERE place = 1 OR (place <= ? AND kept <= ?))",
        (OPERATIONS_MAX, QUEUES_KEPT_MAX),
    )
