"""Files that rows are written to: one growing file a family, sealed by a rename, of whole lines whatever happens.

`landing/v1/family=F/date=YYYY-MM-DD/hour=HH/<ns_id>-<boot_ms>-<seq>.jsonl`; while it grows, `.<name>.part` beside. All
of it blocks on the disk and belongs to the recorder's thread. Every failure is an OSError, or a group of them; then the
file ends where it ended before the call.
"""

import contextlib
import fcntl
import glob
import gzip
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import IO, Final

import msgspec

from history.schemas import COMPRESSED, FAMILIES, NS_TICK
from history.times import time_of, unix_us

LANDING: Final = "landing/v1"
PART: Final = ".part"
#: A file is sealed when it is this old or this long.
SEAL_AFTER_US: Final = 300_000_000
SEAL_BYTES: Final = 64 * 1024 * 1024
#: How far back the previous process is looked for.
_FORMER_US: Final = 2 * 24 * 3_600_000_000
_EPOCH_DAY: Final = date(1970, 1, 1)
_READ_AT_ONCE: Final = 65_536
#: For zlib: the data is a gzip file.
_GZIP_BITS: Final = 31


class RowsLost(OSError):
    """A file was deleted while it was written to; its rows are lost."""

    def __init__(self, path: Path, family: str, rows: int, since_us: int) -> None:
        self.path, self.family, self.rows, self.since_us = path, family, rows, since_us
        super().__init__(f"{path} was deleted while it was written to; {rows} rows of {family} are lost")


class _Growing:
    def __init__(self, path: Path, opened_us: int) -> None:
        self.path = path
        self.opened_us = opened_us
        self.file: IO[bytes] = self._locked()
        while self.is_deleted:
            # Another process took it for the empty file of one that has ended, before it was locked.
            self.file.close()
            self.file = self._locked()
        self.size = 0
        self.rows = 0

    def _locked(self) -> IO[bytes]:
        file = self._made()
        try:
            # A process that can lock the file knows that its writer has ended.
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            file.close()
            self.part.unlink(missing_ok=True)
            raise
        return file

    def _made(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return self.part.open("xb", buffering=0)
        # Retention has just deleted the empty folder.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.part.open("xb", buffering=0)

    @property
    def part(self) -> Path:
        return self.path.with_name(f".{self.path.name}{PART}")

    @property
    def is_deleted(self) -> bool:
        """True if the file has no name any more: what is written to it is lost."""
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
        """Take the history's folder, and what the names of the files begin with.

        Names begin with `<host>:<port>-<boot_ms>`. A process without a port has a name, `<name>-<boot_ms>`, and seals
        only the files of processes of that name.
        """
        self._root = folder / LANDING
        self._boot_id = file_name(boot_id)
        host, port, _ = boot_id.rpartition(":")
        #: How the files begin that a process of this host may seal.
        self._inherited = f"{file_name(host)}_" if port else f"{self._boot_id.rpartition('-')[0]}-"
        self._growing: dict[str, _Growing] = {}
        self._number = 0

    @property
    def opened_us(self) -> int | None:
        """When the oldest file was begun that is not sealed, Unix us; None if there is none. Any thread may call."""
        return min((each.opened_us for each in list(self._growing.values())), default=None)

    def append(self, family: str, lines: bytes, unix_us: int) -> None:
        """Write whole lines of a family, all of the hour of that time, which is that of the first.

        Raises OSError, or RowsLost if what was written before is lost; then the lines are still to be written.
        """
        growing = self._growing.get(family)
        if growing is not None and growing.is_deleted:
            self._lose(family)
        elif growing is not None and (growing.size >= SEAL_BYTES or _hour(growing.opened_us) != _hour(unix_us)):
            # Readers of an hour open no other hours. All that may fail comes before the lines are written: after a
            # failure the caller writes them again.
            self._seal(family)
        growing = self._growing.get(family) or self._begin(family, unix_us)
        growing.append(lines)

    def _begin(self, family: str, unix_us: int) -> _Growing:
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
        for family, growing in list(self._growing.items()):
            is_old = unix_us - growing.opened_us >= SEAL_AFTER_US or _hour(unix_us) != _hour(growing.opened_us)
            if is_old:
                self._seal(family)

    def seal_all(self) -> None:
        """Seal everything that the disk allows; raises an ExceptionGroup of the rest."""
        failed = []
        for family in list(self._growing):
            try:
                self._seal(family)
            except OSError as error:
                failed.append(error)
        if failed:
            raise ExceptionGroup("; ".join(map(str, failed)), failed)

    def _seal(self, family: str) -> None:
        growing = self._growing[family]
        os.fsync(growing.file.fileno())
        try:
            _rename_finished(growing.part, growing.path, compressed=family in COMPRESSED)
        except FileNotFoundError:
            self._lose(family)
            return
        # From here on the file belongs to ingest, whatever fails.
        growing.file.close()
        del self._growing[family]
        _sync_folder(growing.path.parent)

    def recover(self, first: date = date.min) -> list[Path]:
        """Seal the files that ended processes of this host left from a day on, cut at the last whole line.

        Returns the files. Files of other hosts are left alone: not every shared file system shows locks that are held
        there.
        """
        found = []
        for folder in self._hours(first):
            for part in folder.glob(f".{glob.escape(self._inherited)}*{PART}"):
                # Files of another user are left alone.
                with contextlib.suppress(FileNotFoundError, BlockingIOError, PermissionError):
                    found += _recovered(part)
        return found

    def _hours(self, first: date = date.min) -> list[Path]:
        days = (day for day in self._root.glob("family=*/date=*") if date_of(day / "hour") >= first)
        return [hour for day in days for hour in sorted(day.glob("hour=*"))]


def sealed_files(folder: Path, family: str, first: datetime, last: datetime) -> Iterator[Path]:
    """Yield the files of a family that may hold rows between two times, growing ones too, hour by hour.

    A file lies where its first row belongs, and may have some rows of the next hour, so the hour before is looked at
    as well.
    """
    assert family in FAMILIES, f"there is no family {family}"
    place = folder / LANDING / f"family={family}"
    names = (".jsonl", ".jsonl.gz", f".jsonl{PART}")
    from_hour, to_hour = _hour(unix_us(first)) - 1, _hour(unix_us(last))
    hours = []
    for day in place.glob("date=*"):
        number = (date_of(day / "hour") - _EPOCH_DAY).days * 24
        if from_hour - 24 < number <= to_hour:
            hours += [(number + _hour_of(hour), hour) for hour in day.glob("hour=*")]
    for number, hour in sorted(hours):
        if from_hour <= number <= to_hour:
            with contextlib.suppress(FileNotFoundError):
                yield from sorted(path for path in hour.iterdir() if path.name.endswith(names))


def lines_of(path: Path) -> Iterable[bytes]:
    """Return the whole lines of a file; a torn one at its end is left out, and what cannot be decompressed too."""
    with contextlib.suppress(FileNotFoundError):
        data = path.read_bytes()
        if path.name.endswith(".gz"):
            data = _decompressed(data)
        return data[: data.rfind(b"\n") + 1].splitlines()
    # It was sealed a moment ago, and has its final name.
    sealed = path.with_name(path.name.removeprefix(".").removesuffix(PART))
    compressed = sealed.with_name(sealed.name + ".gz")
    present = next((each for each in (sealed, compressed) if each != path and each.exists()), None)
    return () if present is None else lines_of(present)


class _Tick(msgspec.Struct):
    event_time: datetime
    boot_id: str


def former_process(folder: Path, boot_id: str, now_us: int) -> tuple[str, int] | None:
    """Return the boot_id of this server's previous process, and its last tick, Unix us; None without one in 2 days."""
    first, last = (time_of(each) for each in (now_us - _FORMER_US, now_us))
    mine = boot_id.rpartition("-")[0]
    latest: tuple[int, str] | None = None
    for path in sealed_files(folder, NS_TICK.name, first, last):
        if not path.name.removeprefix(".").startswith(f"{mine}-"):
            continue
        for line in list(lines_of(path))[-1:]:
            with contextlib.suppress(msgspec.DecodeError):
                tick = msgspec.json.decode(line, type=_Tick)
                seen = (unix_us(tick.event_time), tick.boot_id)
                latest = max(latest or seen, seen)
    return None if latest is None else (latest[1], latest[0])


def file_name(text: str) -> str:
    """Return a text as part of a file name that every file system and Hadoop take."""
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in text)


