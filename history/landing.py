"""Files that rows land in: one growing file a family, sealed by a rename, whole lines only whatever happens.

`landing/v1/family=F/date=YYYY-MM-DD/hour=HH/<ns_id>-<boot_ms>-<seq>.jsonl`; while it grows, `.<name>.part` beside. All
of it blocks on the disk and belongs to the recorder's thread. Every failure is an OSError of the caller's, or a group
of them; then the file ends where it ended before the call.
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

from history.schemas import COMPRESSED, FAMILIES
from history.times import unix_us

LANDING: Final = "landing/v1"
PART: Final = ".part"
#: A file is sealed when it is this old or this long.
SEAL_AFTER_US: Final = 300_000_000
SEAL_BYTES: Final = 64 * 1024 * 1024
_EPOCH_DAY: Final = date(1970, 1, 1)
_PACKED_AT_ONCE: Final = 65_536
#: Tells zlib that its data is a gzip file.
_GZIP_BITS: Final = 31


class RowsLost(OSError):
    """Somebody deleted a file while it was written to; its rows are gone."""

    def __init__(self, path: Path, family: str, rows: int, since_us: int) -> None:
        self.path, self.family, self.rows, self.since_us = path, family, rows, since_us
        super().__init__(f"{path} was deleted while it was written to; {rows} rows of {family} are lost")


class _Growing:
    """A file that is written to."""

    def __init__(self, path: Path, opened_us: int) -> None:
        self.path = path
        self.opened_us = opened_us
        self.file: IO[bytes] = self._made()
        try:
            # Whoever finds the file and can lock it knows that its writer is gone.
            fcntl.flock(self.file, fcntl.LOCK_EX)
        except OSError:
            self.file.close()
            self.part.unlink(missing_ok=True)
            raise
        self.size = 0
        self.rows = 0

    def _made(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return self.part.open("xb", buffering=0)
        # Somebody who makes room has just taken the empty folder away.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.part.open("xb", buffering=0)

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
        """Take the history's folder, and what the names of the files begin with.

        Names begin with `<host>:<port>-<boot_ms>`. Who has no port has a name of its own, `<name>-<boot_ms>`, and
        inherits only from processes of that name.
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
        """When the oldest file was begun that is not sealed, Unix us; None if there is none. Any thread may ask."""
        return min((each.opened_us for each in list(self._growing.values())), default=None)

    def append(self, family: str, lines: bytes, unix_us: int) -> None:
        """Write whole lines of a family, all of the hour of that time, which is that of the first.

        Raises OSError, or RowsLost if what was written before is gone; then the lines are still to be written.
        """
        growing = self._growing.get(family)
        if growing is not None and growing.is_deleted:
            self._lose(family)
        elif growing is not None and (growing.size >= SEAL_BYTES or _hour(growing.opened_us) != _hour(unix_us)):
            # Whoever asks for an hour does not look into all later and earlier ones. All that may fail comes before
            # the lines are written: who is told of a failure writes them again.
            self._seal(family)
        growing = self._growing.get(family) or self._begun(family, unix_us)
        growing.append(lines)

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
        """Seal everything, as far as the disk lets that be done; raises an ExceptionGroup of what it did not."""
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
            _settle(growing.part, growing.path, compressed=family in COMPRESSED)
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
            for part in folder.glob(f".{glob.escape(self._inherited)}*{PART}"):
                # What belongs to another user is that one's.
                with contextlib.suppress(FileNotFoundError, BlockingIOError, PermissionError):
                    found += _recovered(part)
        return found

    def _hours(self, first: date = date.min) -> list[Path]:
        """Return all folders of hours, from a day on."""
        days = (day for day in self._root.glob("family=*/date=*") if date_of(day / "hour") >= first)
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
        number = (date_of(day / "hour") - _EPOCH_DAY).days * 24
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
    """Seal a file whose writer is gone; raises BlockingIOError if it is not."""
    with part.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _cut_torn_line(file):
            part.unlink()
            return []
        os.fsync(file.fileno())
        family = part.parents[2].name.removeprefix("family=")
        path = _settle(part, part.with_name(part.name[1 : -len(PART)]), compressed=family in COMPRESSED)
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
    pieces: list[bytes] = []
    packed = (data[first : first + _PACKED_AT_ONCE] for first in range(0, len(data), _PACKED_AT_ONCE))
    with contextlib.suppress(zlib.error):
        # Up to where it is torn.
        pieces.extend(map(unpacking.decompress, packed))
    return b"".join(pieces)
