"""How far a store has come, kept beside it: a database that lacks some of its changes does not look like it.

SQLite ends its log at the first part that is damaged, without a word, and an older copy of a file is as whole as the
newer one. So the number of the last change is also kept here, in two blocks of the disk that are written in turn,
whatever the numbers are: a write that was cut short leaves the other block.
"""

import errno
import fcntl
import os
import zlib
from pathlib import Path
from typing import Final

from serving import durable_file
from store.store import StoreError

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})
_SLOT_BYTES: Final = 32
#: No disk writes less than it promises of a larger block at a time.
_BLOCK_BYTES: Final = 4096
#: Where the number stands in turn, and where the first releases had it too.
_PLACES: Final = (0, _BLOCK_BYTES)
_READ_AT: Final = (*_PLACES, _SLOT_BYTES)
#: Files that nobody could look at for so long count as gone.
UNSEEN_MS_MAX: Final = 10_000
#: Errors for a path with nothing at it.
_NOTHING_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
#: A number of 20 digits, its checksum, and the end of the line.
_SLOT: Final = "{:020d} {:08x}  \n"


class StoreFileMissing(StoreError):
    """The file was removed or replaced while it was in use, or could not be checked for too long."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Nothing more is stored, and this controller no longer leads. Stop whatever runs on that "
            "folder now, put the file back and start the controller again, or start it without and adopt the brokers"
        )


class StoreUnseen(StoreError):
    """Whether the file is there cannot be checked at the moment."""


class DamagedMark(Exception):
    """Neither of the two places can be read."""


class HighWater:
    """The number of the last change that is known to be stored."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it at 0; raises OSError, and DamagedMark if it was there and holds nothing."""
        if not path.exists():
            durable_file.replace(path, _slot_of(0).ljust(_BLOCK_BYTES, b"\0") + _slot_of(0))
        content = path.read_bytes()
        found = [(_number_in(content[at : at + _SLOT_BYTES]), at) for at in _READ_AT]
        readable = [(number, at) for number, at in found if number is not None]
        if not readable:
            raise DamagedMark
        self.number, newest_at = max(readable)
        #: Where the next number goes: never into the block that holds the newest one.
        self._next_at = 0 if newest_at >= _BLOCK_BYTES else _BLOCK_BYTES
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def raise_to(self, number: int) -> None:
        """Store a number; it is on the disk when this returns. Blocks."""
        os.pwrite(self._descriptor, _slot_of(number), self._next_at)
        os.fdatasync(self._descriptor)
        self.number = number
        # Only now: what was not written as a whole is written over.
        self._next_at = _BLOCK_BYTES - self._next_at

    def close(self) -> None:
        os.close(self._descriptor)


class Unseen(Exception):
    def __init__(self, path: Path, error: OSError, unseen_ms: int, *, is_new: bool) -> None:
        self.unseen_ms = unseen_ms
        #: The look before this one succeeded.
        self.is_new = is_new
        super().__init__(f"{path} cannot be looked at: {error.strerror or error}")

    @property
    def is_for_long(self) -> bool:
        """Whether nobody could look for so long that the file counts as gone."""
        return self.unseen_ms > UNSEEN_MS_MAX


class FileWatch:
    """Whether files are still those that were opened: what is written to a file without a name is lost."""

    def __init__(self, *paths: Path) -> None:
        """Remember what lies at the paths now; raises OSError."""
        self._seen = {path: _identity(path) for path in paths}
        self._unseen_from_ms: int | None = None

    def missing(self, now_ms: int) -> Path | None:
        """Return the first path with another file or none, None if all is as it was; raises Unseen. Blocks."""
        for path, identity in self._seen.items():
            try:
                found = _identity(path)
            except OSError as error:
                is_new = self._unseen_from_ms is None
                self._unseen_from_ms = since_ms = now_ms if self._unseen_from_ms is None else self._unseen_from_ms
                raise Unseen(path, error, now_ms - since_ms, is_new=is_new) from error
            if found != identity:
                return path
        self._unseen_from_ms = None
        return None


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
        os.close(self._descriptor)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Some network file systems have no locks; there SQLite's own have to do.
        if error.errno not in _NO_LOCKS:
            raise


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file lies at a path, None if none does; raises OSError if that cannot be checked."""
    try:
        found = path.stat()
    except OSError as error:
        if error.errno not in _NOTHING_THERE:
            raise
        return None
    return found.st_dev, found.st_ino


def _slot_of(number: int) -> bytes:
    return _SLOT.format(number, zlib.crc32(b"%020d" % number)).encode()


def _number_in(slot: bytes) -> int | None:
    digits = slot[:20]
    if not digits.isdigit() or slot != _slot_of(int(digits)):
        return None
    return int(digits)