def date_of(hour: Path) -> date:
    """Return the day of an hour's folder; the last of all days for what is no folder of ours."""
    with contextlib.suppress(ValueError):
        return date.fromisoformat(hour.parent.name.removeprefix("date="))
    return date.max


def _hour(unix_us: int) -> int:
    return unix_us // 3_600_000_000


def _hour_of(hour: Path) -> int:
    text = hour.name.removeprefix("hour=")
    return int(text) if text.isdecimal() else 0


def _recovered(part: Path) -> list[Path]:
    """Seal a file whose writer has ended; raises BlockingIOError if it has not."""
    with part.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Up to the last whole line.
        end = file.read().rfind(b"\n") + 1
        file.truncate(end)
        if not end:
            part.unlink()
            return []
        os.fsync(file.fileno())
        family = part.parents[2].name.removeprefix("family=")
        path = _rename_finished(part, part.with_name(part.name[1 : -len(PART)]), compressed=family in COMPRESSED)
        _sync_folder(path.parent)
        return [path]


def _rename_finished(part: Path, path: Path, *, compressed: bool) -> Path:
    """Give a finished file its name, compressed if its family is: it appears whole or not at all."""
    if compressed:
        # The name of the compressed file begins with a dot, too, until it is complete.
        compressed_file = part.with_name(part.name + ".gz")
        with part.open("rb") as source, gzip.open(compressed_file, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target)
        with compressed_file.open("rb") as file:
            os.fsync(file.fileno())
        path = path.with_name(path.name + ".gz")
        compressed_file.rename(path)
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


def _decompressed(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=_GZIP_BITS)
    pieces: list[bytes] = []
    pieces_in = (data[first : first + _READ_AT_ONCE] for first in range(0, len(data), _READ_AT_ONCE))
    with contextlib.suppress(zlib.error):
        # Up to where the file is torn.
        pieces.extend(map(decompressor.decompress, pieces_in))
    return b"".join(pieces)
