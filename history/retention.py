"""How much of a disk the history takes: the last resort, so that a server without analyses does not fill it.

Who stores the files as Parquet deletes them, once they are stored and old. Here are only limits of age and of size. All
of it blocks on the disk and belongs to the recorder's thread.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from history.landing import LANDING, SEAL_BYTES, date_of, file_name
from history.schemas import BEATS, NS_LIFECYCLE, ROUTE_SNAPSHOT

#: Days that files are kept at most, whether anybody has read them or not.
DAYS_MAX: Final = 31
#: Bytes that all files of a folder may have together unless the caller says otherwise; then the oldest beats go, and
#: after all beats what else is old.
BYTES_MAX: Final = 16 * 1024**3
#: And so much of their disk at most, whatever the caller says: other things have to have room on it.
DISK_SHARE_MAX: Final = 0.5
#: So many looks while as much is written as may lie there; between two of them no more is written than a file has.
LOOKS: Final = 16
#: A growing file whose lock nobody is seen to hold is somebody's for so long after its last writing: not every shared
#: file system shows the locks of other hosts. Who writes seals within minutes.
QUIET_US: Final = 2 * 3_600_000_000


class Forgotten(NamedTuple):
    """Files that were deleted though nobody may have read them."""

    #: `age` or `size`.
    reason: str
    files: int
    size_bytes: int


class _File(NamedTuple):
    path: Path
    size: int
    #: When it was written to last, Unix us by the clock of the file system.
    written_us: int


class Room:
    """The files of all processes in a folder, as far as they take room."""

    def __init__(self, folder: Path, boot_id: str, bytes_max: int) -> None:
        """Take the history's folder, what names of own files begin with, and how many bytes may lie there."""
        self._root = folder / LANDING
        self._own = f".{file_name(boot_id)}-"
        self._bytes_max = bytes_max

    @property
    def bytes_between_looks(self) -> int:
        """After how many bytes that one process has written it is to look again."""
        return min(SEAL_BYTES, self._bytes_allowed() // LOOKS)

    def forget_old(self, today: date) -> Forgotten:
        """Delete days that are kept no longer."""
        first = today - timedelta(days=DAYS_MAX)
        old = [hour for hour in self._hours() if date_of(hour) < first]
        gone = [file.size for hour in old for file in _files_of(hour) if _deleted(file) is _Fate.DELETED]
        _leave_no_empty(old)
        return Forgotten("age", len(gone), sum(gone))

    def make_room(self, today: date, now_us: int) -> Forgotten:
        """Delete the oldest files if all together are too many, but none that somebody writes.

        Of beats file by file; of what routes are made of a whole hour, as a part of it would tell wrong ones, and
        nothing of the present hour. Days to come are those of a wrong clock, and left alone, but take room too.
        """
        # Listed once: what another process deletes from now on makes room for this one, too.
        found = [
            (hour, sorted(_files_of(hour), key=lambda file: file.written_us))
            for hour in sorted(self._hours(), key=_worth)
        ]
        excess = sum(file.size for _, files in found for file in files) - self._bytes_allowed()
        count = size_bytes = 0
        for hour, files in found:
            if excess <= 0:
                break
            if date_of(hour) > today:
                continue
            are_beats = _family_of(hour) in BEATS
            if not are_beats and _is_present(hour, now_us):
                continue
            for file in files:
                if (excess <= 0 and are_beats) or self._is_growing(file, now_us):
                    continue
                fate = _deleted(file)
                excess -= 0 if fate is _Fate.STAYS else file.size
                if fate is _Fate.DELETED:
                    count, size_bytes = count + 1, size_bytes + file.size
            _leave_no_empty([hour])
        return Forgotten("size", count, size_bytes)

    def _is_growing(self, file: _File, now_us: int) -> bool:
        """Tell whether somebody writes a file, or packs it."""
        if not file.path.name.startswith("."):
            return False
        if file.path.name.startswith(self._own) or now_us - file.written_us < QUIET_US:
            return True
        return _is_locked(file.path.with_name(file.path.name.removesuffix(".gz")))

    def _bytes_allowed(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return min(self._bytes_max, int(shutil.disk_usage(self._root).total * DISK_SHARE_MAX))
        return self._bytes_max

    def _hours(self) -> list[Path]:
        return list(self._root.glob("family=*/date=*/hour=*"))


def _family_of(hour: Path) -> str:
    return hour.parents[1].name.removeprefix("family=")


def _is_present(hour: Path, now_us: int) -> bool:
    now = datetime.fromtimestamp(now_us // 1_000_000, UTC)
    return (hour.parent.name, hour.name) == (f"date={now:%Y-%m-%d}", f"hour={now:%H}")


#: A snapshot goes before what it stands on, and that a process started before what happened in it: what is left of
#: an hour must not pass for all of it.
_FIRST_OF_HOUR: Final = (ROUTE_SNAPSHOT.name, NS_LIFECYCLE.name)


def _worth(hour: Path) -> tuple[bool, date, str, int]:
    """Return the order in which hours are given up: beats are most of the bytes, and no route depends on them."""
    family = _family_of(hour)
    place = _FIRST_OF_HOUR.index(family) if family in _FIRST_OF_HOUR else len(_FIRST_OF_HOUR)
    return family not in BEATS, date_of(hour), hour.name, place


def _files_of(hour: Path) -> Iterator[_File]:
    # Folders of another user keep their files, and those of others from nobody.
    with contextlib.suppress(OSError), os.scandir(hour) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat()
                yield _File(Path(entry.path), found.st_size, found.st_mtime_ns // 1000)


def _is_locked(part: Path) -> bool:
    """Tell whether the lock of a living writer is seen; a shared lock takes nothing from whoever looks as well."""
    try:
        with part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # It is another user's, or there are no locks.
        return False
    return False


class _Fate(Enum):
    """What becomes of a file that is to go."""

    DELETED = auto()
    #: Another process was faster.
    GONE = auto()
    STAYS = auto()


def _deleted(file: _File) -> _Fate:
    try:
        file.path.unlink()
    except FileNotFoundError:
        return _Fate.GONE
    except OSError:
        return _Fate.STAYS
    return _Fate.DELETED


def _leave_no_empty(hours: Iterable[Path]) -> None:
    """Delete folders of hours that have no file, and a day with its last hour."""
    for hour in hours:
        with contextlib.suppress(OSError):
            hour.rmdir()
            hour.parent.rmdir()
