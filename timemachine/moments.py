"""What a NameServer served at a moment: finds where its reading begins, and says where nobody was watching."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from history.landing import STATES_DAYS
from history.schemas import BROKER_STATE, NS_LIFECYCLE, NS_TICK, ROUTE_CHANGE, ROUTE_SNAPSHOT, UNOBSERVED_AFTER_MS
from remoting.shapes.route import TopicRouteData
from timemachine.rows import History, Row
from timemachine.topic_story import TopicStory

#: A snapshot is taken once a day at least.
_SNAPSHOT_WITHIN: Final = timedelta(hours=26)
_HOUR: Final = timedelta(hours=1)
_UNOBSERVED_AFTER: Final = timedelta(milliseconds=UNOBSERVED_AFTER_MS)
_NAMESRV: Final = "namesrv"


class Seen(NamedTuple):
    """What one NameServer served at a moment."""

    ns_id: str
    route: TopicRouteData | None
    #: Why it may have been otherwise, for people; blank if it was so.
    doubt: str


class NotRecorded(Exception):
    """Nothing of that time is in the history."""


class Moments:
    """Answers questions about moments."""

    def __init__(self, history: History) -> None:
        self._history = history

    def seen(self, topic: str, at: datetime, ns_id: str | None = None) -> list[Seen]:
        """Return what each NameServer, or the one of that id, served for a topic; raises NotRecorded."""
        boots = self._boots(at, ns_id)
        if not boots:
            raise NotRecorded(f"no NameServer{f' {ns_id}' if ns_id else ''} had recorded anything by {at.isoformat()}")
        return [self._seen_by(boot, topic, at) for boot in boots]

    def _boots(self, at: datetime, ns_id: str | None) -> list[Row]:
        """Return the start of the process that each NameServer was at a time."""
        latest: dict[str, Row] = {}
        first = at - timedelta(days=STATES_DAYS)
        for row in self._history.rows(NS_LIFECYCLE.name, first, at, ns_id, lambda line: b'"started"' in line):
            if row.event_type == "started" and row.source == _NAMESRV:
                latest[row.ns_id] = max(latest.get(row.ns_id, row), row, key=lambda each: each.event_time)
        return [latest[name] for name in sorted(latest)]

    def _seen_by(self, boot: Row, topic: str, at: datetime) -> Seen:
        snapshot = self._snapshot(boot, at)
        first = boot.event_time if snapshot is None else snapshot.event_time - _HOUR
        since = 0 if snapshot is None else self._first_number(boot, snapshot)
        rows = [row for row in self._rows(boot, topic, max(first, boot.event_time), at) if row.number >= since]
        story = TopicStory(topic)
        story.apply(sorted(rows, key=lambda row: row.number))
        return Seen(boot.ns_id, story.route(), self._doubt(boot, at))

    def _rows(self, boot: Row, topic: str, first: datetime, at: datetime) -> Iterator[Row]:
        """Yield all that the route of a topic depends on."""
        name = topic.encode()
        read = self._history.rows
        mine = boot.boot_id.encode()

        def is_of_topic(line: bytes) -> bool:
            return name in line and mine in line

        yield from read(NS_LIFECYCLE.name, first, at, boot.ns_id, lambda line: mine in line and b'"configured"' in line)
        yield from read(BROKER_STATE.name, first, at, boot.ns_id, lambda line: mine in line)
        for family in (ROUTE_CHANGE.name, ROUTE_SNAPSHOT.name):
            yield from read(family, first, at, boot.ns_id, is_of_topic)

    def _snapshot(self, boot: Row, at: datetime) -> Row | None:
        """Return the end of the last snapshot before a time, None if the process had taken none."""
        mine = boot.boot_id.encode()
        last = at
        while last > max(boot.event_time, at - _SNAPSHOT_WITHIN):
            found = [
                row
                for row in self._history.rows(
                    ROUTE_SNAPSHOT.name,
                    last - _HOUR,
                    last,
                    boot.ns_id,
                    lambda line: b'"finished"' in line and mine in line,
                )
                if row.event_type == "finished"
            ]
            if found:
                return max(found, key=lambda row: row.number)
            last -= _HOUR
        return None

    def _first_number(self, boot: Row, snapshot: Row) -> int:
        """Return the number of the first row that a reading from a snapshot on needs."""
        first = max(boot.event_time, snapshot.event_time - _HOUR)
        wanted = f'"{snapshot.snapshot_id}"'.encode()
        shown = self._history.rows(
            BROKER_STATE.name, first, snapshot.event_time, boot.ns_id, lambda line: wanted in line
        )
        # The settings that are in force are told just before.
        configured = [
            row.number
            for row in self._history.rows(
                NS_LIFECYCLE.name, first, snapshot.event_time, boot.ns_id, lambda line: b'"configured"' in line
            )
            if row.number < snapshot.number and row.boot_id == boot.boot_id
        ]
        numbers = [row.number for row in shown if row.boot_id == boot.boot_id]
        return min([*configured[-1:], *numbers, snapshot.number])

    def _doubt(self, boot: Row, at: datetime) -> str:
        """Tell where nobody was watching, or changes are missing; blank if all is known."""
        near = [
            row.event_time
            for row in self._history.rows(NS_TICK.name, at - _UNOBSERVED_AFTER, at + _UNOBSERVED_AFTER, boot.ns_id)
            if row.boot_id == boot.boot_id
        ]
        is_watched = any(each <= at for each in (*near, boot.event_time) if at - each <= _UNOBSERVED_AFTER)
        if not is_watched:
            return "nobody was watching then: the NameServer stood still or was gone; this is what it knew last"
        for row in self._history.rows(
            NS_LIFECYCLE.name, at - _SNAPSHOT_WITHIN, at + _HOUR, boot.ns_id, lambda line: b"recording_resumed" in line
        ):
            missing_from = row.unobserved_from
            if row.boot_id == boot.boot_id and missing_from is not None and missing_from <= at <= row.event_time:
                return f"changes are missing from {missing_from.astimezone(UTC).isoformat()} on"
        return ""
