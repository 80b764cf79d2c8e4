"""What is recorded of heartbeats: each one where they are rare, a summary of each minute where they are frequent.

Answers to no Java class. Works on the event loop, where a heartbeat arrives, so that a server that receives ten
thousand a second hands over only some rows of each minute. Pure: the time is an argument.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from history.schemas import HEARTBEAT, HEARTBEAT_SUMMARY, INTERVAL_BINS

#: Heartbeats of a shorter period are summarised.
SUMMARISED_BELOW_MS: Final = 10_000
#: An interval of more than this many periods is late, and gets a row of its own.
LATE_PERIODS: Final = 1.5
#: The period is computed from the last 9 intervals, and is known from the 4th on.
_INTERVALS: Final = 9
_INTERVALS_LEAST: Final = 4
_MINUTE_US: Final = 60_000_000
#: The periods of this many brokers are kept; heartbeats of others become a row each.
BROKERS_MAX: Final = 50_000


class Heartbeat(NamedTuple):
    """A heartbeat of a broker, of whatever kind."""

    moment: Moment
    broker: BrokerRef
    kind: str
    #: Ms since the heartbeat before; None at the first one.
    interval_ms: int | None
    timeout_ms: int
    #: Data version: counter, Unix ms, state version.
    data_version: tuple[int, int, int] | None = None
    #: End of its log, and the master epoch there.
    max_offset: int | None = None
    epoch: int | None = None


class SingleHeartbeat(NamedTuple):
    """A heartbeat that gets a row of its own."""

    heartbeat: Heartbeat
    #: `heartbeat`, or `gap` where its broker's heartbeats are summarised.
    event_type: str
    period_ms: int | None

    @property
    def moment(self) -> Moment:
        return self.heartbeat.moment

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        heartbeat = self.heartbeat
        counter, timestamp, state_version = heartbeat.data_version or (None, None, None)
        yield maker.row(
            HEARTBEAT,
            self.event_type,
            moment,
            heartbeat.broker,
            kind=heartbeat.kind,
            interval_ms=heartbeat.interval_ms,
            period_ms=self.period_ms,
            timeout_ms=heartbeat.timeout_ms,
            dv_counter=counter,
            dv_timestamp=timestamp,
            dv_state_version=state_version,
            max_offset=heartbeat.max_offset,
            epoch=heartbeat.epoch,
        )


class HeartbeatSummary(NamedTuple):
    """The heartbeats of one broker in one minute."""

    moment: Moment
    broker: BrokerRef
    minute_us: int
    kind: str
    period_ms: int
    timeout_ms: int
    intervals_ms: tuple[int, ...]
    #: The period in force when each interval ended: it decides whether the interval was late.
    periods_ms: tuple[int, ...]

    @property
    def hist(self) -> list[int]:
        bins = [0] * (len(INTERVAL_BINS) + 1)
        for interval_ms, period_ms in self._pairs():
            bins[bisect_left(INTERVAL_BINS, interval_ms / period_ms)] += 1
        return bins

    @property
    def missed(self) -> int:
        return sum(max(0, round(interval_ms / period_ms) - 1) for interval_ms, period_ms in self._pairs())

    @property
    def late(self) -> int:
        return sum(interval_ms > LATE_PERIODS * period_ms for interval_ms, period_ms in self._pairs())

    def _pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self.intervals_ms, self.periods_ms, strict=True)

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        intervals_ms = self.intervals_ms
        yield maker.row(
            HEARTBEAT_SUMMARY,
            "summary",
            moment,
            self.broker,
            minute=self.minute_us,
            kind=self.kind,
            period_ms=self.period_ms,
            timeout_ms=self.timeout_ms,
            n=len(intervals_ms),
            missed=self.missed,
            late=self.late,
            interval_min_ms=min(intervals_ms),
            interval_max_ms=max(intervals_ms),
            interval_sum_ms=sum(intervals_ms),
            interval_sumsq_ms2=sum(each * each for each in intervals_ms),
            hist=self.hist,
        )


def _period_ms(intervals_ms: Sequence[int]) -> int:
    """Return the median, unless two streams of heartbeats are mixed: then the longer interval.

    A broker in controller mode sends two streams, each with its period, at any distance from each other; a median
    would be that distance. Any two neighbours have one sum then.
    """
    sums = [one + other for one, other in pairwise(intervals_ms)]
    usual_ms = median(sums)
    same = sum(10 * abs(each - usual_ms) <= usual_ms for each in sums)
    if 4 * same < 3 * len(sums):
        return max(1, round(median(intervals_ms)))
    return max(1, sorted(intervals_ms)[(len(intervals_ms) - 1) * 3 // 4])


class _Stream:
    """The heartbeats of one broker: their period, and the intervals of the present minute."""

    __slots__ = ("intervals_ms", "last", "minute", "minute_periods_ms", "minute_us", "period_ms")

    def __init__(self, first: Heartbeat) -> None:
        self.last = first
        self.intervals_ms: deque[int] = deque(maxlen=_INTERVALS)
        self.period_ms: int | None = None
        #: The intervals of the present minute, by its beginning.
        self.minute: list[int] = []
        #: The period in force when each of them ended.
        self.minute_periods_ms: list[int] = []
        self.minute_us = 0

    def add_interval(self, interval_ms: int) -> None:
        """Update the period; an interval within 10 % of it leaves it as it is."""
        self.intervals_ms.append(interval_ms)
        is_usual = self.period_ms is not None and 10 * abs(interval_ms - self.period_ms) <= self.period_ms
        if len(self.intervals_ms) >= _INTERVALS_LEAST and not is_usual:
            self.period_ms = _period_ms(self.intervals_ms)


class HeartbeatAggregator:
    """Decides what is recorded of each heartbeat."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str | None, str | None, int | None], _Stream] = {}

    def add(self, heartbeat: Heartbeat) -> Iterator[SingleHeartbeat | HeartbeatSummary]:
        """Yield what to record now that a heartbeat arrived; at the first one of a minute, the minute before."""
        key = heartbeat.broker[:3]
        stream = self._streams.get(key)
        if stream is None:
            if len(self._streams) >= BROKERS_MAX:
                yield SingleHeartbeat(heartbeat, "heartbeat", None)
                return
            stream = self._streams[key] = _Stream(heartbeat)
        last, stream.last = stream.last, heartbeat
        if heartbeat.interval_ms is None:
            # Another process, or back after it expired: it may have another period.
            yield from self._end_minute(stream, last, heartbeat.moment)
            stream.intervals_ms.clear()
            stream.period_ms = None
            yield SingleHeartbeat(heartbeat, "heartbeat", None)
            return
        period_ms = stream.period_ms
        stream.add_interval(heartbeat.interval_ms)
        if period_ms is None or period_ms >= SUMMARISED_BELOW_MS:
            # The period was short before: the minute begun then would wait until it is short again.
            yield from self._end_minute(stream, last, heartbeat.moment)
            yield SingleHeartbeat(heartbeat, "heartbeat", period_ms)
            return
        minute_us = heartbeat.moment.unix_us // _MINUTE_US * _MINUTE_US
        if minute_us != stream.minute_us:
            yield from self._end_minute(stream, last, heartbeat.moment)
            stream.minute_us = minute_us
        stream.minute.append(heartbeat.interval_ms)
        stream.minute_periods_ms.append(period_ms)
        if heartbeat.interval_ms > LATE_PERIODS * period_ms:
            yield SingleHeartbeat(heartbeat, "gap", period_ms)

    def remove(self, cluster: str, broker_name: str, broker_id: int, moment: Moment) -> Iterator[HeartbeatSummary]:
        stream = self._streams.pop((cluster, broker_name, broker_id), None)
        if stream is not None:
            yield from self._end_minute(stream, stream.last, moment)

    @staticmethod
    def _end_minute(stream: _Stream, last: Heartbeat, moment: Moment) -> Iterator[HeartbeatSummary]:
        """Yield the summary of the minute that ended with a heartbeat, if an interval ended in it."""
        if stream.minute:
            yield HeartbeatSummary(
                moment,
                last.broker,
                stream.minute_us,
                last.kind,
                stream.minute_periods_ms[-1],
                last.timeout_ms,
                tuple(stream.minute),
                tuple(stream.minute_periods_ms),
            )
        stream.minute.clear()
        stream.minute_periods_ms.clear()
