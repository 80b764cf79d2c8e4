"""Replaces a file as a whole: after a crash at any moment it holds the old content or the new one, never a part.

Used for configurations and other small files; Java's `MixAll.string2File` copies to `.bak` and overwrites in place.
A file that is a mount of its own (`docker run -v file:file`, Kubernetes' subPath) takes no rename: it is written in
place, after a synced copy of the whole beside it, which counts if the write was cut short.
All of it blocks on the disk: call it from a thread. Calls for one file must not overlap, since the last rename wins.
What the content means does not enter here.
"""

import contextlib
import errno
import fcntl
import glob
import os
import stat
import tempfile
from pathlib import Path
from typing import ClassVar, Final

#: Mode of a file that was not there before: a configuration may hold the password of a key.
NEW_FILE_MODE: Final = 0o600

_BACKUP: Final = ".bak"
_TEMPORARY: Final = ".tmp"
_WHOLE_COPY: Final = ".whole"
#: Errors of a rename to a file that is a mount of its own.
_MOUNTED: Final = frozenset({errno.EBUSY, errno.EXDEV})
#: Written at a time where a file is written in place.
_PART_BYTES: Final = 4096


class DurableFileError(Exception):
    """Something is the matter with a file; the text names it."""

    #: What the text begins with.
    problem: ClassVar[str] = ""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{self.problem}{path}: {reason}")


class NotReadable(DurableFileError):
    """A file is there and cannot be read."""

    problem = "cannot read "


class NotWritten(DurableFileError):
    """The new content is not stored durably: the old one is still there, or the folder's own entry was not synced."""

    problem = "cannot write "


class DamagedFile(DurableFileError):
    """A file was read, and its content makes no sense; the text says what to do."""


class OpenToOthers(DurableFileError):
    """Any user of this machine can write a file that decides what is executed; the text says what to do."""


def others_may(mode: int, path: Path) -> bool:
    """Return whether any user of this machine may read (`stat.S_IROTH`) or write (`stat.S_IWOTH`) a file.

    A folder is no file: a blank path is the present one.
    """
    try:
        found = path.stat().st_mode
    except OSError:
        return False
    return bool(found & mode) and not stat.S_ISDIR(found)


def replace(path: Path, content: bytes) -> bool:
    """Put content in place of what the file holds; when this returns, it outlives a power failure.

    True if it was overwritten in place, because the file is a mount of its own.

    Another previous content goes to `<path>.bak`, unless it is empty. Missing folders are made, a symbolic
    link is followed, and mode and owner stay as they are; a new file gets NEW_FILE_MODE. Raises NotWritten, and then
    leaves no unfinished file behind.
    """
    try:
        target = path.resolve()
        _make_folder(target.parent)
        before = read_latest(target)
        like = target.stat() if before is not None else None
        if before and before != content:
            _install(before, backup_of(target), like)
        in_place = False
        try:
            _install(content, target, like)
        except OSError as error:
            if error.errno not in _MOUNTED or like is None:
                raise
            in_place = True
            _install(content, _whole_copy_of(target), like)
            _sync_folder(target.parent)
            _write_in_place(target, content)
        _whole_copy_of(target).unlink(missing_ok=True)
        _sync_folder(target.parent)
    except NotReadable as error:
        raise NotWritten(path, error.reason) from error
    except (OSError, RuntimeError) as error:
        raise NotWritten(path, _reason(error)) from error
    return in_place


def read_latest(path: Path) -> bytes | None:
    """Return the content as `replace` has it: that of the copy where a write in place was cut short. As `read`."""
    content = read(path)
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:
        raise NotReadable(path, _reason(error)) from error
    copy = read(_whole_copy_of(target))
    if content is None or copy is None or not _is_between(content, read(backup_of(target)) or b"", copy):
        return content
    return copy


def recover(path: Path) -> None:
    """Finish a write in place that was cut short, and remove what crashes left beside a file.

    What cannot be done stays undone: `read_latest` and `replace` know what it means.
    """
    remove_leftovers(path)
    with contextlib.suppress(OSError, RuntimeError, DurableFileError):
        target = path.resolve()
        content = read_latest(target)
        if content is not None and content != read(target):
            _write_in_place(target, content)
        _whole_copy_of(target).unlink(missing_ok=True)


def read(path: Path) -> bytes | None:
    """Return the content, None if there is no such file; raises NotReadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotReadable(path, _reason(error)) from error


def backup_of(path: Path) -> Path:
    """Return where `replace` keeps the content before the last change."""
    return path.with_name(path.name + _BACKUP)


def remove_leftovers(path: Path) -> None:
    """Remove what crashes in the middle of `replace` left beside a file; what cannot be removed stays, unused."""
    with contextlib.suppress(OSError, RuntimeError):
        target = path.resolve()
        for left in target.parent.glob(f".{glob.escape(target.name)}.*{_TEMPORARY}"):
            with contextlib.suppress(OSError), left.open("rb") as file:
                # Not the file of a process that writes it now.
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


def _write_in_place(target: Path, content: bytes) -> None:
    """Overwrite a file; on a full disk it stays as it was, and the copy is removed."""
    with target.open("r+b", buffering=0) as file:
        descriptor = file.fileno()
        length = os.fstat(descriptor).st_size
        try:
            if content:
                os.posix_fallocate(descriptor, 0, len(content))
        except OSError:
            os.ftruncate(descriptor, length)
            _whole_copy_of(target).unlink(missing_ok=True)
            raise
        for at in range(0, len(content), _PART_BYTES):
            os.pwrite(descriptor, content[at : at + _PART_BYTES], at)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)


def _is_between(content: bytes, old: bytes, new: bytes) -> bool:
    """Return whether a content can be that of a write in place of `new` for `old` that was cut short.

    Else somebody has changed the file since. Where room was made and nothing written, there is a zero.
    """
    length = max(len(old), len(new))
    parts = zip(content, old.ljust(length, b"\0"), new.ljust(length, b"\0"), strict=False)
    return len(content) <= length and all(byte in (before, after, 0) for byte, before, after in parts)


def _whole_copy_of(target: Path) -> Path:
    return target.with_name(target.name + _WHOLE_COPY)


def _install(content: bytes, target: Path, like: os.stat_result | None) -> None:
    descriptor, name = tempfile.mkstemp(_TEMPORARY, f".{target.name}.", target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _lock(descriptor)
            _look_like(descriptor, like)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
            unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _lock(descriptor: int) -> None:
    """Lock the file, so that another process that starts on the same folder does not remove it."""
    # Some network file systems have no locks; there two servers must not share a folder.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _look_like(descriptor: int, like: os.stat_result | None) -> None:
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode) if like else NEW_FILE_MODE)
    if like:
        # Only root can give a file away; for others the owner is already the right one, or cannot be kept.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, like.st_uid, like.st_gid)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each entered durably into the one above."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    try:
        folder.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder") from error
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError | RuntimeError) -> str:
    text = getattr(error, "strerror", None)
    return text or str(error)
