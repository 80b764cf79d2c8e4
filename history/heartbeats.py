"""What is recorded of heartbeats: each beat where they are rare, a summary of each minute where they are frequent.

Answers to no Java class. Works on the event loop, where a beat comes, so that a server that hears ten thousand a second
hands over only some rows of each minute. Pure: the time is an argument.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from history.rows import Moment, Who
from history.schemas import INTERVAL_BINS

#: Beats of a shorter period are summarised.
SUMMARISED_BELOW_MS: Final = 10_000
#: Later than so many periods is late, and gets a row of its own.
LATE_PERIODS: Final = 1.5
#: The period is learned from the last intervals, and is known from this many on.
_INTERVALS: Final = 9
_INTERVALS_LEAST: Final = 4
_MINUTE_US: Final = 60_000_000
#: So many brokers are remembered; beyond them beats are rows.
BROKERS_MAX: Final = 50_000


class Beat(NamedTuple):
    """A broker was heard."""

    moment: Moment
    who: Who
    kind: str
    #: Ms since it was heard before; None at the first beat.
    interval_ms: int | None
    timeout_ms: int
    #: Data version: counter, Unix ms, state version.
    data_version: tuple[int, int, int] | None = None
    #: End of its log, and the master epoch there.
    max_offset: int | None = None
    epoch: int | None = None


class NotedBeat(NamedTuple):
    """A beat that gets a row."""

    beat: Beat
    #: `beat`, or `gap` where its broker's beats are summarised.
    event_type: str
    period_ms: int | None


class Summary(NamedTuple):
    """The beats of one broker in one minute."""

    moment: Moment
    who: Who
    minute_us: int
    kind: str
    period_ms: int
    timeout_ms: int
    intervals_ms: tuple[int, ...]
    #: The period in force when each of them came, by which it is judged, as it was for its row if it came late.
    periods_ms: tuple[int, ...]

    @property
    def hist(self) -> list[int]:
        """Return how many intervals fall into each bin of INTERVAL_BINS."""
        bins = [0] * (len(INTERVAL_BINS) + 1)
        for interval_ms, period_ms in self._judged():
            bins[bisect_left(INTERVAL_BINS, interval_ms / period_ms)] += 1
        return bins

    @property
    def missed(self) -> int:
        """Return how many beats did not come."""
        return sum(max(0, round(interval_ms / period_ms) - 1) for interval_ms, period_ms in self._judged())

    @property
    def late(self) -> int:
        """Return how many came late."""
        return sum(interval_ms > LATE_PERIODS * period_ms for interval_ms, period_ms in self._judged())

    def _judged(self) -> Iterator[tuple[int, int]]:
        return zip(self.intervals_ms, self.periods_ms, strict=True)


def _period_ms(intervals_ms: Sequence[int]) -> int:
    """Return the median, unless two streams of beats are mixed: then the longer interval.

    A broker in controller mode sends two, each of its period, at any distance from each other; a median would be that
    distance. Any two neighbours have one sum then.
    """
    sums = [one + other for one, other in pairwise(intervals_ms)]
    usual_ms = median(sums)
    same = sum(10 * abs(each - usual_ms) <= usual_ms for each in sums)
    if 4 * same < 3 * len(sums):
        return max(1, round(median(intervals_ms)))
    return max(1, sorted(intervals_ms)[(len(intervals_ms) - 1) * 3 // 4])


class _Rhythm:
    """How one broker beats."""

    __slots__ = ("intervals_ms", "last", "minute", "minute_periods_ms", "minute_us", "period_ms")

    def __init__(self, first: Beat) -> None:
        #: The beat before.
        self.last = first
        self.intervals_ms: deque[int] = deque(maxlen=_INTERVALS)
        self.period_ms: int | None = None
        #: The intervals of the present minute, by its beginning.
        self.minute: list[int] = []
        #: The period in force when each of them came.
        self.minute_periods_ms: list[int] = []
        self.minute_us = 0

    def learn(self, interval_ms: int) -> None:
        """Take an interval into account; a pause says nothing about the rhythm, which passes over it."""
        self.intervals_ms.append(interval_ms)
        is_usual = self.period_ms is not None and 10 * abs(interval_ms - self.period_ms) <= self.period_ms
        if len(self.intervals_ms) >= _INTERVALS_LEAST and not is_usual:
            self.period_ms = _period_ms(self.intervals_ms)


class Beats:
    """Decides what is recorded of each beat."""

    def __init__(self) -> None:
        self._rhythms: dict[tuple[str | None, str | None, int | None], _Rhythm] = {}

    def take(self, beat: Beat) -> Iterator[NotedBeat | Summary]:
        """Yield what is to be recorded now that a broker beats; at the first beat of a minute, the one before."""
        key = beat.who[:3]
        rhythm = self._rhythms.get(key)
        if rhythm is None:
            if len(self._rhythms) >= BROKERS_MAX:
                yield NotedBeat(beat, "beat", None)
                return
            rhythm = self._rhythms[key] = _Rhythm(beat)
        last, rhythm.last = rhythm.last, beat
        if beat.interval_ms is None:
            # Another process, or back after it was given up: it may have another rhythm.
            yield from self._ended(rhythm, last, beat.moment)
            rhythm.intervals_ms.clear()
            rhythm.period_ms = None
            yield NotedBeat(beat, "beat", None)
            return
        period_ms = rhythm.period_ms
        rhythm.learn(beat.interval_ms)
        if period_ms is None or period_ms >= SUMMARISED_BELOW_MS:
            # It was quick before: what is left of that would wait until it is so again.
            yield from self._ended(rhythm, last, beat.moment)
            yield NotedBeat(beat, "beat", period_ms)
            return
        minute_us = beat.moment.unix_us // _MINUTE_US * _MINUTE_US
        if minute_us != rhythm.minute_us:
            yield from self._ended(rhythm, last, beat.moment)
            rhythm.minute_us = minute_us
        rhythm.minute.append(beat.interval_ms)
        rhythm.minute_periods_ms.append(period_ms)
        if beat.interval_ms > LATE_PERIODS * period_ms:
            yield NotedBeat(beat, "gap", period_ms)

    def forget(self, cluster: str, broker_name: str, broker_id: int, moment: Moment) -> Iterator[Summary]:
        """Forget a broker that has left, and yield the summary of its last minute."""
        rhythm = self._rhythms.pop((cluster, broker_name, broker_id), None)
        if rhythm is not None:
            yield from self._ended(rhythm, rhythm.last, moment)

    @staticmethod
    def _ended(rhythm: _Rhythm, last: Beat, moment: Moment) -> Iterator[Summary]:
        """Yield the summary of the minute that ended with a beat, if there was an interval in it."""
        if rhythm.minute:
            yield Summary(
                moment,
                last.who,
                rhythm.minute_us,
                last.kind,
                rhythm.minute_periods_ms[-1],
                last.timeout_ms,
                tuple(rhythm.minute),
                tuple(rhythm.minute_periods_ms),
            )
        rhythm.minute.clear()
        rhythm.minute_periods_ms.clear()
