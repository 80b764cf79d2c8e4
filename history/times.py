"""Times of day as rows hold them: Unix microseconds in the code, UTC text in the files. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)


def time_text(unix_us: object) -> str:
    """Return a time as `2026-11-21T20:00:00.123456Z`; takes Unix microseconds."""
    assert isinstance(unix_us, int), "times are whole microseconds"
    return (_EPOCH + unix_us * _US).isoformat(timespec="microseconds").replace("+00:00", "Z")


def time_of(unix_us: int) -> datetime:
    """Return the time of Unix microseconds."""
    return _EPOCH + unix_us * _US


def unix_us(time: datetime) -> int:
    """Return Unix microseconds, exactly."""
    return (time - _EPOCH) // _US
