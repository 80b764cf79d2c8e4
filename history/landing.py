"""Files that rows land in: one growing file a family, sealed by a rename, whole lines only whatever happens.

`landing/v1/family=F/date=YYYY-MM-DD/hour=HH/<ns_id>-<boot_ms>-<seq>.jsonl`; while it grows, `.<name>.part` beside. All
of it blocks on the disk and belongs to the recorder's thread. Every failure is an OSError of the caller's; then the
file ends where it ended before the call.
"""

import contextlib
import fcntl
import glob
import gzip
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Final

from history.schemas import FAMILIES, HEARTBEAT, HEARTBEAT_SUMMARY, ROUTE_SNAPSHOT

LANDING: Final = "landing/v1"
PART: Final = ".part"
#: A file is sealed when it is this old or this long.
SEAL_AFTER_US: Final = 300_000_000
SEAL_BYTES: Final = 64 * 1024 * 1024
#: Days that files are kept: beats are worth much space, and are in the curated tables by then.
BEATS_DAYS: Final = 2
STATES_DAYS: Final = 31
#: Long rows that repeat much.
_COMPRESSED: Final = frozenset({ROUTE_SNAPSHOT.name})
_BEATS: Final = frozenset({HEARTBEAT.name, HEARTBEAT_SUMMARY.name})


class _Growing:
    """A file that is written to."""

    def __init__(self, path: Path, opened_us: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.opened_us = opened_us
        self.file: IO[bytes] = self.part.open("xb", buffering=0)
        # Whoever finds the file and can lock it knows that its writer is gone.
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.size = 0

    @property
    def part(self) -> Path:
        """Where it is as long as it grows."""
        return self.path.with_name(f".{self.path.name}{PART}")

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
        """When the oldest file was begun that is not sealed, Unix us; None if there is none."""
        return min((each.opened_us for each in self._growing.values()), default=None)

    def append(self, family: str, lines: bytes, unix_us: int) -> None:
        """Write whole lines of a family, of which the first is of that time."""
        growing = self._growing.get(family)
        if growing is None:
            hour = datetime.fromtimestamp(unix_us // 1_000_000, UTC)
            folder = self._root / f"family={family}" / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
            self._number += 1
            growing = _Growing(folder / f"{self._boot_id}-{self._number}.jsonl", unix_us)
            self._growing[family] = growing
        growing.append(lines)
        if growing.size >= SEAL_BYTES:
            self._seal(family)

    def seal_old(self, unix_us: int) -> None:
        """Seal what is old enough, or of another hour."""
        for family, growing in list(self._growing.items()):
            is_old = unix_us - growing.opened_us >= SEAL_AFTER_US or _hour(unix_us) != _hour(growing.opened_us)
            if is_old:
                self._seal(family)

    def seal_all(self) -> None:
        """Seal everything; the process ends."""
        for family in list(self._growing):
            self._seal(family)

    def _seal(self, family: str) -> None:
        growing = self._growing[family]
        os.fsync(growing.file.fileno())
        _settle(growing.part, growing.path, compressed=family in _COMPRESSED)
        growing.file.close()
        del self._growing[family]

    def recover(self) -> list[Path]:
        """Seal what processes of this host that are gone have left behind, cut at the last whole line.

        Returns the files. Other hosts' processes look after themselves: not every shared file system tells us here that
        they hold a lock there.
        """
        found = []
        for part in self._root.glob(f"family=*/date=*/hour=*/.{glob.escape(self._host)}*{PART}"):
            with contextlib.suppress(FileNotFoundError, BlockingIOError), part.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path = part.with_name(part.name[1 : -len(PART)])
                if _cut_torn_line(file):
                    os.fsync(file.fileno())
                    family = part.parents[2].name.removeprefix("family=")
                    found.append(_settle(part, path, compressed=family in _COMPRESSED))
                else:
                    part.unlink()
        return found

    def forget_old(self, today: date) -> None:
        """Delete days that are kept no longer."""
        for folder in self._root.glob("family=*/date=*"):
            family = folder.parent.name.removeprefix("family=")
            days = BEATS_DAYS if family in _BEATS else STATES_DAYS
            with contextlib.suppress(ValueError):
                if date.fromisoformat(folder.name.removeprefix("date=")) < today - timedelta(days=days):
                    shutil.rmtree(folder, ignore_errors=True)


def sealed_files(folder: Path, family: str, first: datetime, last: datetime) -> Iterator[Path]:
    """Yield the files of a family that may hold rows of a time, those that still grow too, hour by hour.

    A file lies where its first row belongs, and is sealed when the hour ends, so the hour before is looked at as well.
    """
    assert family in FAMILIES, f"there is no family {family}"
    hour = first.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    while hour <= last:
        place = folder / LANDING / f"family={family}" / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
        names = (".jsonl", ".jsonl.gz", f".jsonl{PART}")
        with contextlib.suppress(FileNotFoundError):
            yield from sorted(path for path in place.iterdir() if path.name.endswith(names))
        hour += timedelta(hours=1)


def lines_of(path: Path) -> Iterable[bytes]:
    """Return the whole lines of a file; a torn one at its end is left out."""
    with contextlib.suppress(FileNotFoundError):
        data = path.read_bytes()
        if path.name.endswith(".gz"):
            data = gzip.decompress(data)
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
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path
