"""Times of day: as text in the files, and by a clock that may be set wrong while a server runs. Pure."""

from datetime import UTC, date, datetime, timedelta
from typing import Final, Protocol

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)
#: An offset that changes by more means that the wall clock was set.
_CLOCK_SET_US: Final = 60_000_000
#: An offset must stay unchanged this long before it decides which files are old.
_TRUSTED_AFTER_US: Final = 24 * 3_600_000_000


def time_text(unix_us: object) -> str:
    """Return a time as `2026-11-21T20:00:00.123456Z`; takes Unix microseconds."""
    assert isinstance(unix_us, int), "times are whole microseconds"
    return (_EPOCH + unix_us * _US).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_of(unix_us: int) -> datetime:
    return _EPOCH + unix_us * _US


def unix_us(time: datetime) -> int:
    return (time - _EPOCH) // _US


class RecordingClock(Protocol):
    """The clocks that rows are stamped with."""

    def unix_us(self) -> int:
        """Return microseconds since 1970 UTC."""

    def mono_us(self) -> int:
        """Return monotonic microseconds."""


class TrustedClock:
    """A wall clock for retention: setting it far ahead while the server runs makes no file old.

    An offset that has stayed unchanged for 24 h is trusted: either the clock was set right, or the machine had slept.
    """

    def __init__(self, clock: RecordingClock) -> None:
        self._clock = clock
        #: How far the wall clock was ahead of the monotonic clock when it was set last, us, and when that was by the
        #: monotonic clock.
        self._seen_since_us = clock.mono_us()
        self._seen_us = clock.unix_us() - self._seen_since_us
        #: The offset that decides which files are old.
        self._trusted_us = self._seen_us

    def unix_us(self, mono_us: int) -> int:
        """Return the trusted time of day at a moment of the monotonic clock, Unix us."""
        offset_us = self._clock.unix_us() - mono_us
        if abs(offset_us - self._seen_us) > _CLOCK_SET_US:
            self._seen_us, self._seen_since_us = offset_us, mono_us
        if offset_us < self._trusted_us or mono_us - self._seen_since_us >= _TRUSTED_AFTER_US:
            self._trusted_us = offset_us
        return mono_us + self._trusted_us

    def today(self, mono_us: int) -> date:
        """Return the trusted UTC day at a moment of the monotonic clock."""
        return datetime.fromtimestamp(self.unix_us(mono_us) // 1_000_000, UTC).date()
