"""When a NameServer looks for silent brokers: at the earliest deadline, and at each scan interval as a net below that.

Pure: time is an argument. A pause of this process shows as a wait that ended late: brokers only seem silent then, so
nobody expires for one interval.
"""

from typing import Final

#: The shortest and the longest wait, in ms: brokers may ask for any timeout, and one that registers meanwhile may have
#: an earlier deadline than all others.
WAIT_MS_MIN: Final = 100
WAIT_MS_MAX: Final = 1_000
#: A wait that ends later than this was held up with everything else.
PAUSE_MS: Final = 1_000
#: After so many pauses in a row scans resume, or no broker would ever expire.
PAUSES_MAX: Final = 5


class ExpirySchedule:
    """The waits between two scans."""

    def __init__(self, now_ms: int) -> None:
        self._scanned_ms = now_ms
        #: When the present wait should end.
        self._wait_ends_ms = now_ms
        #: No scan before.
        self._suspended_until_ms = now_ms
        self._pauses = 0

    def wait_ms(self, now_ms: int, earliest_ms: int | None, interval_ms: int) -> int:
        """Return how long to wait; `earliest_ms` is a time before which no deadline lies, None without brokers."""
        due_ms = self._scanned_ms + interval_ms
        if earliest_ms is not None:
            due_ms = min(due_ms, earliest_ms + 1)
        wait_ms = max(WAIT_MS_MIN, min(WAIT_MS_MAX, max(due_ms, self._suspended_until_ms) - now_ms))
        self._wait_ends_ms = now_ms + wait_ms
        return wait_ms

    def pause_ms(self, now_ms: int, interval_ms: int) -> int | None:
        """Return by how much the wait was late if brokers only seem silent for an interval from now on."""
        late_ms = now_ms - self._wait_ends_ms
        if late_ms <= PAUSE_MS or self._pauses >= PAUSES_MAX:
            return None
        self._pauses += 1
        self._suspended_until_ms = now_ms + interval_ms
        return late_ms

    def is_due(self, now_ms: int, earliest_ms: int | None, interval_ms: int) -> bool:
        """Return whether to scan now; the caller scans if so."""
        is_late = earliest_ms is not None and earliest_ms < now_ms
        if now_ms < self._suspended_until_ms or not (is_late or now_ms >= self._scanned_ms + interval_ms):
            return False
        self._scanned_ms = now_ms
        self._pauses = 0
        return True
