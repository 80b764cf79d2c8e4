"""Readings on the disk: a file for each minute of a set, or for an hour in which nothing moves. The edge.

A file begins with a full table; what follows are the changes from reading to reading. So a damaged file, or the end of
one that a full disk has cut, harms nothing but its own minute. How much is kept goes by the number of files and not by
the clock, which may leap. All of it is optional: readings go on without a disk, and are told of once.

    magic | number of the frame, bytes of head and table, CRC of head and table (4 each) | head | table | number ...

Heads and tables are msgpack; entries of a table are packed by zlib. A minute of 10,000 queues, 5 % of which move
between two readings, takes 75 KB (all queues of some groups) to 350 KB (queues here and there).
"""

import asyncio
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, unquote

import msgspec

from offsets.readings.reading import Reading, ReadingHead, reading_of
from offsets.readings.table import StoredTable, TableOffsets
from offsets.values import GroupKind, SetName
from serving.durable_file import replace
from serving.logging.events import Level
from serving.telemetry.events import Event

#: Readings of a set that are all kept: an hour, of one each 5 s.
READINGS_MAX: Final = 720
#: Files with older ones, of which one for each hour is kept, with its first reading alone: 14 days.
HOURS_MAX: Final = 14 * 24
#: Frames that wait for the disk; with more of them the oldest are dropped.
WAITING_MAX: Final = 4096

_MAGIC: Final = b"RMQREADINGS 1\n"
_FRAME: Final = struct.Struct(">IIIII")
_HOUR_MS: Final = 3_600_000
_SUFFIX: Final = ".readings"
_PAUSE_S: Final = 0.2


class ReadingsNotKept(Event, frozen=True, kw_only=True):
    """Readings cannot be stored, as on a full disk; logged again if it recurs.

    Repairs need only the last minute, which is in memory; restores to a moment lack these readings.
    """

    level = Level.ERROR
    advice = "Free the disk of `storePath`, or lower `readingsBytesMax`."
    path: str
    problem: str


class ReadingFileSkipped(Event, frozen=True, kw_only=True):
    """A file of readings is damaged, or of another release: it is left alone and not read."""

    level = Level.WARNING
    advice = "Remove it. If there are more, check the disk."
    path: str
    problem: str


Part = TypeVar("Part", ReadingHead, StoredTable)
_NO_TABLE: Final = StoredTable(is_full=False, entries=b"")


class _Damaged(Exception):
    """A file is none of readings, or not a whole one."""


@dataclass(slots=True)
class _Minute:
    path: Path
    #: Of the readings in it.
    first_unix_ms: int
    last_unix_ms: int
    bytes: int
    #: Of its first frame with what is before.
    full_bytes: int
    #: Readings in it.
    frames: int


@dataclass(slots=True)
class _Job:
    """Something for the thread to do to a file: the first of these that is given."""

    path: Path
    #: To be appended, or to replace what the file has.
    frame: bytes | None = None
    is_new: bool = False
    #: The file is cut to so many bytes, and removed for 0.
    size: int = 0
    error: str = ""


@dataclass(slots=True)
class _SetFiles:
    """The files of one set, the oldest first."""

    minutes: list[_Minute] = field(default_factory=list)
    #: A frame of the newest file is missing: none may follow before the next full one.
    is_cut: bool = True

    @property
    def size_bytes(self) -> int:
        return sum(minute.bytes for minute in self.minutes)


