"""Prints what is being done, a line each; and the clock, which only the edge of a run reads."""

import sys
import time
from collections.abc import Callable

#: Takes lines for people.
Progress = Callable[[str], None]


def to_stderr(line: str) -> None:
    """Show a line with the seconds since the start of the process's work, so that slow steps are seen."""
    seconds = time.monotonic_ns() / 1e9 - _STARTED
    sys.stderr.write(f"[{seconds:7.1f} s] {line}\n")
    sys.stderr.flush()


def unix_us() -> int:
    """Return the time of day, microseconds since 1970 UTC."""
    return time.time_ns() // 1000


_STARTED = time.monotonic_ns() / 1e9
