"""All offsets in memory, and the only place where they change. Pure.

A queue has two values while a change is being stored: the decided one, on which the next decision is made, and the
durable one, which readers get. So decisions need no lock, and nobody reads what a crash would take back:

    decision = decide_commit(table, ...)   # pure
    table.stage(decision.changes)          # at once, before anything else is decided
    ...                                    # stored, which takes milliseconds; others decide meanwhile
    table.confirm(decision.changes)        # readers see it now, and the results are answered
    table.withdraw(decision.changes)       # instead, if it could not be stored

Confirmations may come in any order: the durable value is the newest one that was confirmed (`is_newer`).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from offsets.commits.stored import DELETED_KEPT_MS, Change, RowName, StoredOffset, is_newer

#: Offsets on a page, unless its last row has more queues.
PAGE_OFFSETS_MAX: Final = 1_000
#: Rows that are looked at for one page: some 2 ms.
PAGE_ROWS_MAX: Final = 10_000
LOADING: Final = "the offsets are being loaded: repeat in a second"


class Scope(NamedTuple):
    cluster: str
    namespace: str
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None

    def covers(self, name: RowName) -> bool:
        return (
            (self.group is None or self.group == name.group)
            and (self.topic is None or self.topic == name.topic)
            and (self.broker_name is None or self.broker_name == name.broker_name)
            and self.cluster == name.cluster
            and self.namespace == name.namespace
        )


class Flight:
    """A queue whose changes are being stored."""

    __slots__ = ("decided", "waiting")

    def __init__(self, decided: StoredOffset) -> None:
        self.decided = decided
        #: Changes that are neither confirmed nor withdrawn.
        self.waiting = 1


class Row:
    __slots__ = ("flights", "queues", "revision")

    def __init__(self) -> None:
        #: Durable values by queue id, those of deletions too.
        self.queues: dict[int, StoredOffset] = {}
        #: None while nothing is being stored: there may be a million rows.
        self.flights: dict[int, Flight] | None = None
        #: Of its key in etcd; 0: it is not there.
        self.revision = 0

    def decided(self, queue_id: int) -> StoredOffset | None:
        """Return the value on which the next decision is made."""
        if self.flights is not None and (flight := self.flights.get(queue_id)) is not None:
            return flight.decided
        return self.queues.get(queue_id)

    def is_in_flight(self, queue_id: int) -> bool:
        return self.flights is not None and queue_id in self.flights

    def begins_epoch(self, queue_id: int) -> bool:
        """Return whether a reset or a deletion is being stored; if that fails, the value before it counts again."""
        if self.flights is None or (flight := self.flights.get(queue_id)) is None:
            return False
        durable = self.queues.get(queue_id)
        return flight.decided.reset_epoch != (0 if durable is None else durable.reset_epoch)


class Page(NamedTuple):
    offsets: list[tuple[RowName, int, StoredOffset]]
    #: Where the next page begins; None on the last one.
    next: int | None
    #: Rows of the scope that cannot be read, with the reasons; on the last page alone.
    unreadable: list[tuple[RowName, str]]


class OffsetTable:
    def __init__(self, offsets_max: int, lead: int = 0) -> None:
        """Take the number of this manager's lead, higher than those before it; 0: no other manager ever leads."""
        self.offsets_max: Final = offsets_max
        self.lead: Final = lead
        self.rows: Final[dict[RowName, Row]] = {}
        self.unreadable: Final[dict[RowName, str]] = {}
        self.is_loaded = False
        #: Durable offsets, and deletions that are remembered.
        self.count = self.deleted = 0
        #: Queues that get their first offset, and are being stored.
        self._created = 0
        #: Rows in the order of pages, and their places by cluster, namespace and group.
        self._order: list[RowName] = []
        self._of_group: dict[tuple[str, str, str], list[int]] = {}
        #: Raised when places change: cursors of the ones before are refused.
        self.generation = 0
        self._names: dict[str, str] = {}

    @property
    def room(self) -> int:
        """How many more offsets may be stored; as many deletions are remembered besides."""
        return self.offsets_max - self.count - self._created - max(0, self.deleted - self.offsets_max)

    def why_unavailable(self, name: RowName) -> str:
        """Return why a row that is not here cannot be read; blank if it is absent."""
        return self.unreadable.get(name, "") or ("" if self.is_loaded else LOADING)

    def read(self, name: RowName, queue_id: int) -> StoredOffset | None:
        """Return the durable value of a queue of a row that is available."""
        return None if (row := self.rows.get(name)) is None else row.queues.get(queue_id)

    # Changes

    def stage(self, changes: Iterable[Change]) -> None:
        """Make what was decided the base of the next decisions; readers do not see it yet."""
        for name, queue_id, _, after in changes:
            row = self.rows.get(name) or self._make_row(name)
            if row.flights is None:
                row.flights = {}
            if (flight := row.flights.get(queue_id)) is None:
                row.flights[queue_id] = Flight(after)
                self._created += _is_absent(row.queues.get(queue_id))
            else:
                flight.decided = after
                flight.waiting += 1

    def confirm(self, changes: Iterable[Change]) -> None:
        """Show staged changes to readers: they are durable."""
        for name, queue_id, _, after in changes:
            row = self.rows[name]
            self._land(row, queue_id)
            self._raise(row, queue_id, after)

    def withdraw(self, changes: Iterable[Change]) -> None:
        """Take staged changes back: they could not be stored.

        What was decided on them stays and may be stored: it is newer than they were, and nothing is decided on a reset
        or a deletion that is not durable.
        """
        for name, queue_id, _, _ in changes:
            self._land(self.rows[name], queue_id)

    def merge(self, name: RowName, queues: Mapping[int, StoredOffset], revision: int = 0) -> None:
        """Take what the store has of a row; newer values in memory stay."""
        row = self.rows.get(name) or self._make_row(name)
        row.revision = revision
        for queue_id, value in queues.items():
            self._raise(row, queue_id, value)

    def forget_deleted(self, unix_ms: int) -> list[RowName]:
        """Forget deletions of longer than DELETED_KEPT_MS ago, and return the rows that the store has to write again.

        Rows without offsets are dropped once the store has forgotten them too (`drop_empty`).
        """
        changed = []
        for name, row in self.rows.items():
            expired = [
                queue_id
                for queue_id, value in row.queues.items()
                if value.is_deleted and value.unix_ms < unix_ms - DELETED_KEPT_MS and not row.is_in_flight(queue_id)
            ]
            for queue_id in expired:
                del row.queues[queue_id]
            self.deleted -= len(expired)
            if expired:
                changed.append(name)
        return changed

    def drop_empty(self) -> None:
        """Drop rows without offsets, if the store does not have them either."""
        empty = [name for name, row in self.rows.items() if not (row.queues or row.flights or row.revision)]
        if not empty:
            return
        for name in empty:
            del self.rows[name]
        self._order, self._of_group, self.generation = [], {}, self.generation + 1
        for name in self.rows:
            self._place(name)

    def _land(self, row: Row, queue_id: int) -> None:
        flights = row.flights
        assert flights is not None, "what is confirmed or withdrawn was staged"
        flight = flights[queue_id]
        flight.waiting -= 1
        if not flight.waiting:
            self._created -= _is_absent(row.queues.get(queue_id))
            del flights[queue_id]
            row.flights = flights or None

    def _raise(self, row: Row, queue_id: int, value: StoredOffset) -> None:
        before = row.queues.get(queue_id)
        if not is_newer(value, before):
            return
        row.queues[queue_id] = value
        if before is None or (before.offset < 0) != (value.offset < 0):
            self.count += (value.offset >= 0) - (before is not None and before.offset >= 0)
            self.deleted += (value.offset < 0) - (before is not None and before.offset < 0)
            if row.is_in_flight(queue_id):
                # Whether it gets its first offset has changed under way.
                self._created += _is_absent(value) - _is_absent(before)

    def _make_row(self, name: RowName) -> Row:
        # Equal names are kept once.
        shared = RowName._make(self._names.setdefault(text, text) for text in name)
        row = self.rows[shared] = Row()
        self._place(shared)
        return row

    def _place(self, name: RowName) -> None:
        self._of_group.setdefault(name[:3], []).append(len(self._order))
        self._order.append(name)

    # Pages

    def walk(self, scope: Scope, start: int = 0) -> Iterator[tuple[int, RowName | None]]:
        """Yield places and rows from a place on, None for a row out of the scope; with a group its rows alone."""
        places: Iterable[int] = range(start, len(self._order))
        if scope.group is not None:
            of_group = self._of_group.get((scope.cluster, scope.namespace, scope.group), [])
            places = of_group[bisect_left(of_group, start) :]
        for place in places:
            name = self._order[place]
            yield place, name if scope.covers(name) else None

    def page(self, scope: Scope, start: int, offsets_max: int) -> Page:
        """Return the durable offsets of a scope from a place on: all queues of each row on the page."""
        found: list[tuple[RowName, int, StoredOffset]] = []
        for looked, (place, name) in enumerate(self.walk(scope, start)):
            if looked == PAGE_ROWS_MAX or len(found) >= min(offsets_max, PAGE_OFFSETS_MAX):
                return Page(found, place, [])
            if name is not None:
                queues = sorted(self.rows[name].queues.items())
                found += [(name, queue_id, value) for queue_id, value in queues if not value.is_deleted]
        return Page(found, None, [(name, why) for name, why in self.unreadable.items() if scope.covers(name)])


def _is_absent(value: StoredOffset | None) -> bool:
    return value is None or value.offset < 0