class ReadingFiles:
    """All files of readings below one folder."""

    def __init__(self, folder: Path, bytes_max: int, emit: Callable[[Event], None]) -> None:
        self._folder, self._bytes_max, self._emit = folder, bytes_max, emit
        self._sets: dict[SetName, _SetFiles] = {}
        self._jobs: list[_Job] = []
        self._is_failing = False
        self._writing = asyncio.Lock()

    @property
    def size_bytes(self) -> int:
        """What all files take, with those that wait to be written."""
        return sum(files.size_bytes for files in self._sets.values())

    async def load(self) -> Mapping[SetName, list[ReadingHead]]:
        """Find all files; return the heads that each set has, the oldest first. A file that is skipped is told."""
        found, skipped = await asyncio.to_thread(_find_all, self._folder)
        for name, heads in found.items():
            self._sets[name] = _SetFiles([minute for minute, _ in heads])
        for event in skipped:
            self._emit(event)
        return {name: [head for _, mine in heads for head in mine] for name, heads in found.items()}

    def append(self, set_name: SetName, head: ReadingHead, table: StoredTable) -> None:
        """Store a reading soon: behind the one before, or in a file of its own if its table is full."""
        files = self._sets.setdefault(set_name, _SetFiles())
        first, second = msgspec.msgpack.encode(head), msgspec.msgpack.encode(table)
        number = 0 if table.is_full or not files.minutes else files.minutes[-1].frames
        frame = _FRAME.pack(number, len(first), len(second), zlib.crc32(first), zlib.crc32(second)) + first + second
        if table.is_full:
            unix_ms = max(head.ended_unix_ms, files.minutes[-1].first_unix_ms + 1 if files.minutes else 0)
            path = self._folder / _folder_name(set_name) / f"{unix_ms:013d}{_SUFFIX}"
            frame = _MAGIC + frame
            files.minutes.append(_minute(path, [head], len(frame), 0))
            files.minutes[-1].frames = 0
            files.is_cut = False
        if files.is_cut:
            return
        minute = files.minutes[-1]
        minute.last_unix_ms = head.ended_unix_ms
        minute.bytes += len(frame)
        minute.frames += 1
        self._start(_Job(minute.path, frame))
        if table.is_full:
            self._thin(files)

    def write_lines(self, path: Path, lines: bytes, *, is_new: bool) -> None:
        """Append lines to another file soon, or replace what it has."""
        self._start(_Job(path, lines, is_new=is_new))

    def moments(self, set_name: SetName) -> list[int]:
        """Return when the readings were taken that files begin with, and the newest one: Unix ms, the oldest first."""
        minutes = self._sets.get(set_name, _SetFiles()).minutes
        return [minute.first_unix_ms for minute in minutes] + [minute.last_unix_ms for minute in minutes[-1:]]

    def read(self, set_name: SetName, unix_ms: int, began_ms: int) -> Reading | None:
        """Return the newest reading at or before a moment; a damaged file is passed over, and told.

        `began_ms` is what stands for the monotonic time of the reading, which no other process knows.
        """
        for minute in reversed(self._sets.get(set_name, _SetFiles()).minutes):
            if minute.first_unix_ms > unix_ms:
                continue
            tables: list[StoredTable] = []
            newest: ReadingHead | None = None
            kinds: Mapping[str, GroupKind] = {}
            try:
                for head, table, _ in _frames(minute.path, with_tables=True):
                    if head.ended_unix_ms > unix_ms:
                        break
                    newest, kinds = head, head.kinds or kinds
                    tables.append(table)
                if newest is not None:
                    offsets, ended_ms = TableOffsets(tuple(tables)), began_ms + newest.ended_ms - newest.began_ms
                    len(offsets)
                    return reading_of(newest, set_name, offsets, kinds=kinds, began_ms=began_ms, ended_ms=ended_ms)
            except FileNotFoundError:
                # It waits to be written.
                continue
            except (OSError, _Damaged, zlib.error) as error:
                self._emit(ReadingFileSkipped(path=str(minute.path), problem=str(error)))
        return None

    async def run(self) -> None:
        """Write what waits, for ever."""
        while True:
            await self.flush()
            await asyncio.sleep(_PAUSE_S)

    async def flush(self) -> None:
        """Write what waits; what is being written is on the disk too when this returns."""
        async with self._writing:
            jobs, self._jobs = self._jobs, []
            if jobs:
                await asyncio.to_thread(_perform, jobs)
        for job in jobs:
            if job.error:
                self._failed(job, job.error)
            elif job.frame is not None:
                self._is_failing = False

    def _start(self, job: _Job) -> None:
        self._jobs.append(job)
        if len(self._jobs) > WAITING_MAX:
            self._failed(self._jobs.pop(0), "the disk is too slow")

    def _failed(self, job: _Job, problem: str) -> None:
        """Take that something was not written: what would follow it in its file is not written either."""
        if not self._is_failing:
            self._emit(ReadingsNotKept(path=str(job.path), problem=problem))
        self._is_failing = True
        for files in self._sets.values():
            if files.minutes and files.minutes[-1].path == job.path:
                files.is_cut = True

    def _thin(self, files: _SetFiles) -> None:
        """Let the oldest minute become the one of its hour, or go; forget what is too much."""
        newer = list(accumulate(minute.frames for minute in reversed(files.minutes)))
        older = files.minutes[: -bisect_left(newer, READINGS_MAX) - 1]
        for former, minute in zip([None, *older], older, strict=False):
            if former is not None and former.first_unix_ms // _HOUR_MS == minute.first_unix_ms // _HOUR_MS:
                self._remove(files, minute)
            elif minute.bytes > minute.full_bytes:
                minute.bytes, minute.frames, minute.last_unix_ms = minute.full_bytes, 1, minute.first_unix_ms
                self._start(_Job(minute.path, size=minute.full_bytes))
        if len(older) > HOURS_MAX:
            self._remove(files, files.minutes[0])
        while self.size_bytes > self._bytes_max:
            most = max(self._sets.values(), key=attrgetter("size_bytes"))
            if len(most.minutes) < 2:  # noqa: PLR2004  # the newest is being written
                break
            self._remove(most, most.minutes[0])

    def _remove(self, files: _SetFiles, minute: _Minute) -> None:
        if minute is files.minutes[-1]:
            files.is_cut = True
        files.minutes.remove(minute)
        self._start(_Job(minute.path))


