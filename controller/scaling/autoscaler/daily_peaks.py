"""The traffic of a topic on its last days, and what they foretell. Bounded: a quarter of an hour is one number."""

from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 86_400_000
QUARTER_MS: Final = 900_000
_QUARTERS: Final = DAY_MS // QUARTER_MS

#: Days that are compared, and how many of them have to agree on a peak.
DAYS: Final = 7
DAYS_AGREEING: Final = 3

#: A day of which less was sampled is no evidence that there was no peak.
QUARTERS_MIN: Final = 72

#: A peak is grown for so long before it.
AHEAD_MS: Final = 30 * 60_000

#: More clients of a group than these count as so many.
_CLIENTS_COUNTED_MAX: Final = 32_767

#: How much a new measurement of what a queue carries counts.
_NEW_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficForecast:
    """What the last days tell; None is unknown."""

    #: Of the last seven, how many were sampled.
    days: int = 0
    #: The highest rate of these days and of today, and the most consumers of a group.
    peak_tps: float | None = None
    peak_clients: int | None = None
    #: What comes soon: on `DAYS_AGREEING` of these days as much came at this time.
    expected_tps: float | None = None
    expected_clients: int | None = None
    #: Messages a second that a queue carries, as measured while a group could not keep up.
    queue_tps: float | None = None


class _Day:
    """What one day had at most, by quarter of an hour."""

    __slots__ = ("_clients", "_sampled", "_tps", "number", "peak_clients", "peak_tps")

    def __init__(self, number: int) -> None:
        self.number = number
        #: None while nothing came in, or no client was known: most topics are idle. -1: not sampled.
        self._tps: array[float] | None = None
        self._clients: array[int] | None = None
        #: A bit for each quarter that was sampled.
        self._sampled = 0
        self.peak_tps = -1.0
        self.peak_clients = -1

    @property
    def sampled(self) -> int:
        return self._sampled.bit_count()

    def add(self, quarter: int, tps: float, clients: int) -> None:
        self._sampled |= 1 << quarter
        self.peak_tps = max(self.peak_tps, tps)
        self.peak_clients = max(self.peak_clients, clients)
        if tps > 0 and self._tps is None:
            self._tps = array("f", (0.0 if self._sampled >> each & 1 else -1.0 for each in range(_QUARTERS)))
        if self._tps is not None:
            self._tps[quarter] = max(self._tps[quarter], tps)
        if clients >= 0 and self._clients is None:
            self._clients = array("h", [-1]) * _QUARTERS
        if self._clients is not None:
            self._clients[quarter] = max(self._clients[quarter], min(clients, _CLIENTS_COUNTED_MAX))

    def most_tps(self, quarters: Iterable[int]) -> float:
        """Return the highest rate of these quarters; -1 if none was sampled."""
        if self._tps is not None:
            return max(self._tps[each] for each in quarters)
        return 0.0 if any(self._sampled >> each & 1 for each in quarters) else -1.0

    def most_clients(self, quarters: Iterable[int]) -> int:
        """Return the most clients of these quarters; -1 if unknown."""
        return -1 if self._clients is None else max(self._clients[each] for each in quarters)


class DailyPeaks:
    def __init__(self) -> None:
        self._days: deque[_Day] = deque(maxlen=DAYS + 1)
        self._queue_tps: float | None = None

    def add(self, unix_ms: int, put_tps: float | None, clients: int | None) -> None:
        """Take one sample, in the order of time; days after it are those of a clock that was wrong, and go."""
        if put_tps is None:
            return
        number, within_ms = divmod(unix_ms, DAY_MS)
        while self._days and self._days[-1].number > number:
            self._days.pop()
        if not self._days or number > self._days[-1].number:
            self._days.append(_Day(number))
        self._days[-1].add(within_ms // QUARTER_MS, put_tps, -1 if clients is None else clients)

    def measured_queue(self, queue_tps: float) -> None:
        former = self._queue_tps
        self._queue_tps = queue_tps if former is None else former + _NEW_SHARE * (queue_tps - former)

    def forecast(self, unix_ms: int) -> TrafficForecast:
        today = unix_ms // DAY_MS
        recent = [day for day in self._days if today - DAYS <= day.number <= today]
        past = [day for day in recent if day.number < today and day.sampled >= QUARTERS_MIN]
        if not recent:
            return TrafficForecast(queue_tps=self._queue_tps)
        tps, clients = _expected(past, unix_ms)
        peak_clients = max(day.peak_clients for day in recent)
        return TrafficForecast(
            days=len(past),
            peak_tps=max(day.peak_tps for day in recent),
            peak_clients=None if peak_clients < 0 else peak_clients,
            expected_tps=tps,
            expected_clients=clients,
            queue_tps=self._queue_tps,
        )


def _expected(past: list[_Day], unix_ms: int) -> tuple[float | None, int | None]:
    """Return what enough days had at most from this time of day on, for so long as is looked ahead."""
    if len(past) < DAYS_AGREEING:
        return None, None
    first = unix_ms % DAY_MS // QUARTER_MS
    # The quarter that has begun is not ahead any more, except for what is left of it.
    ahead = [(first + each) % _QUARTERS for each in range(AHEAD_MS // QUARTER_MS + 1)]
    rates = sorted((day.most_tps(ahead) for day in past), reverse=True)
    clients = sorted((day.most_clients(ahead) for day in past), reverse=True)
    tps, count = rates[DAYS_AGREEING - 1], clients[DAYS_AGREEING - 1]
    return None if tps < 0 else tps, None if count < 0 else count
