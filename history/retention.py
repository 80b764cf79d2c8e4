"""Limits of age and size of the history: the last resort, so that a server without analyses does not fill its disk.

Ingest deletes files once they are stored as Parquet and old. All of this blocks on the disk and belongs to the
recorder's thread.
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
from history.schemas import HEARTBEAT_FAMILIES, NS_LIFECYCLE, ROUTE_SNAPSHOT

#: Files that were never ingested are deleted after so many days.
DAYS_MAX: Final = 31
#: All files of a folder have this share of their disk at most, whatever the caller says: the rest is for others.
DISK_SHARE_MAX: Final = 0.5
#: The limit of size is checked so often while as much is written as may lie there; between two checks no more is
#: written than a file has.
CHECKS: Final = 16
#: A growing file without a visible lock counts as being written for so long after its last write: not every shared
#: file system shows the locks of other hosts. A writer seals within minutes.
QUIET_US: Final = 2 * 3_600_000_000


class DeletedFiles(NamedTuple):
    """Files that were deleted though they may never have been ingested."""

    #: `age` or `size`.
    reason: str
    files: int
    size_bytes: int


class _File(NamedTuple):
    path: Path
    size: int
    #: When it was written to last, Unix us by the clock of the file system.
    written_us: int


class Retention:
    """The files of all processes in a folder, and how much of them is kept."""

    def __init__(self, folder: Path, boot_id: str, bytes_max: int) -> None:
        """Take the history's folder, what names of own files begin with, and how many bytes may lie there.

        Beyond them the oldest heartbeats are deleted, and after all heartbeats the oldest of the rest.
        """
        self._root = folder / LANDING
        self._own = f".{file_name(boot_id)}-"
        self._bytes_max = bytes_max

    @property
    def bytes_between_checks(self) -> int:
        """After how many written bytes a process checks again."""
        return min(SEAL_BYTES, self._bytes_allowed() // CHECKS)

    def delete_old(self, today: date) -> DeletedFiles:
        first = today - timedelta(days=DAYS_MAX)
        old = [hour for hour in self._hours() if date_of(hour) < first]
        deleted = [file.size for hour in old for file in _files_of(hour) if _delete(file) is _Deletion.DELETED]
        _delete_empty(old)
        return DeletedFiles("age", len(deleted), sum(deleted))

    def enforce_size(self, today: date, now_us: int) -> DeletedFiles:
        """Delete the oldest files if all together exceed the limit, but none that is being written.

        Heartbeats are deleted file by file; what routes are made of by whole hours, as a part of one would yield wrong
        routes, and never of the present hour. Days to come are those of a wrong clock: they are kept, but count.
        """
        # Listed once: what another process deletes from now on counts as deleted for this one, too.
        found = [
            (hour, sorted(_files_of(hour), key=lambda file: file.written_us))
            for hour in sorted(self._hours(), key=_deletion_order)
        ]
        excess = sum(file.size for _, files in found for file in files) - self._bytes_allowed()
        count = size_bytes = 0
        for hour, files in found:
            if excess <= 0:
                break
            if date_of(hour) > today:
                continue
            are_heartbeats = _family_of(hour) in HEARTBEAT_FAMILIES
            if not are_heartbeats and _is_present(hour, now_us):
                continue
            for file in files:
                if (excess <= 0 and are_heartbeats) or self._is_growing(file, now_us):
                    continue
                deletion = _delete(file)
                excess -= 0 if deletion is _Deletion.KEPT else file.size
                if deletion is _Deletion.DELETED:
                    count, size_bytes = count + 1, size_bytes + file.size
            _delete_empty([hour])
        return DeletedFiles("size", count, size_bytes)

    def _is_growing(self, file: _File, now_us: int) -> bool:
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


#: A snapshot is deleted before the rows that it builds on, and the start of a process before what happened in it: the
#: rest of an hour must not pass for all of it.
_FIRST_OF_HOUR: Final = (ROUTE_SNAPSHOT.name, NS_LIFECYCLE.name)


def _deletion_order(hour: Path) -> tuple[bool, date, str, int]:
    """Return the order in which hours are deleted: heartbeats are most of the bytes, and no route depends on them."""
    family = _family_of(hour)
    place = _FIRST_OF_HOUR.index(family) if family in _FIRST_OF_HOUR else len(_FIRST_OF_HOUR)
    return family not in HEARTBEAT_FAMILIES, date_of(hour), hour.name, place


def _files_of(hour: Path) -> Iterator[_File]:
    # Folders of another user keep their files, and those of others from nobody.
    with contextlib.suppress(OSError), os.scandir(hour) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat()
                yield _File(Path(entry.path), found.st_size, found.st_mtime_ns // 1000)


def _is_locked(part: Path) -> bool:
    """Return True if a running writer holds the lock; the shared lock taken here does not disturb other readers."""
    try:
        with part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # It is another user's, or there are no locks.
        return False
    return False


class _Deletion(Enum):
    """What became of a file that was to be deleted."""

    DELETED = auto()
    #: Another process was faster.
    MISSING = auto()
    KEPT = auto()


def _delete(file: _File) -> _Deletion:
    try:
        file.path.unlink()
    except FileNotFoundError:
        return _Deletion.MISSING
    except OSError:
        return _Deletion.KEPT
    return _Deletion.DELETED


def _delete_empty(hours: Iterable[Path]) -> None:
    """Delete folders of hours that have no file, and a day with its last hour."""
    for hour in hours:
        with contextlib.suppress(OSError):
            hour.rmdir()
            hour.parent.rmdir()
