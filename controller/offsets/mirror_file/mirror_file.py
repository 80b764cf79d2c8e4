"""The mirror in a SQLite file of its own, used by one thread at a time; blocks.

Of each broker set it has two tables: the oldest one that is kept, and a newer one from which a start has not far to the
newest. Changes lie after the first, each with its time. Groups that stand still are not written. It is a copy of what
brokers have: a damaged file is moved aside, and the mirror begins anew.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MomentNotKept, PastOffsets
from controller.offsets.mirror.saved_offsets import SavedOffsets
from controller.offsets.mirror_file.clock_leaps import ClockLeap, ClockLeaps
from controller.offsets.mirror_file.frames import (
    UnreadableFrame,
    by_entry,
    decoded_frame,
    difference,
    encoded_frame,
    frame_of,
    saved_of,
    table_of,
)
from controller.offsets.mirror_file.table_rows import (
    SetInFile,
    add_change,
    begin_tables,
    change_ms_at,
    give_up,
    is_newer_table_due,
    kept_bytes,
    leave_out_later,
    merge_changes,
    stored_set,
    table_at,
    write_newer,
)
from controller.offsets.mirror_file.thinning import HOUR_MS, TIERS, StoredChange, merges, ready_before
from controller.offsets.mirror_file.updates import LoadedMirror, LoadedSet, MirrorUpdate, SetUpdate
from controller.offsets.mirror_file.went_back_rows import SCHEMA as WENT_BACK_SCHEMA
from controller.offsets.mirror_file.went_back_rows import (
    drop_rewinds,
    store_regressions,
    store_rewinds,
    stored_regressions,
    stored_rewinds,
)
from controller.offsets.storage.sqlite_file import FileDamaged, FileKind, FileOfOtherVersion, FileProblem, SqliteFile
from remoting.clock import Clock

FILE_NAME: Final = "mirror.db"
#: Takes the place of the file that was moved aside before.
ASIDE_SUFFIX: Final = ".moved-aside"
SCHEMA_VERSION: Final = 1
#: So much of the time that is kept is given up at once, and of the changes at least.
_GIVEN_UP_PART: Final = 16

_KIND: Final = FileKind(
    title="a mirror of brokers' offsets",
    application_id=0x524D_514D,
    schema_version=SCHEMA_VERSION,
    schema=(
        """CREATE TABLE IF NOT EXISTS sets (
            id INTEGER PRIMARY KEY, cluster TEXT NOT NULL, broker_name TEXT NOT NULL, read BLOB NOT NULL,
            absent_since_ms INTEGER, UNIQUE (cluster, broker_name)
        )""",
        # A table has a row for each of `is_newer` 0 and 1.
        """CREATE TABLE IF NOT EXISTS offset_tables (
            set_id INTEGER NOT NULL, is_newer INTEGER NOT NULL, unix_ms INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (set_id, is_newer)
        )""",
        """CREATE TABLE IF NOT EXISTS changes (
            number INTEGER PRIMARY KEY, set_id INTEGER NOT NULL, unix_ms INTEGER NOT NULL, tier INTEGER NOT NULL,
            body BLOB NOT NULL
        )""",
        "CREATE INDEX IF NOT EXISTS changes_in_order ON changes (set_id, unix_ms)",
        """CREATE TABLE IF NOT EXISTS former_runs (
            set_id INTEGER NOT NULL, place INTEGER NOT NULL, read BLOB NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (set_id, place)
        )""",
        "CREATE TABLE IF NOT EXISTS clock_leaps (at_ms INTEGER NOT NULL, by_ms INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS clock_readings (unix_ms INTEGER NOT NULL)",
        *WENT_BACK_SCHEMA,
    ),
    remedy="it is a copy of what brokers have, and is moved aside",
)

_ENCODER: Final = msgspec.msgpack.Encoder()
_READS: Final = msgspec.msgpack.Decoder(ReadState)


class OpenedMirror(NamedTuple):
    """The file, and what it has."""

    file: "MirrorFile"
    loaded: LoadedMirror
    #: What was wrong with the file that was moved aside; None if none was.
    moved_aside: str | None


class StoredUpdate(NamedTuple):
    """What a write has done."""

    #: Of the file, afterwards.
    used_bytes: int
    #: Sets whose clock was ahead: moments later than now are not kept of them any more.
    sets_set_back: int


def open_mirror(folder: Path, clock: Clock, damage: str | None = None) -> OpenedMirror:
    """Open the file, or make it; one that cannot be read, or whose damage is known, is moved aside.

    Raises FileProblem.
    """
    path = folder / FILE_NAME
    if damage is None:
        try:
            return _opened(path, clock, None)
        except (FileDamaged, FileOfOtherVersion) as error:
            damage = str(error)
    try:
        for end in ("", "-wal"):
            with suppress(FileNotFoundError):
                Path(f"{path}{end}").replace(f"{path}{ASIDE_SUFFIX}{end}")
    except OSError as error:
        raise FileProblem(path, f"it cannot be moved aside: {error}; check the folder and its owner") from None
    return _opened(path, clock, damage)


def _opened(path: Path, clock: Clock, moved_aside: str | None) -> OpenedMirror:
    file = MirrorFile(path, clock)
    try:
        return OpenedMirror(file, file.load(), moved_aside)
    except BaseException:
        file.close()
        raise


class MirrorFile:
    """The offsets of all broker sets in one file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open or make the file; raises FileProblem."""
        self._clock = clock
        self._file = SqliteFile(path, _KIND)
        # After a power failure the last seconds may be missing: they are read again.
        self._file.connection.execute("PRAGMA synchronous = NORMAL")
        self._stored: dict[SetName, SetInFile] = {}

    def kept_since(self, set_name: SetName) -> int | None:
        """Return the first moment that is kept of a set, Unix ms; None if none is."""
        stored = self._stored.get(set_name)
        return None if stored is None else stored.oldest_ms

    def used_bytes(self) -> int:
        """Return how much of the file is in use; raises FileProblem."""
        with self._reading() as connection:
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def load(self) -> LoadedMirror:
        """Return the newest state; raises FileProblem."""
        with self._reading() as connection:
            rows = connection.execute("SELECT id, cluster, broker_name, read, absent_since_ms FROM sets").fetchall()
            sets = [
                self._loaded_set(connection, SetName(cluster, broker_name), id_, read, absent_since_ms)
                for id_, cluster, broker_name, read, absent_since_ms in rows
            ]
            leaps = connection.execute("SELECT at_ms, by_ms FROM clock_leaps ORDER BY rowid")
            (clock_unix_ms,) = connection.execute("SELECT max(unix_ms) FROM clock_readings").fetchone()
            return LoadedMirror(
                sets=sets,
                regressions=stored_regressions(connection),
                leaps=ClockLeaps(tuple(ClockLeap(*row) for row in leaps)),
                clock_unix_ms=clock_unix_ms,
                rewinds=stored_rewinds(connection),
            )

    def store(self, update: MirrorUpdate) -> StoredUpdate:
        """Store what is new; raises FileProblem, and nothing of it is stored then."""
        with self._changing() as connection:
            for name in update.dropped:
                self._drop(connection, name)
            sets_set_back = sum(self._store_set(connection, name, each) for name, each in update.sets.items())
            for name, since_ms in update.absent_since_ms.items():
                query = "UPDATE sets SET absent_since_ms = ? WHERE cluster = ? AND broker_name = ?"
                connection.execute(query, (since_ms, *name))
            store_regressions(connection, update.regressions)
            store_rewinds(connection, update.rewinds)
        return StoredUpdate(used_bytes=self.used_bytes(), sets_set_back=sets_set_back)

    def at(self, set_name: SetName, unix_ms: int) -> PastOffsets:
        """Return the offsets of a moment; raises MomentNotKept and FileProblem."""
        with self._reading() as connection:
            stored = self._of(connection, set_name)
            if stored is None or stored.oldest_ms is None or unix_ms < stored.oldest_ms:
                since_ms = None if stored is None else stored.oldest_ms
                raise MomentNotKept(set_name, unix_ms, kept_since_unix_ms=since_ms)
            at_ms, table = table_at(connection, stored.id, unix_ms)
            return PastOffsets(unix_ms=at_ms, by_entry=by_entry(table))

    def store_clock(self, leaps: ClockLeaps, unix_ms: int) -> None:
        """Store where the clock has leapt until a reading of it; raises FileProblem, and nothing is changed then."""
        with self._changing() as connection:
            connection.execute("DELETE FROM clock_leaps")
            connection.executemany("INSERT INTO clock_leaps (at_ms, by_ms) VALUES (?, ?)", leaps.leaps)
            connection.execute("DELETE FROM clock_readings")
            connection.execute("INSERT INTO clock_readings (unix_ms) VALUES (?)", (unix_ms,))

    def thin(self, set_name: SetName, leaps: ClockLeaps, unix_ms: int) -> None:
        """Merge changes of a set that have grown old; raises FileProblem, and nothing is changed then."""
        with self._changing() as connection:
            if (stored := self._of(connection, set_name)) is None:
                return
            for tier, span in product(range(TIERS), leaps.spans(unix_ms)):
                query = (
                    "SELECT number, unix_ms FROM changes WHERE set_id = ? AND tier = ? AND unix_ms > ? AND unix_ms < ? "
                    "ORDER BY unix_ms"
                )
                before_ms = min(span.until_ms + 1, ready_before(tier, span.now_ms))
                found = connection.execute(query, (stored.id, tier, span.after_ms, before_ms)).fetchall()
                for together in merges(tier, (StoredChange(*row) for row in found)):
                    merge_changes(connection, stored, together.changes, tier + 1)
            give_up(connection, stored, leaps.old_before(unix_ms))

    def give_up_of_largest(self, leaps: ClockLeaps, unix_ms: int) -> bool:
        """Give up the oldest changes of the set whose changes take the most; return whether there were any.

        So a set that fills the file costs no other one its moments. Raises FileProblem, and nothing is changed then.
        """
        with self._changing() as connection:
            names = connection.execute("SELECT cluster, broker_name FROM sets").fetchall()
            sets = [stored for name in names if (stored := self._of(connection, SetName(*name)))]
            largest = max(sets, key=lambda each: kept_bytes(connection, each), default=None)
            if largest is None or not largest.kept_bytes:
                return False
            query = "SELECT min(unix_ms) FROM changes WHERE set_id = ?"
            oldest_ms = connection.execute(query, (largest.id,)).fetchone()[0]
            part_ms = leaps.age_ms(oldest_ms, unix_ms) // _GIVEN_UP_PART
            # Most of them may be within a small part of the time.
            until_ms = change_ms_at(connection, largest.id, _GIVEN_UP_PART)
            give_up(connection, largest, max(oldest_ms + part_ms, until_ms) + 1)
            return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._file.connection
        except sqlite3.Error as error:
            raise self._file.problem(error) from None
        except (UnreadableFrame, msgspec.DecodeError) as error:
            # Of bytes of the file alone: a table in memory that is not readable raises UnusableOffsets.
            raise self._file.damaged(str(error)) from None

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._file.transaction(self._clock.now_ms()) as connection, self._reading():
                yield connection
        except BaseException:
            # What it has was undone.
            self._stored.clear()
            raise

    def _loaded_set(
        self, connection: sqlite3.Connection, name: SetName, id_: int, read: bytes, absent_since_ms: int | None
    ) -> LoadedSet:
        self._of(connection, name)
        _, table = table_at(connection, id_, None)
        query = "SELECT read, body FROM former_runs WHERE set_id = ? ORDER BY place"
        runs = tuple(
            saved_of(decoded_frame(body), _READS.decode(run)) for run, body in connection.execute(query, (id_,))
        )
        return LoadedSet(name, saved_of(table, _READS.decode(read)), runs, absent_since_ms)

    def _of(self, connection: sqlite3.Connection, name: SetName) -> SetInFile | None:
        """Return what is stored of a set; None if nothing is."""
        if (stored := self._stored.get(name)) is None:
            query = "SELECT id FROM sets WHERE cluster = ? AND broker_name = ?"
            if (row := connection.execute(query, name).fetchone()) is None:
                return None
            stored = self._stored[name] = stored_set(connection, row[0])
        return stored

    def _store_set(self, connection: sqlite3.Connection, name: SetName, update: SetUpdate) -> bool:
        """Store what is new of a set; return whether moments of a time to come were left out."""
        read = _ENCODER.encode(update.saved.read)
        if (stored := self._of(connection, name)) is None:
            query = "INSERT INTO sets (cluster, broker_name, read) VALUES (?, ?, ?)"
            row_id = connection.execute(query, (*name, read)).lastrowid
            assert row_id is not None, "a row was inserted"
            stored = self._stored[name] = SetInFile(row_id, 0, None, 0, 0)
        else:
            connection.execute("UPDATE sets SET read = ? WHERE id = ?", (read, stored.id))
        unix_ms = update.saved.read.answered_unix_ms
        is_set_back = stored.oldest_ms is not None and unix_ms < stored.last_ms - HOUR_MS
        if is_set_back:
            leave_out_later(connection, stored, table_of(update.saved), unix_ms)
        elif stored.oldest_ms is None:
            begin_tables(connection, stored, table_of(update.saved), unix_ms)
        else:
            _store_changes(connection, stored, update)
        if update.former_runs is not None:
            _store_former_runs(connection, stored.id, update.former_runs)
        return is_set_back

    def _drop(self, connection: sqlite3.Connection, name: SetName) -> None:
        drop_rewinds(connection, name)
        if (stored := self._of(connection, name)) is not None:
            for table in ("offset_tables", "changes", "former_runs"):
                connection.execute(f"DELETE FROM {table} WHERE set_id = ?", (stored.id,))  # noqa: S608  # names above
            connection.execute("DELETE FROM sets WHERE id = ?", (stored.id,))
            del self._stored[name]


def _store_changes(connection: sqlite3.Connection, stored: SetInFile, update: SetUpdate) -> None:
    # The file may be of an earlier process, and this one could not open it before its first reading.
    if update.changes is None or any(each.former is None for each in update.changes):
        _, former = table_at(connection, stored.id, None)
        if changed := difference(former, table_of(update.saved)):
            add_change(connection, stored, changed, update.saved.read.answered_unix_ms)
    else:
        for change in update.changes:
            if changed := frame_of(change.moved):
                add_change(connection, stored, changed, change.now.answered_unix_ms)
    if is_newer_table_due(stored):
        write_newer(connection, stored, encoded_frame(table_of(update.saved)), stored.last_ms)


def _store_former_runs(connection: sqlite3.Connection, set_id: int, runs: Iterable[SavedOffsets]) -> None:
    connection.execute("DELETE FROM former_runs WHERE set_id = ?", (set_id,))
    rows = [
        (set_id, place, _ENCODER.encode(each.read), encoded_frame(table_of(each))) for place, each in enumerate(runs)
    ]
    connection.executemany("INSERT INTO former_runs VALUES (?, ?, ?, ?)", rows)
