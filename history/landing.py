"""Files that rows land in: one growing file a family, sealed by a rename, whole lines only whatever happens.

`landing/v1/family=F/date=YYYY-MM-DD/hour=HH/<ns_id>-<boot_ms>-<seq>.jsonl`; while it grows, `.<name>.part` beside. All
of it blocks on the disk and belongs to the recorder's thread. Every failure is an OSError of the caller's; then the
file ends where it ended before the call.

Who stores the files as Parquet deletes them, once they are stored and old. Here is only the last resort: a limit of age
and of size, so that a server without analyses does not fill its disk.
"""

import contextlib
import fcntl
import glob
import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Final, NamedTuple

from history.schemas import FAMILIES, HEARTBEAT, HEARTBEAT_SUMMARY, ROUTE_SNAPSHOT
from history.times import unix_us

LANDING: Final = "landing/v1"
PART: Final = ".part"
#: A file is sealed when it is this old or this long.
SEAL_AFTER_US: Final = 300_000_000
SEAL_BYTES: Final = 64 * 1024 * 1024
#: Days that files are kept at most, whether anybody has read them or not.
DAYS_MAX: Final = 31
#: Bytes that all files of a folder may have together; then the oldest beats go, and after all beats what else is old.
BYTES_MAX: Final = 16 * 1024**3
#: And so much of their disk, on which other things have to have room.
DISK_SHARE_MAX: Final = 0.5
#: Long rows that repeat much.
_COMPRESSED: Final = frozenset({ROUTE_SNAPSHOT.name})
_BEATS: Final = frozenset({HEARTBEAT.name, HEARTBEAT_SUMMARY.name})
_EPOCH_DAY: Final = date(1970, 1, 1)
_PACKED_AT_ONCE: Final = 65_536
#: Tells zlib that its data is a gzip file.
_GZIP_BITS: Final = 31


class RowsLost(OSError):
    """Somebody deleted a file while it was written to; its rows are gone."""

    def __init__(self, path: Path, family: str, rows: int, since_us: int) -> None:
        self.path, self.family, self.rows, self.since_us = path, family, rows, since_us
        super().__init__(f"{path} was deleted while it was written to; {rows} rows of {family} are lost")


class Forgotten(NamedTuple):
    """Files that were deleted though nobody may have read them."""

    #: `age` or `size`.
    reason: str
    files: int
    size_bytes: int


