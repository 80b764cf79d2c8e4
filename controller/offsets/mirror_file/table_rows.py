"""The tables of a broker set in the file of the mirror, and the changes between them; blocks, within a transaction.

The oldest table is what every change lies after. The newer one is written again now and then: a start reads it, and the
changes since. An error of SQLite goes through, and UnreadableFrame for bytes that are no offsets.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from controller.offsets.mirror_file.frames import (
    OffsetFrame,
    decoded_frame,
    difference,
    drop_absent,
    encoded_frame,
    merge,
)
from controller.offsets.mirror_file.thinning import StoredChange

#: The newer table is written again once the changes since then take so many times as much, and so much at least.
NEWER_FACTOR: Final = 4
NEWER_BYTES_MIN: Final = 64 << 10


@dataclass(slots=True)
class SetInFile:
    """What the file has of a set, as far as the next write needs it."""

    id: int
    #: Of the newest change or table; 0 without one.
    last_ms: int
    #: Of the oldest table; None without one.
    oldest_ms: int | None
    newer_bytes: int
    #: Of changes since the newer table.
    change_bytes: int
    #: Of all changes; None: not counted yet, which takes a look at each of them.
    kept_bytes: int | None = None

    def added(self, count: int) -> None:
        """Count so many bytes of changes more, or fewer."""
        if self.kept_bytes is not None:
            self.kept_bytes += count


def give_up(connection: sqlite3.Connection, stored: SetInFile, before_ms: int) -> None:
    """Let the oldest table have all changes before a moment."""
    query = "SELECT unix_ms, body FROM changes WHERE set_id = ? AND unix_ms < ? ORDER BY unix_ms"
    rows = connection.execute(query, (stored.id, before_ms)).fetchall()
    if not rows:
        return
    table = _oldest_table(connection, stored.id)
    for _, body in rows:
        merge(table, decoded_frame(body))
    drop_absent(table)
    at_ms, body = rows[-1][0], encoded_frame(table)
    connection.execute("DELETE FROM changes WHERE set_id = ? AND unix_ms <= ?", (stored.id, at_ms))
    stored.added(-sum(len(change) for _, change in rows))
    _write_table(connection, stored.id, is_newer=False, unix_ms=at_ms, body=body)
    stored.oldest_ms = at_ms
    query = "SELECT unix_ms FROM offset_tables WHERE set_id = ? AND is_newer = 1"
    if connection.execute(query, (stored.id,)).fetchone()[0] < at_ms:
        write_newer(connection, stored, body, at_ms)


def change_ms_at(connection: sqlite3.Connection, set_id: int, part: int) -> int:
    """Return when the change came with which one part of so many parts of a set's changes ends; it has changes."""
    query = (
        "SELECT unix_ms FROM changes WHERE set_id = ?1 ORDER BY unix_ms "
        "LIMIT 1 OFFSET (SELECT count(*) FROM changes WHERE set_id = ?1) / ?2"
    )
    return int(connection.execute(query, (set_id, part)).fetchone()[0])


def kept_bytes(connection: sqlite3.Connection, stored: SetInFile) -> int:
    """Return how much the changes of a set take: counted once, and kept up to date from then on."""
    if stored.kept_bytes is None:
        query = "SELECT total(length(body)) FROM changes WHERE set_id = ?"
        stored.kept_bytes = int(connection.execute(query, (stored.id,)).fetchone()[0])
    return stored.kept_bytes


def is_newer_table_due(stored: SetInFile) -> bool:
    """Return whether a start would read far more changes than a table has."""
    return stored.change_bytes > max(NEWER_BYTES_MIN, NEWER_FACTOR * stored.newer_bytes)


def stored_set(connection: sqlite3.Connection, set_id: int) -> SetInFile:
    """Return what the file has of a set."""
    tables = {
        is_newer: (unix_ms, size)
        for is_newer, unix_ms, size in connection.execute(
            "SELECT is_newer, unix_ms, length(body) FROM offset_tables WHERE set_id = ?", (set_id,)
        )
    }
    oldest_ms, _ = tables.get(0, (None, 0))
    newer_ms, newer_bytes = tables.get(1, (0, 0))
    query = "SELECT max(unix_ms), sum(length(body)) FROM changes WHERE set_id = ? AND unix_ms > ?"
    last_ms, change_bytes = connection.execute(query, (set_id, newer_ms)).fetchone()
    return SetInFile(set_id, last_ms or newer_ms, oldest_ms, newer_bytes, change_bytes or 0)