def _find_all(
    folder: Path,
) -> tuple[dict[SetName, list[tuple[_Minute, list[ReadingHead]]]], list[ReadingFileSkipped]]:
    """Return the files of all sets with their heads, and those that are skipped."""
    sets: dict[SetName, list[tuple[_Minute, list[ReadingHead]]]] = {}
    skipped = []
    for path in sorted(folder.glob(f"*@*/*{_SUFFIX}")):
        try:
            found = list(_frames(path, with_tables=False))
            size = path.stat().st_size
        except (OSError, _Damaged) as error:
            skipped.append(ReadingFileSkipped(path=str(path), problem=str(error)))
            continue
        if not found:
            skipped.append(ReadingFileSkipped(path=str(path), problem="it has no whole reading"))
            continue
        heads = [head for head, _, _ in found]
        minute = _minute(path, heads, found[0][2], size)
        cluster, _, broker_name = path.parent.name.partition("@")
        sets.setdefault(SetName(unquote(cluster), unquote(broker_name)), []).append((minute, heads))
    return sets, skipped


def _perform(jobs: list[_Job]) -> None:
    """Do all jobs; note what fails. A frame behind one that failed is left out."""
    failed: set[Path] = set()
    for job in jobs:
        try:
            if job.frame is not None:
                if job.path not in failed:
                    _append(job.path, job.frame, is_new=job.is_new)
            else:
                with suppress(FileNotFoundError):
                    os.truncate(job.path, job.size) if job.size else job.path.unlink()
        except (OSError, _Damaged) as error:
            job.error = str(error)
            failed.add(job.path)


def _append(path: Path, content: bytes, *, is_new: bool) -> None:
    """Append to a file, or write it anew: everything, or nothing at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_new:
        replace(path, content)
        return
    with path.open("ab", buffering=0) as file:
        before, written = file.tell(), 0
        try:
            written = file.write(content)
        finally:
            if written < len(content):
                file.truncate(before)
    if written < len(content):
        raise OSError("the disk took a part of it")


def _frames(path: Path, *, with_tables: bool) -> Iterator[tuple[ReadingHead, StoredTable, int]]:
    """Yield the heads of a file, each with its table, or an empty one, and where its frame ends.

    Ends before a frame that was cut, or that follows one that is missing; raises _Damaged for bytes that are no frame.
    """
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise _Damaged("it is no file of readings, or of another release")
        size, expected = os.fstat(file.fileno()).st_size, 0
        while len(prefix := file.read(_FRAME.size)) == _FRAME.size:
            number, head_bytes, table_bytes, head_crc, table_crc = _FRAME.unpack(prefix)
            if (end := file.tell() + head_bytes + table_bytes) > size or number != expected:
                return
            expected += 1
            head = _part(file.read(head_bytes), head_crc, ReadingHead)
            yield head, _part(file.read(table_bytes), table_crc, StoredTable) if with_tables else _NO_TABLE, end
            file.seek(end)


def _part(content: bytes, crc: int, kind: type[Part]) -> Part:
    if zlib.crc32(content) != crc:
        raise _Damaged("it has other bytes than were written")
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _Damaged(f"a reading of it cannot be decoded: {error}") from None


def _minute(path: Path, heads: list[ReadingHead], full_bytes: int, size: int) -> _Minute:
    first = heads[0]
    return _Minute(
        path=path,
        first_unix_ms=first.ended_unix_ms,
        last_unix_ms=heads[-1].ended_unix_ms,
        bytes=size,
        full_bytes=full_bytes,
        frames=len(heads),
    )


def _folder_name(set_name: SetName) -> str:
    return "@".join(quote(name, safe="") for name in set_name)
