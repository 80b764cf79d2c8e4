"""Until when the file has whatever masters showed, although nothing changed. Pure, and of this process alone.

The file has changes. The offsets of a moment may be much older than the moment where groups stood still, and where
nobody read them: only who counts readings can tell which.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror_file.thinning import HOUR_MS

#: Three times the period of readings: after a longer pause nobody knows what was in between.
PAUSE_MAX_MS: Final = 15_000
#: Times without such a pause that are kept of each set, the newest.
TIMES_MAX: Final = 8
#: Older changes are merged, so that what the file has of a moment may be older than its readings.
KNOWN_MS: Final = HOUR_MS - 120_000


@dataclass(slots=True)
class _Time:
    """A time in which a set was read without a long pause; Unix ms."""

    first: int
    last: int
    #: The longest pause between two of its readings.
    pause_ms: int = 0


class ReadTimes:
    """When sets were read, of readings whose changes the file has, each at its own time."""

    def __init__(self) -> None:
        self._by_set: dict[SetName, deque[_Time]] = {}

    def note(self, set_name: SetName, unix_ms: int, *, is_continued: bool) -> None:
        """Take that the file has all until a reading. Not `is_continued`: the changes before it have its time too."""
        times = self._by_set.setdefault(set_name, deque(maxlen=TIMES_MAX))
        if times and unix_ms < times[-1].last:
            # The clock was set back.
            times.clear()
        if times and is_continued and unix_ms - times[-1].last <= PAUSE_MAX_MS:
            time = times[-1]
            time.pause_ms = max(time.pause_ms, unix_ms - time.last)
            time.last = unix_ms
        else:
            times.append(_Time(unix_ms, unix_ms))

    def last_until(self, set_name: SetName, unix_ms: int, now_unix_ms: int) -> int | None:
        """Return a time at or before a moment when the set was read for certain; None where that is not known."""
        times = self._by_set.get(set_name, ())
        found = next((each for each in reversed(times) if each.first <= unix_ms), None)
        if found is None or unix_ms < now_unix_ms - KNOWN_MS:
            return None
        return found.last if found.last <= unix_ms else max(found.first, unix_ms - found.pause_ms)

    def forget(self, set_name: SetName) -> None:
        """Forget a set."""
        self._by_set.pop(set_name, None)
