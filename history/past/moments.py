"""What a NameServer served at a moment: finds where its reading begins, and says which times are unobserved."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from history.past.rows import History, StoredRow, as_written
from history.past.topic_replay import TopicReplay
from history.retention import DAYS_MAX
from history.schemas import BROKER_STATE, NS_LIFECYCLE, NS_TICK, ROUTE_CHANGE, ROUTE_SNAPSHOT, UNOBSERVED_AFTER_MS
from history.server_rows import CLOCK_SET, HEARTBEATS_MISSING, ClockSet
from history.times import time_of, unix_us
from remoting.protocol.shapes.history import PastRoute
from remoting.protocol.shapes.route import TopicRouteData

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


#: So far apart two moments of one time of day are two.
_SAME_US: Final = 1_000_000


class _Piece(NamedTuple):
    """While the time of day was ahead of the monotonic clock by the same, us of that clock."""

    since_us: int
    until_us: int
    offset_us: int


class ServerClock:
    """The wall clock of one process, which may have been set: its rows have their order by the monotonic clock."""

    def __init__(self, lifecycle: Sequence[StoredRow]) -> None:
        """Take what is recorded of its lifecycle; nothing is known of a clock that was never set."""
        found = (row for row in lifecycle if row.event_type == CLOCK_SET and row.detail is not None)
        # Each change has two rows, by either time of day.
        changes = {row.mono_us: msgspec.json.decode(row.detail or "", type=ClockSet) for row in found}
        self._pieces = list(_pieces(sorted(changes.items())))

    @property
    def was_set(self) -> bool:
        return bool(self._pieces)

    def moments(self, unix_us: int) -> list[int]:
        """Return when it showed a time of day, in us of the monotonic clock, ascending; twice is possible, or never."""
        found: list[int] = []
        for piece in self._pieces:
            mono_us = unix_us - piece.offset_us
            if piece.since_us <= mono_us <= piece.until_us and not (found and mono_us - found[-1] <= _SAME_US):
                found.append(mono_us)
        return sorted(found)

    def last_before(self, unix_us: int) -> int:
        """Return the last moment before it was set over a time of day that it never showed."""
        ends = (piece.until_us for piece in self._pieces if piece.until_us + piece.offset_us <= unix_us)
        # What is recorded at that moment happened with the new time.
        return max(ends, default=0) - 1

    def spans(self, since_us: int, until_us: int) -> list[tuple[int, int]]:
        """Return which times of day, Unix us, it showed between two moments of the monotonic clock."""
        spans = []
        for piece in self._pieces:
            first, last = max(piece.since_us, since_us), min(piece.until_us, until_us)
            if first <= last:
                spans.append((first + piece.offset_us, last + piece.offset_us))
        return spans


def _pieces(changes: Sequence[tuple[int, ClockSet]]) -> Iterator[_Piece]:
    since_us = 0
    for mono_us, change in changes:
        # It was set at some moment after the row before.
        yield _Piece(since_us, mono_us, change.former_offset_us)
        since_us = change.since_mono_us
    if changes:
        yield _Piece(since_us, _EVER_US, changes[-1][1].offset_us)


class NotRecorded(Exception):
    """Nothing of that time is in the history."""


class _Boot(NamedTuple):
    ns_id: str
    boot_id: str
    #: When it started; None if that was before all that is kept.
    began: datetime | None
    #: Its lifecycle rows around the moment in question, by ascending numbers.
    lifecycle: Sequence[StoredRow]


class _Start(NamedTuple):
    """Where the reading of a route begins."""

    first: datetime
    #: The first row that counts.
    number: int
    #: Rows of other snapshots count for nothing: those are not finished, or a part of them is gone.
    snapshot_id: str | None = None

    def counts(self, row: StoredRow) -> bool:
        return row.number >= self.number and (row.scope != "all" or row.snapshot_id == self.snapshot_id)


class Moments:
    """Returns what was served at a moment."""

    def __init__(self, history: History, now: datetime) -> None:
        """Take the history, and the present time: what has just happened may not be written yet."""
        self._history = history
        self._now = now

    def seen(self, topic: str, at: datetime, ns_id: str | None = None) -> list[PastRoute]:
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
        """Return which servers and times the history has, for the answer to an unknown one."""
        rows = self._history.rows(NS_LIFECYCLE.name, _EVER, self._now + _AHEAD_MAX)
        lifecycles = [(row.event_time.isoformat(), row.ns_id) for row in rows if row.source == _NAMESRV]
        if not lifecycles:
            return "the history has nothing of any NameServer"
        names = ", ".join(sorted({ns_id for _, ns_id in lifecycles}))
        return f"the history has {names}, from {min(lifecycles)[0]} to {max(lifecycles)[0]}"

    def _boots(self, at: datetime, ns_id: str | None) -> list[_Boot]:
        """Return the process that each NameServer was at a time, or had been last."""
        lifecycle: dict[str, list[StoredRow]] = {}
        latest: dict[str, StoredRow] = {}
        for row in self._history.rows(NS_LIFECYCLE.name, at - _DAYS, min(self._now + _AHEAD_MAX, at + _DAYS), ns_id):
            if row.source == _NAMESRV:
                lifecycle.setdefault(row.boot_id, []).append(row)
                # A clock that was set says nothing about which process was the last.
                if row.event_time <= at and row.event_type != CLOCK_SET:
                    latest[row.ns_id] = max(latest.get(row.ns_id, row), row, key=lambda each: each.event_time)
        return [_boot(latest[name], lifecycle[latest[name].boot_id]) for name in sorted(latest)]

    def _seen_by(self, boot: _Boot, topic: str, at: datetime) -> PastRoute:
        clock = ServerClock(boot.lifecycle)
        if clock.was_set:
            return self._seen_by_moment(boot, topic, at, clock)
        start = self._start(boot, at)
        if start is None:
            return PastRoute(ns_id=boot.ns_id, doubt=_NOT_KNOWN, route=None)
        rows = [row for row in self._rows(boot, topic, start.first, at) if start.counts(row)]
        doubt = self._unobserved(boot, at) or _missing(boot, at, start)
        return PastRoute(ns_id=boot.ns_id, doubt=doubt, route=_replayed(topic, rows))

    def _seen_by_moment(self, boot: _Boot, topic: str, at: datetime, clock: ServerClock) -> PastRoute:
        """As `_seen_by` for a process whose clock was set: what counts is what happened before, not its time of day."""
        moments = clock.moments(unix_us(at))
        mono_us = moments[-1] if moments else clock.last_before(unix_us(at))
        start = self._start(boot, at, mono_us)
        if start is None:
            return PastRoute(ns_id=boot.ns_id, doubt=_NOT_KNOWN, route=None)
        # From a snapshot on, or from the start.
        since_us = mono_us - (_SNAPSHOT_WITHIN + 2 * _HOUR) // _US if start.number else 0
        rows: dict[int, StoredRow] = {}
        for first, last in clock.spans(since_us, mono_us):
            for row in self._rows(boot, topic, time_of(first), time_of(last) + _SET_BACK):
                if start.counts(row) and row.mono_us <= mono_us:
                    rows[row.number] = row
        doubt = _of_clock(moments) or self._unobserved(boot, at) or _missing(boot, at, start)
        return PastRoute(ns_id=boot.ns_id, doubt=doubt, route=_replayed(topic, rows.values()))

    def _rows(self, boot: _Boot, topic: str, first: datetime, at: datetime) -> Iterator[StoredRow]:
        name, mine = as_written(topic), as_written(boot.boot_id)

        def is_of_topic(line: bytes) -> bool:
            return name in line and mine in line

        yield from (row for row in boot.lifecycle if row.event_type == "configured" and first <= row.event_time <= at)
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

    def _snapshot(self, boot: _Boot, at: datetime, mono_us: int) -> StoredRow | None:
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
                if self._is_complete(boot, row):
                    return row
            last -= _HOUR
        return None

    def _is_complete(self, boot: _Boot, finished: StoredRow) -> bool:
        """Return whether all rows of a snapshot are there: a part of them may be deleted where room is short."""
        wanted = as_written(finished.snapshot_id or "")
        first = finished.event_time - _HOUR
        count = self._history.count(
            ROUTE_SNAPSHOT.name,
            first,
            finished.event_time,
            boot.ns_id,
            lambda line: b'"queues"' in line and wanted in line,
        )
        # Schema version 1 counted topics there, of which a row may have many.
        wanted_rows = 1 if finished.schema_version < _ROWS_COUNTED_SINCE else finished.rows
        return count >= (wanted_rows or 0)

    def _first_number(self, boot: _Boot, snapshot: StoredRow, first: datetime) -> int:
        """Return the number of the first row that a reading from a snapshot on needs."""
        wanted = as_written(snapshot.snapshot_id or "")
        shown = self._history.rows(
            BROKER_STATE.name, first, snapshot.event_time, boot.ns_id, lambda line: wanted in line
        )
        begins = min([snapshot.number, *(row.number for row in shown if row.boot_id == boot.boot_id)])
        # The settings in force are recorded just before.
        known = [row.number for row in boot.lifecycle if row.event_type == "configured" and row.number < begins]
        return max(known, default=begins)

    def _unobserved(self, boot: _Boot, at: datetime) -> str:
        """Return why the moment may be unobserved; blank if the server's rows prove that it was watching."""
        nearby = at - _UNOBSERVED_AFTER, at + _UNOBSERVED_AFTER
        ticks = [row for row in self._history.rows(NS_TICK.name, *nearby, boot.ns_id) if row.boot_id == boot.boot_id]
        lifecycle = [row for row in boot.lifecycle if nearby[0] <= row.event_time <= nearby[1]]
        marks = sorted((*ticks, *lifecycle), key=lambda row: row.mono_us)
        if any(before.event_time - after.event_time > _SET_BACK for before, after in pairwise(marks)):
            return "the NameServer's clock was set back and showed this time twice; changes of both may be mixed up"
        before = next((row for row in reversed(marks) if row.event_time <= at), None)
        after = next((row.event_time for row in marks if row.event_time > at), None)
        if before is not None and before.event_type == "stopping":
            return f"the NameServer had stopped at {_utc(before.event_time)}; this is what it knew last"
        # What comes next is still to be written if it is queried at once.
        until = after or (self._now if self._now - at <= _UNOBSERVED_AFTER else None)
        if before is None or until is None or until - before.event_time > _UNOBSERVED_AFTER:
            return "unobserved: the NameServer was paused or down; this is what it knew last"
        return ""


