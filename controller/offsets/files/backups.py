"""Which of a file and its `.bak` counts, as Java decides it. Pure.

Answers to `ConfigManager.load` of brokers and `LocalFileOffsetStore.readLocalOffset` of clients. Both move the former
file to `.bak` before they write. Source: docs/protocol/offsets.md 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.offsets.files.json_text import OffsetFileError

File = TypeVar("File")


@dataclass(frozen=True, slots=True)
class ReadFile(Generic[File]):
    """A file that was read, and whether it is the former one."""

    content: File
    is_backup: bool = False
    #: Why the newer one does not count; None if there is none.
    error: OffsetFileError | None = None


def read_with_backup(
    newer: bytes | None, former: bytes | None, parse: Callable[[bytes], File]
) -> ReadFile[File] | None:
    """Return what a file has, or its `.bak` where that is missing, empty or unreadable; None if neither is there.

    None says that nothing is known, which is not a table without offsets. Raises OffsetFileError for the newer one that
    is there if none of them can be read.
    """
    error: OffsetFileError | None = None
    if newer:
        try:
            return ReadFile(parse(newer))
        except OffsetFileError as failure:
            error = failure
    if former:
        try:
            return ReadFile(parse(former), is_backup=True, error=error)
        except OffsetFileError as failure:
            raise (error or failure) from None
    if error is not None:
        raise error
    return None
