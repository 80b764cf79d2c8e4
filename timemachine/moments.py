"""What a NameServer served at a moment: finds where its reading begins, and says where nobody was watching."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from history.retention import DAYS_MAX
from history.schemas import BROKER_STATE, NS_LIFECYCLE, NS_TICK, ROUTE_CHANGE, ROUTE_SNAPSHOT, UNOBSERVED_AFTER_MS
from history.server_rows import CLOCK_SET, HEARTBEATS_MISSING
from history.times import time_of, unix_us
from remoting.protocol.shapes.route import TopicRouteData
from timemachine.rows import History, Row, as_written
from timemachine.server_clock import ServerClock
from timemachine.topic_story import TopicStory

#: A snapshot is taken once a day at least.
_SNAPSHOT_WITHIN: Final = timedelta(hours=26)
_HOUR: Final = timedelta(hours=1)
#: The version of the history from which on the end of a snapshot tells how many rows it has.
_ROWS_COUNTED_SINCE: Final = 2
_DAYS: Final = timedelta(days=DAYS_MAX)
_EVER: Final = datetime.fromtimestamp(0, UTC)
_UNOBSERVED_AFTER: Final = timedelta(milliseconds=UNOBSERVED_AFTER_MS)
#: The clocks of servers may be ahead of ours by so much.
_AHEAD_MAX: Final = timedelta(minutes=1)
#: A clock that goes back by more was set.
_SET_BACK: Final = timedelta(seconds=1)
_NAMESRV: Final = "namesrv"
_EVER_US: Final = 2**62
_US: Final = timedelta(microseconds=1)
_NOT_KNOWN: Final = "its routes are not known: neither its start nor a snapshot is in the history"


class Seen(NamedTuple):
    """What one NameServer served at a moment."""

    ns_id: str
    route: TopicRouteData | None
    #: Why it may have been otherwise, for people; blank if it was so.
    doubt: str


class NotRecorded(Exception):
    """Nothing of that time is in the history."""


class _Boot(NamedTuple):
    """One process of a NameServer."""

    ns_id: str
    boot_id: str
    #: When it started; None if that was before all that is kept.
    began: datetime | None
    #: What is recorded of its life, around the moment in question; its numbers ascend.
    life: Sequence[Row]


class _Start(NamedTuple):
    """Where the reading of a route begins."""

    first: datetime
    #: The first row that counts.
    number: int
    #: Rows of other snapshots count for nothing: those are not finished, or a part of them is gone.
    snapshot_id: str | None = None

    def counts(self, row: Row) -> bool:
        """Tell whether a row is one of those that make the route."""
        return row.number >= self.number and (row.scope != "all" or row.snapshot_id == self.snapshot_id)


class Moments:
    """Answers questions about moments."""

    def __init__(self, history: History, now: datetime) -> None:
        """Take the history, and when it is asked: what has just happened may not be written yet."""
        self._history = history
        self._now = now

    def seen(self, topic: str, at: datetime, ns_id: str | None = None) -> list[Seen]:
        """Return what each NameServer, or the one of that id, served for a topic; raises NotRecorded."""
        if at > self._now + _AHEAD_MAX:
            raise NotRecorded(f"{at.isoformat()} is still to come")
        boots = self._boots(at, ns_id)
        if not boots:
            who = f"NameServer {ns_id}" if ns_id else "NameServer"
            raise NotRecorded(
                f"no {who} recorded anything in the {DAYS_MAX} days before {at.isoformat()}; {self._known()}"
            )
        return [self._seen_by(boot, topic, at) for boot in boots]

    def _known(self) -> str:
        """Say what the history has: who asks for another time or another server has to know."""
        rows = self._history.rows(NS_LIFECYCLE.name, _EVER, self._now + _AHEAD_MAX)
        lives = [(row.event_time.isoformat(), row.ns_id) for row in rows if row.source == _NAMESRV]
        if not lives:
            return "the history has nothing of any NameServer"
        names = ", ".join(sorted({ns_id for _, ns_id in lives}))
        return f"the history tells of {names}, from {min(lives)[0]} to {max(lives)[0]}"

    def _boots(self, at: datetime, ns_id: str | None) -> list[_Boot]:
        """Return the process that each NameServer was at a time, or had been last."""
        life: dict[str, list[Row]] = {}
        latest: dict[str, Row] = {}
        for row in self._history.rows(NS_LIFECYCLE.name, at - _DAYS, min(self._now + _AHEAD_MAX, at + _DAYS), ns_id):
            if row.source == _NAMESRV:
                life.setdefault(row.boot_id, []).append(row)
                # A clock that was set says nothing about which process was the last.
                if row.event_time <= at and row.event_type != CLOCK_SET:
                    latest[row.ns_id] = max(latest.get(row.ns_id, row), row, key=lambda each: each.event_time)
        return [_boot(latest[name], life[latest[name].boot_id]) for name in sorted(latest)]

    def _seen_by(self, boot: _Boot, topic: str, at: datetime) -> Seen:
        clock = ServerClock(boot.life)
        if clock.was_set:
            return self._seen_by_moment(boot, topic, at, clock)
        start = self._start(boot, at)
        if start is None:
            return Seen(boot.ns_id, None, _NOT_KNOWN)
        rows = [row for row in self._rows(boot, topic, start.first, at) if start.counts(row)]
        story = TopicStory(topic)
        story.apply(sorted(rows, key=lambda row: row.number))
        doubt = self._unwatched(boot, at) or _missing(boot, at, start)
        return Seen(boot.ns_id, story.route(), doubt)

    def _seen_by_moment(self, boot: _Boot, topic: str, at: datetime, clock: ServerClock) -> Seen:
        """As `_seen_by` for a process whose clock was set: what counts is what happened before, not its time of day."""
        moments = clock.moments(unix_us(at))
        mono_us = moments[-1] if moments else clock.last_before(unix_us(at))
        start = self._start(boot, at, mono_us)
        if start is None:
            return Seen(boot.ns_id, None, _NOT_KNOWN)
        # From a snapshot on, or from the start.
        since_us = mono_us - (_SNAPSHOT_WITHIN + 2 * _HOUR) // _US if start.number else 0
        rows: dict[int, Row] = {}
        for first, last in clock.spans(since_us, mono_us):
            for row in self._rows(boot, topic, time_of(first), time_of(last) + _SET_BACK):
                if start.counts(row) and row.mono_us <= mono_us:
                    rows[row.number] = row
        story = TopicStory(topic)
        story.apply(row for _, row in sorted(rows.items()))
        doubt = _of_clock(moments) or self._unwatched(boot, at) or _missing(boot, at, start)
        return Seen(boot.ns_id, story.route(), doubt)

    def _rows(self, boot: _Boot, topic: str, first: datetime, at: datetime) -> Iterator[Row]:
        """Yield all that the route of a topic depends on."""
        name, mine = as_written(topic), as_written(boot.boot_id)

        def is_of_topic(line: bytes) -> bool:
            return name in line and mine in line

        yield from (row for row in boot.life if row.event_type == "configured" and first <= row.event_time <= at)
        yield from self._history.rows(BROKER_STATE.name, first, at, boot.ns_id, lambda line: mine in line)
        for family in (ROUTE_CHANGE.name, ROUTE_SNAPSHOT.name):
            yield from self._history.rows(family, first, at, boot.ns_id, is_of_topic)

    def _start(self, boot: _Boot, at: datetime, mono_us: int = _EVER_US) -> _Start | None:
        """Return where to begin: with the last snapshot, or when the process did; None if neither is known."""
        snapshot = self._snapshot(boot, at, mono_us)
        if snapshot is None:
            return None if boot.began is None else _Start(boot.began, 0)
        first = snapshot.event_time - _HOUR
        number = self._first_number(boot, snapshot, first)
        return _Start(max(first, boot.began or first), number, snapshot.snapshot_id)

    def _snapshot(self, boot: _Boot, at: datetime, mono_us: int) -> Row | None:
        """Return the end of the last snapshot before a time, None if the process had taken none."""
        mine = as_written(boot.boot_id)
        last, earliest = at, at - _SNAPSHOT_WITHIN
        while last > max(boot.began or earliest, earliest):
            found = [
                row
                for row in self._history.rows(
                    ROUTE_SNAPSHOT.name,
                    last - _HOUR,
                    last,
                    boot.ns_id,
                    lambda line: b'"finished"' in line and mine in line,
                )
                if row.event_type == "finished" and row.mono_us <= mono_us
            ]
            for row in sorted(found, key=lambda row: row.number, reverse=True):
                if self._is_whole(boot, row):
                    return row
            last -= _HOUR
        return None

    def _is_whole(self, boot: _Boot, finished: Row) -> bool:
        """Tell whether all rows of a snapshot are there: a part of them may be deleted where room is short."""
        wanted = as_written(finished.snapshot_id or "")
        first = finished.event_time - _HOUR
        count = self._history.count(
            ROUTE_SNAPSHOT.name,
            first,
            finished.event_time,
            boot.ns_id,
            lambda line: b'"queues"' in line and wanted in line,
        )
        # The first version told of topics there, which may be many in a row.
        wanted_rows = 1 if finished.schema_version < _ROWS_COUNTED_SINCE else finished.rows
        return count >= (wanted_rows or 0)

    def _first_number(self, boot: _Boot, snapshot: Row, first: datetime) -> int:
        """Return the number of the first row that a reading from a snapshot on needs."""
        wanted = as_written(snapshot.snapshot_id or "")
        shown = self._history.rows(
            BROKER_STATE.name, first, snapshot.event_time, boot.ns_id, lambda line: wanted in line
        )
        begins = min([snapshot.number, *(row.number for row in shown if row.boot_id == boot.boot_id)])
        # The settings that are in force are told just before.
        told = [row.number for row in boot.life if row.event_type == "configured" and row.number < begins]
        return max(told, default=begins)

    def _unwatched(self, boot: _Boot, at: datetime) -> str:
        """Tell why nobody may have been watching; blank if what the server recorded proves that it was."""
        nearby = at - _UNOBSERVED_AFTER, at + _UNOBSERVED_AFTER
        ticks = [row for row in self._history.rows(NS_TICK.name, *nearby, boot.ns_id) if row.boot_id == boot.boot_id]
        life = [row for row in boot.life if nearby[0] <= row.event_time <= nearby[1]]
        marks = sorted((*ticks, *life), key=lambda row: row.mono_us)
        if any(before.event_time - after.event_time > _SET_BACK for before, after in pairwise(marks)):
            return "the NameServer's clock was set back and showed this time twice; changes of both may be mixed up"
        before = next((row for row in reversed(marks) if row.event_time <= at), None)
        after = next((row.event_time for row in marks if row.event_time > at), None)
        if before is not None and before.event_type == "stopping":
            return f"the NameServer had stopped at {_utc(before.event_time)}; this is what it knew last"
        # What comes next is still to be written if it is asked at once.
        until = after or (self._now if self._now - at <= _UNOBSERVED_AFTER else None)
        if before is None or until is None or until - before.event_time > _UNOBSERVED_AFTER:
            return "nobody was watching then: the NameServer stood still or was gone; this is what it knew last"
        return ""


def _boot(latest: Row, life: Sequence[Row]) -> _Boot:
    began = next((row.event_time for row in life if row.event_type == "started"), None)
    return _Boot(latest.ns_id, latest.boot_id, began, sorted(life, key=lambda row: row.number))


def _missing(boot: _Boot, at: datetime, start: _Start) -> str:
    """Tell since when changes are missing; blank if none are, or a later snapshot has made up for them."""
    for row in boot.life:
        missing_from = row.unobserved_from
        if row.event_type != "recording_resumed" or row.reason == HEARTBEATS_MISSING or missing_from is None:
            continue
        if missing_from <= at and (at <= row.event_time or row.number > start.number):
            return f"changes are missing from {_utc(missing_from)} on"
    return ""


def _of_clock(moments: Sequence[int]) -> str:
    """Tell why a time of day names no moment of a process; blank if it names one."""
    if len(moments) > 1:
        return "the NameServer's clock was set back and showed this time twice; this is the later of both"
    return (
        "" if moments else "the NameServer's clock was set ahead and never showed this time; this is what it knew last"
    )


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