def _replayed(topic: str, rows: Iterable[StoredRow]) -> TopicRouteData | None:
    replay = TopicReplay(topic)
    replay.apply(sorted(rows, key=lambda row: row.number))
    return replay.route()


def _boot(latest: StoredRow, lifecycle: Sequence[StoredRow]) -> _Boot:
    began = next((row.event_time for row in lifecycle if row.event_type == "started"), None)
    return _Boot(latest.ns_id, latest.boot_id, began, sorted(lifecycle, key=lambda row: row.number))


def _missing(boot: _Boot, at: datetime, start: _Start) -> str:
    """Return since when changes are missing; blank if none are, or a later snapshot has replaced them."""
    for row in boot.lifecycle:
        missing_from = row.unobserved_from
        if row.event_type != "recording_resumed" or row.reason == HEARTBEATS_MISSING or missing_from is None:
            continue
        if missing_from <= at and (at <= row.event_time or row.number > start.number):
            return f"changes are missing from {_utc(missing_from)} on"
    return ""


def _of_clock(moments: Sequence[int]) -> str:
    """Return why a time of day names no single moment of a process; blank if it names one."""
    if len(moments) > 1:
        return "the NameServer's clock was set back and showed this time twice; this is the later of both"
    return (
        "" if moments else "the NameServer's clock was set ahead and never showed this time; this is what it knew last"
    )


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
