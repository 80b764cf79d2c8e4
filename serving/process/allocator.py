"""Makes the C library keep memory that long requests need again and again.

By default glibc gives such blocks back to the system as soon as they are free, so each registration of a large broker
(1.8 MB, copied twice) would be answered with some hundred page faults: four times the work of everything else. What is
kept has an end: very much free memory goes back.
"""

import contextlib
import ctypes
import sys
from typing import Final

from serving.process.system_limits import resident_bytes

#: Longer blocks still come from the system and go back to it.
_MAPPED_BYTES_MIN: Final = 32 * 1024 * 1024
#: So much free memory may stay with the process.
_KEPT_BYTES_MAX: Final = 64 * 1024 * 1024

# Of malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

_HEAP_FIGURES: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _HeapFigures(ctypes.Structure):
    """`struct mallinfo2`."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_FIGURES)


class FreeMemory:
    """What the C library keeps of freed memory, and gives back to the system when it is very much.

    It gives back by itself only what lies above the last block in use: after some hundred peers that read nothing have
    left, half a gigabyte lies below one.
    """

    def __init__(self) -> None:
        #: None where the C library is not glibc of 2.33 or later.
        self._library: ctypes.CDLL | None = None
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            library.mallinfo2.restype = _HeapFigures
            self._library = library
        #: The least that was resident and not in use since memory was last given back: code, Python's own pools.
        self._idle_bytes = self._idle_now() if self._library else 0

    def give_back(self) -> bool:
        """Give free memory back if there is much more than at the least; takes 0.1 ms for each MiB given back."""
        if self._library is None:
            return False
        idle_bytes = self._idle_now()
        # What lay between blocks in use, and was kept for that, may have been used meanwhile, and be free again later.
        self._idle_bytes = min(self._idle_bytes, idle_bytes)
        if idle_bytes < self._idle_bytes + 2 * _KEPT_BYTES_MAX:
            return False
        self._library.malloc_trim(_KEPT_BYTES_MAX)
        self._idle_bytes = self._idle_now()
        return True

    def _idle_now(self) -> int:
        assert self._library is not None, "the callers looked"
        figures = self._library.mallinfo2()
        in_use: int = figures.uordblks + figures.hblkhd
        return resident_bytes() - in_use


def keep_freed_memory() -> None:
    """Do so where the C library is glibc; elsewhere nothing."""
    if sys.platform != "linux":
        return
    # Other C libraries of Linux have no such function.
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES_MIN)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