def table_at(connection: sqlite3.Connection, set_id: int, unix_ms: int | None) -> tuple[int, OffsetFrame]:
    """Return the newest change that a table of a moment has, and the table; None for the newest of all."""
    until_ms = (1 << 63) - 1 if unix_ms is None else unix_ms
    query = (
        "SELECT unix_ms, body FROM offset_tables WHERE set_id = ? AND unix_ms <= ? ORDER BY unix_ms DESC, is_newer DESC"
    )
    found = connection.execute(query, (set_id, until_ms)).fetchone()
    if found is None:
        return 0, {}
    begin_ms, table = found[0], decoded_frame(found[1])
    query = "SELECT unix_ms, body FROM changes WHERE set_id = ? AND unix_ms > ? AND unix_ms <= ? ORDER BY unix_ms"
    at_ms = begin_ms
    for at_ms, body in connection.execute(query, (set_id, begin_ms, until_ms)):  # noqa: B007  # the last one counts
        merge(table, decoded_frame(body))
    drop_absent(table)
    return at_ms, table


def _oldest_table(connection: sqlite3.Connection, set_id: int) -> OffsetFrame:
    query = "SELECT body FROM offset_tables WHERE set_id = ? AND is_newer = 0"
    return decoded_frame(connection.execute(query, (set_id,)).fetchone()[0])


def begin_tables(connection: sqlite3.Connection, stored: SetInFile, table: OffsetFrame, unix_ms: int) -> None:
    """Let a set begin with one table, without what was before it."""
    connection.execute("DELETE FROM changes WHERE set_id = ?", (stored.id,))
    stored.kept_bytes = 0
    body = encoded_frame(table)
    _write_table(connection, stored.id, is_newer=False, unix_ms=unix_ms, body=body)
    stored.oldest_ms = stored.last_ms = unix_ms
    write_newer(connection, stored, body, unix_ms)


def leave_out_later(connection: sqlite3.Connection, stored: SetInFile, table: OffsetFrame, unix_ms: int) -> None:
    """Leave out what is of a time to come, where the clock was ahead, and let this table be the newest."""
    assert stored.oldest_ms is not None, "it has a table"
    if stored.oldest_ms > unix_ms:
        begin_tables(connection, stored, table, unix_ms)
        return
    connection.execute("DELETE FROM changes WHERE set_id = ? AND unix_ms > ?", (stored.id, unix_ms))
    stored.kept_bytes = None
    query = "DELETE FROM offset_tables WHERE set_id = ? AND is_newer = 1 AND unix_ms > ?"
    connection.execute(query, (stored.id, unix_ms))
    stored.last_ms, former = table_at(connection, stored.id, None)
    if changed := difference(former, table):
        add_change(connection, stored, changed, unix_ms)
    write_newer(connection, stored, encoded_frame(table), stored.last_ms)


def add_change(connection: sqlite3.Connection, stored: SetInFile, change: OffsetFrame, unix_ms: int) -> None:
    """Add a change behind all others."""
    # Changes are in the order of their times, also where the clock is set back a little.
    stored.last_ms = max(unix_ms, stored.last_ms + 1)
    body = encoded_frame(change)
    query = "INSERT INTO changes (set_id, unix_ms, tier, body) VALUES (?, ?, 0, ?)"
    connection.execute(query, (stored.id, stored.last_ms, body))
    stored.change_bytes += len(body)
    stored.added(len(body))


def write_newer(connection: sqlite3.Connection, stored: SetInFile, body: bytes, unix_ms: int) -> None:
    """Write the newer table, which has all changes until a moment."""
    _write_table(connection, stored.id, is_newer=True, unix_ms=unix_ms, body=body)
    stored.newer_bytes, stored.change_bytes = len(body), 0


def _write_table(connection: sqlite3.Connection, set_id: int, *, is_newer: bool, unix_ms: int, body: bytes) -> None:
    connection.execute("REPLACE INTO offset_tables VALUES (?, ?, ?, ?)", (set_id, is_newer, unix_ms, body))


def merge_changes(
    connection: sqlite3.Connection, stored: SetInFile, changes: Iterable[StoredChange], tier: int
) -> None:
    """Let changes of a set become one of a tier."""
    *earlier, last = changes
    if not earlier:
        connection.execute("UPDATE changes SET tier = ? WHERE number = ?", (tier, last.number))
        return
    merged: OffsetFrame = {}
    for each in (*earlier, last):
        (body,) = connection.execute("SELECT body FROM changes WHERE number = ?", (each.number,)).fetchone()
        merge(merged, decoded_frame(body))
        stored.added(-len(body))
    connection.executemany("DELETE FROM changes WHERE number = ?", [(each.number,) for each in earlier])
    query, body = "UPDATE changes SET tier = ?, body = ? WHERE number = ?", encoded_frame(merged)
    connection.execute(query, (tier, body, last.number))
    stored.added(len(body))