class _Growing:
    """A file that is written to."""

    def __init__(self, path: Path, opened_us: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.opened_us = opened_us
        self.file: IO[bytes] = self.part.open("xb", buffering=0)
        try:
            # Whoever finds the file and can lock it knows that its writer is gone.
            fcntl.flock(self.file, fcntl.LOCK_EX)
        except OSError:
            self.file.close()
            self.part.unlink(missing_ok=True)
            raise
        self.size = 0
        self.rows = 0

    @property
    def part(self) -> Path:
        """Where it is as long as it grows."""
        return self.path.with_name(f".{self.path.name}{PART}")

    @property
    def is_deleted(self) -> bool:
        """Tell whether nobody will ever find what is written."""
        return os.fstat(self.file.fileno()).st_nlink == 0

    def append(self, lines: bytes) -> None:
        """Write whole lines; raises OSError, and then the file is as before."""
        try:
            written = 0
            while written < len(lines):
                written += self.file.write(memoryview(lines)[written:])
        except OSError:
            with contextlib.suppress(OSError):
                self.file.truncate(self.size)
                self.file.seek(self.size)
            raise
        self.size += len(lines)
        self.rows += lines.count(b"\n")


class Landing:
    """The files of one process."""

    def __init__(self, folder: Path, boot_id: str) -> None:
        """Take the history's folder and what the names of the files begin with: `<host>:<port>-<boot_ms>`."""
        self._root = folder / LANDING
        self._boot_id = file_name(boot_id)
        self._host = f"{file_name(boot_id.rpartition(':')[0])}_"
        self._growing: dict[str, _Growing] = {}
        self._number = 0

    @property
    def opened_us(self) -> int | None:
        """When the oldest file was begun that is not sealed, Unix us; None if there is none. Any thread may ask."""
        return min((each.opened_us for each in list(self._growing.values())), default=None)

    def append(self, family: str, lines: bytes, unix_us: int) -> None:
        """Write whole lines of a family, all of the hour of that time, which is that of the first.

        Raises RowsLost if what was written before is gone; then the lines are still to be written.
        """
        growing = self._growing.get(family)
        if growing is not None and growing.is_deleted:
            self._lose(family)
        elif growing is not None and _hour(growing.opened_us) != _hour(unix_us):
            # Whoever asks for an hour does not look into all later and earlier ones.
            self._seal(family)
        growing = self._growing.get(family) or self._begun(family, unix_us)
        growing.append(lines)
        if growing.size >= SEAL_BYTES:
            self._seal(family)

    def _begun(self, family: str, unix_us: int) -> _Growing:
        hour = datetime.fromtimestamp(unix_us // 1_000_000, UTC)
        folder = self._root / f"family={family}" / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
        self._number += 1
        growing = self._growing[family] = _Growing(folder / f"{self._boot_id}-{self._number}.jsonl", unix_us)
        return growing

    def _lose(self, family: str) -> None:
        growing = self._growing.pop(family)
        growing.file.close()
        if growing.rows:
            raise RowsLost(growing.path, family, growing.rows, growing.opened_us)

    def seal_old(self, unix_us: int) -> None:
        """Seal what is old enough, or of another hour."""
        for family, growing in list(self._growing.items()):
            is_old = unix_us - growing.opened_us >= SEAL_AFTER_US or _hour(unix_us) != _hour(growing.opened_us)
            if is_old:
                self._seal(family)

    def seal_all(self) -> None:
        """Seal everything, as far as the disk lets that be done; the process ends."""
        failed: OSError | None = None
        for family in list(self._growing):
            try:
                self._seal(family)
            except OSError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _seal(self, family: str) -> None:
        growing = self._growing[family]
        os.fsync(growing.file.fileno())
        try:
            _settle(growing.part, growing.path, compressed=family in _COMPRESSED)
        except FileNotFoundError:
            self._lose(family)
            return
        # From here on it is another's file, whatever comes.
        growing.file.close()
        del self._growing[family]
        _sync_folder(growing.path.parent)

    def recover(self, first: date = date.min) -> list[Path]:
        """Seal what processes of this host that are gone have left behind from a day on, cut at the last whole line.

        Returns the files. Other hosts' processes look after themselves: not every shared file system tells us here that
        they hold a lock there.
        """
        found = []
        for folder in self._hours(first):
            for part in folder.glob(f".{glob.escape(self._host)}*{PART}"):
                # What belongs to another user is that one's.
                with contextlib.suppress(FileNotFoundError, BlockingIOError, PermissionError):
                    found += _recovered(part)
        return found

    def forget_old(self, today: date) -> list[Forgotten]:
        """Delete days that are kept no longer, and the oldest files if all together are too many."""
        first = today - timedelta(days=DAYS_MAX)
        old = [folder for folder in self._hours() if _date_of(folder) < first]
        forgotten = [_deleted("age", old)]
        sizes = {folder: _size_of(folder)[1] for folder in self._hours() if _date_of(folder) <= today}
        excess = sum(sizes.values()) - self._bytes_max() if sizes else 0
        large = []
        for folder in sorted(sizes, key=_worth) if excess > 0 else []:
            # Where somebody writes, nothing is taken away.
            if excess > 0 and not any(folder.glob(f".*{PART}")):
                excess -= sizes[folder]
                large.append(folder)
        forgotten.append(_deleted("size", large))
        return [each for each in forgotten if each.files]

    def _bytes_max(self) -> int:
        return min(BYTES_MAX, int(shutil.disk_usage(self._root).total * DISK_SHARE_MAX))

    def _hours(self, first: date = date.min) -> list[Path]:
        """Return all folders of hours, from a day on."""
        days = (day for day in self._root.glob("family=*/date=*") if _date_of(day / "hour") >= first)
        return [hour for day in days for hour in sorted(day.glob("hour=*"))]


def sealed_files(folder: Path, family: str, first: datetime, last: datetime) -> Iterator[Path]:
    """Yield the files of a family that may hold rows of a time, those that still grow too, hour by hour.

    A file lies where its first row belongs, and may have some rows of the next hour, so the hour before is looked at
    as well.
    """
    assert family in FAMILIES, f"there is no family {family}"
    place = folder / LANDING / f"family={family}"
    names = (".jsonl", ".jsonl.gz", f".jsonl{PART}")
    from_hour, to_hour = _hour(unix_us(first)) - 1, _hour(unix_us(last))
    hours = []
    for day in place.glob("date=*"):
        number = (_date_of(day / "hour") - _EPOCH_DAY).days * 24
        if from_hour - 24 < number <= to_hour:
            hours += [(number + _hour_of(hour), hour) for hour in day.glob("hour=*")]
    for number, hour in sorted(hours):
        if from_hour <= number <= to_hour:
            with contextlib.suppress(FileNotFoundError):
                yield from sorted(path for path in hour.iterdir() if path.name.endswith(names))


def lines_of(path: Path) -> Iterable[bytes]:
    """Return the whole lines of a file; a torn one at its end is left out, and what cannot be unpacked too."""
    with contextlib.suppress(FileNotFoundError):
        data = path.read_bytes()
        if path.name.endswith(".gz"):
            data = _unpacked(data)
        return data[: data.rfind(b"\n") + 1].splitlines()
    # It was sealed a moment ago, under its own name.
    sealed = path.with_name(path.name.removeprefix(".").removesuffix(PART))
    compressed = sealed.with_name(sealed.name + ".gz")
    present = next((each for each in (sealed, compressed) if each != path and each.exists()), None)
    return () if present is None else lines_of(present)


def file_name(text: str) -> str:
    """Return a text as part of a file name that every file system and Hadoop take."""
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in text)


def _hour(unix_us: int) -> int:
    return unix_us // 3_600_000_000


def _date_of(hour: Path) -> date:
    """Return the day of an hour's folder; the last of all days for what is no folder of ours."""
    with contextlib.suppress(ValueError):
        return date.fromisoformat(hour.parent.name.removeprefix("date="))
    return date.max


def _hour_of(hour: Path) -> int:
    text = hour.name.removeprefix("hour=")
    return int(text) if text.isdecimal() else 0


def _worth(hour: Path) -> tuple[bool, date, str]:
    """Return the order in which hours are given up: beats are most of the bytes, and no route depends on them."""
    return hour.parents[1].name.removeprefix("family=") not in _BEATS, _date_of(hour), hour.name


def _size_of(hour: Path) -> tuple[int, int]:
    """Return how many files an hour has, and their bytes."""
    sizes = []
    with contextlib.suppress(FileNotFoundError), os.scandir(hour) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                sizes.append(entry.stat().st_size)
    return len(sizes), sum(sizes)


def _deleted(reason: str, hours: Iterable[Path]) -> Forgotten:
    files = size_bytes = 0
    for hour in hours:
        found = _size_of(hour)
        shutil.rmtree(hour, ignore_errors=True)
        left = _size_of(hour)
        files, size_bytes = files + found[0] - left[0], size_bytes + found[1] - left[1]
        with contextlib.suppress(OSError):
            # The day goes with its last hour.
            hour.parent.rmdir()
    return Forgotten(reason, files, size_bytes)


def _recovered(part: Path) -> list[Path]:
    """Seal a file whose writer is gone; raises BlockingIOError if it is not."""
    with part.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _cut_torn_line(file):
            part.unlink()
            return []
        os.fsync(file.fileno())
        family = part.parents[2].name.removeprefix("family=")
        path = _settle(part, part.with_name(part.name[1 : -len(PART)]), compressed=family in _COMPRESSED)
        _sync_folder(path.parent)
        return [path]


def _cut_torn_line(file: IO[bytes]) -> bool:
    """Cut a file behind its last whole line; tell whether anything is left."""
    data = file.read()
    end = data.rfind(b"\n") + 1
    file.truncate(end)
    return end > 0


def _settle(part: Path, path: Path, *, compressed: bool) -> Path:
    """Give a finished file its name, so that it is there whole or not at all."""
    if compressed:
        # The name of what is packed begins with a dot, too, until all of it is there.
        packed = part.with_name(part.name + ".gz")
        with part.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)
        with packed.open("rb") as file:
            os.fsync(file.fileno())
        path = path.with_name(path.name + ".gz")
        packed.rename(path)
        part.unlink()
    else:
        part.rename(path)
    return path


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unpacked(data: bytes) -> bytes:
    """Return what can be unpacked of a compressed file."""
    unpacking = zlib.decompressobj(wbits=_GZIP_BITS)
    unpacked = b""
    with contextlib.suppress(zlib.error):
        for first in range(0, len(data), _PACKED_AT_ONCE):
            unpacked += unpacking.decompress(data[first : first + _PACKED_AT_ONCE])
    return unpacked
