"""Tells the C library to keep memory that long requests need again and again.

By default glibc gives such blocks back to the system as soon as they are free, so each registration of a large broker
(1.8 MB, copied twice) would be answered with some hundred page faults: four times the work of everything else.
"""

import contextlib
import ctypes
import sys
from typing import Final

#: Longer blocks still come from the system and go back to it.
_MAPPED_BYTES_MIN: Final = 32 * 1024 * 1024
#: So much free memory may stay with the process.
_KEPT_BYTES_MAX: Final = 64 * 1024 * 1024

# Of malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> None:
    """Do so where the C library is glibc; elsewhere nothing."""
    if sys.platform != "linux":
        return
    # Other C libraries of Linux have no such function.
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES_MIN)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
