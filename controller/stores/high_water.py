"""How far a store has come, kept beside it: a database that lacks some of its changes does not look like it.

SQLite ends its log at the first part that is damaged, without a word, and an older copy of a file is as whole as the
newer one. So the number of the last change is also kept here, in two places that are written in turn: one that was cut
short leaves the other.
"""

import errno
import fcntl
import os
import zlib
from pathlib import Path
from typing import Final

from serving import durable_file

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})
_SLOT_BYTES: Final = 32
_SLOTS: Final = 2
#: A number of 20 digits, its checksum, and the end of the line.
_SLOT: Final = "{:020d} {:08x}  \n"


class DamagedMark(Exception):
    """Neither of the two places can be read."""


class HighWater:
    """The number of the last change that is known to be stored."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it at 0; raises OSError, and DamagedMark if it was there and holds nothing."""
        if not path.exists():
            durable_file.replace(path, _slot_of(0) * _SLOTS)
        content = path.read_bytes()
        numbers = [_number_in(content[at : at + _SLOT_BYTES]) for at in range(0, _SLOTS * _SLOT_BYTES, _SLOT_BYTES)]
        readable = [each for each in numbers if each is not None]
        if not readable:
            raise DamagedMark
        self.number = max(readable)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def raise_to(self, number: int) -> None:
        """Store a number; it is on the disk when this returns. Blocks."""
        os.pwrite(self._descriptor, _slot_of(number), number % _SLOTS * _SLOT_BYTES)
        os.fdatasync(self._descriptor)
        self.number = number

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class FileWatch:
    """Whether files are still those that were opened: what is written to a file without a name is lost."""

    def __init__(self, *paths: Path) -> None:
        """Remember what lies at the paths now."""
        self._seen = {path: _identity(path) for path in paths}

    def missing(self) -> Path | None:
        """Return the first path at which there is nothing, or another file; None if all is as it was. Blocks."""
        return next((path for path, identity in self._seen.items() if _identity(path) != identity), None)


class FolderLock:
    """Keeps others from a folder, whatever becomes of the files in it, until it is closed or the process ends."""

    def __init__(self, folder: Path) -> None:
        """Take it; raises OSError if another has it."""
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(self._descriptor)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others take it."""
        os.close(self._descriptor)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network file systems have no locks; there SQLite's own have to do.
        if error.errno not in _NO_LOCKS:
            raise


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _slot_of(number: int) -> bytes:
    return _SLOT.format(number, zlib.crc32(b"%020d" % number)).encode()


def _number_in(slot: bytes) -> int | None:
    digits = slot[:20]
    if not digits.isdigit() or slot != _slot_of(int(digits)):
        return None
    return int(digits)
