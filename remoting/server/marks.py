"""Which answers are still valid, in memory that the server writes and its workers read."""

import mmap
import os
from itertools import cycle
from typing import Final

#: Answers share a mark where there are more than these: one that changes makes the others be asked for again.
MARKS: Final = 1 << 16
_BYTES: Final = 8 * (MARKS + 1)
#: Behind the marks: how often the server has looked at its connections, so that a worker sees it stand still.
_BEATS: Final = MARKS


class Marks:
    def __init__(self, file: int) -> None:
        """Map the memory of a file descriptor that `marks_file` made."""
        self._memory = memoryview(mmap.mmap(file, _BYTES)).cast("Q")
        self._free = cycle(range(MARKS))
        self.get = self._memory.__getitem__

    def next_mark(self) -> int:
        return next(self._free)

    def move(self, mark: int) -> None:
        """Make every answer with this mark invalid that was given out before."""
        self._memory[mark] += 1

    def move_all(self) -> None:
        """Make every answer invalid; takes some milliseconds."""
        for mark in range(MARKS):
            self._memory[mark] += 1

    def beat(self) -> None:
        self._memory[_BEATS] += 1

    @property
    def beats(self) -> int:
        return self._memory[_BEATS]


def marks_file() -> int:
    """Return the file descriptor of new memory that other processes can map."""
    file = os.memfd_create("marks")
    os.ftruncate(file, _BYTES)
    return file
