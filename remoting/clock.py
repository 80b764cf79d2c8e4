"""The only reader of time; everything else takes `now_ms` or `unix_ms` as an argument."""

import time
from typing import Final, Protocol

#: Other systems than Linux have no such clock.
_BOOT: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Two clocks that must not be mixed: one for deadlines, one for records."""

    def now_ms(self) -> int:
        """Return monotonic milliseconds, for deadlines; they never jump when the wall clock is set."""

    def unix_ms(self) -> int:
        """Return milliseconds since 1970 UTC, for records that people and other machines read."""


class SystemClock:
    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def mono_us(self) -> int:
        """Return the same as `now_ms`, finer."""
        return time.monotonic_ns() // 1_000

    def unix_us(self) -> int:
        """Return the same as `unix_ms`, finer."""
        return time.time_ns() // 1_000


class BootClock(SystemClock):
    """The machine's clocks, of which the one for deadlines also counts the time that a Linux host was suspended."""

    def now_ms(self) -> int:
        """Return milliseconds since the host was started."""
        return time.clock_gettime_ns(_BOOT) // 1_000_000
