"""The offsets in memory, and the only place where they change.

Rows have two values for as long as a change is being stored: what was *decided*, from which the next decision goes
on, and what is *durable*, which readers get. So decisions need no lock and no reader sees what a crash would take
back:

    decision = decide_...(table, ...)      # pure
    table.stage(decision.changes)          # at once, before anything else is decided
    journal.record(decision.changes)       # takes milliseconds; others decide meanwhile
    table.confirm(decision.changes)        # now readers see it, and the results are answered
    table.withdraw(decision.changes)       # instead, if it could not be stored: answer UNKNOWN

Decisions may be confirmed and withdrawn in any order: those that wait for a remote store end later than others.

A row is the offsets of one group in one topic on one broker set: loaded as a whole, and absent queues of a loaded row
are absent indeed. Source: docs/protocol/offsets.md 7.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.entry_checks import OffsetLimits
from controller.offsets.commits.page_order import PageOrder
from controller.offsets.commits.results import OffsetNotFound, OffsetUnavailable, ReadAnswer
from controller.offsets.values import NO_TOKEN, GroupTopic, QueueKey, StoredOffset

#: Rows without offsets are cleared away when there are so many, and as many as those with offsets.
EMPTY_ROWS_MIN: Final = 1_000
_NOT_FOUND: Final = OffsetNotFound()
_LOADING: Final = "the offsets are being loaded: repeat in a second"
_NOT_IN_FLIGHT: Final[Mapping[int, "QueueInFlight"]] = MappingProxyType({})
_NOTHING: Final[Mapping[int, StoredOffset]] = MappingProxyType({})


class QueueInFlight:
    """A queue whose changes are being stored."""

    __slots__ = ("_overtaken", "_staged", "durable")

    def __init__(self, durable: StoredOffset | None, after: StoredOffset | None) -> None:
        #: What readers see until then.
        self.durable = durable
        #: The values that are on their way, in the order in which they were decided.
        self._staged: list[StoredOffset | None] = [after]
        #: So many of them, the first ones, were decided before the durable one: readers never see them.
        self._overtaken = 0

    @property
    def is_over(self) -> bool:
        """Return whether nothing is on its way any more."""
        return not self._staged

    def begins_epoch(self, decided: StoredOffset | None) -> bool:
        """Return whether what was decided last is a removal, or in a reset epoch that is not durable yet."""
        durable = 0 if self.durable is None else self.durable.reset_epoch
        return decided is None or decided.reset_epoch != durable

    def stage(self, after: StoredOffset | None) -> None:
        """Add a value that was decided just now."""
        self._staged.append(after)

    def confirm(self, after: StoredOffset | None) -> bool:
        """Take a value as stored, and return whether readers see it: not if a later one is durable already."""
        place = self._take(after)
        if place < self._overtaken:
            self._overtaken -= 1
            return False
        self.durable = after
        self._overtaken = place
        return True

    def withdraw(self, after: StoredOffset | None) -> None:
        """Forget a value that could not be stored."""
        if self._take(after) < self._overtaken:
            self._overtaken -= 1

    def _take(self, after: StoredOffset | None) -> int:
        """Remove a value, and return where it was. It is that very one: others may be equal to it."""
        if self._staged[0] is after:
            del self._staged[0]
            return 0
        place = next(place for place, each in enumerate(self._staged) if each is after)
        del self._staged[place]
        return place


class OffsetRow:
    """The offsets of one group in one topic on one broker set; rules read it, the table alone changes it."""

    __slots__ = ("_in_flight", "queues")

    def __init__(self) -> None:
        #: Queue id -> what was decided. Empty once all were deleted.
        self.queues: Final[dict[int, StoredOffset]] = {}
        self._in_flight: dict[int, QueueInFlight] | None = None

    @property
    def in_flight(self) -> Mapping[int, QueueInFlight]:
        """Return the queues whose changes are being stored: what rests on one of them has to wait for it."""
        return self._in_flight or _NOT_IN_FLIGHT

    def put_in_flight(self, queue_id: int, durable: StoredOffset | None, after: StoredOffset | None) -> None:
        """Begin to store a change of a queue."""
        if self._in_flight is None:
            self._in_flight = {}
        self._in_flight[queue_id] = QueueInFlight(durable, after)

    def land(self, queue_id: int) -> None:
        """End the storing of changes of a queue."""
        if self._in_flight is not None:
            del self._in_flight[queue_id]
            # A row at rest keeps no dictionary for it: there may be a million of them.
            self._in_flight = self._in_flight or None


class ManagedOffsets:
    """The offsets of all groups."""

    def __init__(self, limits: OffsetLimits | None = None, lead: int = 0) -> None:
        """Begin without rows. `lead` is the number of this lead, higher than those before it; 0: nobody else leads."""
        self._limits = limits or OffsetLimits()
        self.lead: Final = lead
        #: As decided, with the deleted offsets that are remembered.
        self._rows: dict[GroupTopic, OffsetRow] = {}
        self._unreadable: dict[GroupTopic, str] = {}
        self._names: dict[str, str] = {}
        self._offsets = 0
        self._deleted = 0
        self._empty_rows = 0
        #: Those that are being stored.
        self._deletions = 0
        self._is_loaded = False
        #: Rows in the order of pages.
        self.order: Final = PageOrder()
        #: Raised by each change that readers see; of this process alone.
        self.revision = 0
        #: The highest fencing token in any row: locks give higher ones only.
        self.highest_token = NO_TOKEN

    @property
    def count(self) -> int:
        """Return how many offsets there are, as decided."""
        return self._offsets

    @property
    def room(self) -> int:
        """Return how many more offsets the table may take; deletions make room when they are durable.

        As many deleted ones are remembered; further ones take room, so that nobody fills the memory with them.
        """
        rows_max = self._limits.rows_max
        return rows_max - self._offsets - self._deletions - max(0, self._deleted - rows_max)

    @property
    def rows_max(self) -> int:
        """Return how many offsets the table may hold."""
        return self._limits.rows_max

    # Loading

    def load(self, of: GroupTopic, queues: Mapping[int, StoredOffset]) -> None:
        """Take a row as it is in the durable store; no decision on it was possible before.

        What is stored already is taken even above `rows_max`: nothing is dropped.
        """
        assert of not in self._rows, f"{of} is loaded already"
        self._unreadable.pop(of, None)
        self._make_row(of).queues.update(queues)
        deleted = sum(each.is_deleted for each in queues.values())
        self._offsets += len(queues) - deleted
        self._deleted += deleted
        self._empty_rows -= bool(queues)
        self.revision += 1
        for each in queues.values():
            self.highest_token = max(self.highest_token, each.token)

    def mark_unreadable(self, of: GroupTopic, reason: str) -> None:
        """Answer for a row that the store cannot give: unavailable, never absent, until it is loaded."""
        self._unreadable[of] = reason

    def finish_loading(self) -> None:
        """From now on rows that were not loaded are absent."""
        self._is_loaded = True

    # For decisions

    def row(self, of: GroupTopic) -> OffsetRow | None:
        """Return a row that was loaded or made here: its names are sound, and it is available."""
        return self._rows.get(of)

    def queues_of(self, of: GroupTopic) -> Mapping[int, StoredOffset]:
        """Return the offsets of a row as decided, with those that were deleted; empty if it has none."""
        row = self._rows.get(of)
        return _NOTHING if row is None else row.queues

    def why_unavailable(self, of: GroupTopic) -> str:
        """Return why a row that is not here cannot be read, blank if it is absent."""
        if reason := self._unreadable.get(of):
            return reason
        return "" if self._is_loaded else _LOADING

    # For readers

    def read(self, key: QueueKey) -> ReadAnswer:
        """Return the durable offset of a queue, that there is none, or that this cannot be determined."""
        row = self._rows.get(key.of)
        if row is None:
            reason = self.why_unavailable(key.of)
            return OffsetUnavailable(reason) if reason else _NOT_FOUND
        flight = row.in_flight.get(key.queue_id)
        stored = row.queues.get(key.queue_id) if flight is None else flight.durable
        if stored is None:
            return _NOT_FOUND
        return OffsetNotFound(stored.reset_epoch) if stored.is_deleted else stored

    def durable_queues_of(self, of: GroupTopic) -> dict[int, StoredOffset]:
        """Return the durable offsets of a row that is here."""
        row = self._rows[of]
        queues: dict[int, StoredOffset | None] = dict(row.queues)
        queues.update((queue_id, flight.durable) for queue_id, flight in row.in_flight.items())
        return {queue_id: each for queue_id, each in queues.items() if each is not None and not each.is_deleted}

    @property
    def is_loaded(self) -> bool:
        """Return whether all rows of the durable store were loaded."""
        return self._is_loaded

    @property
    def unreadable(self) -> Mapping[GroupTopic, str]:
        """Return the rows that the store could not give, with the reasons."""
        return self._unreadable

    # Changes

    def stage(self, changes: Iterable[OffsetChange]) -> None:
        """Make changes that were decided just now the base of the next decisions; readers do not see them yet."""
        for key, before, after in changes:
            row = self._rows.get(key.of) or self._make_row(key.of)
            flight = row.in_flight.get(key.queue_id)
            if flight is None:
                row.put_in_flight(key.queue_id, before, after)
            else:
                flight.stage(after)
            self._set(row, key.queue_id, after)
            if after is None or after.offset < 0:
                self._deletions += 1

    def confirm(self, changes: Iterable[OffsetChange]) -> None:
        """Show staged changes to readers, unless they see later ones already: they are durable."""
        for key, _, after in changes:
            row = self._rows[key.of]
            flight = row.in_flight[key.queue_id]
            self.revision += flight.confirm(after)
            self._land(row, key.queue_id, flight)
            if after is None or after.offset < 0:
                self._deletions -= 1
        self._clear_empty_rows()

    def withdraw(self, changes: Iterable[OffsetChange]) -> None:
        """Take staged changes back: they could not be stored. What was decided on them stays, and may be stored.

        No harm comes of that: it has a higher offset than they had, and nothing is decided on a reset, a seed or a
        deletion that is not durable.
        """
        for key, _, after in changes:
            row = self._rows[key.of]
            flight = row.in_flight[key.queue_id]
            flight.withdraw(after)
            self._land(row, key.queue_id, flight)
            if after is None or after.offset < 0:
                self._deletions -= 1
        self._clear_empty_rows()

    def forget_deleted(self, deleted: Iterable[tuple[QueueKey, StoredOffset]]) -> None:
        """Remember no more that offsets were deleted: the store does not either. What came since stays."""
        for key, forgotten in deleted:
            row = self._rows.get(key.of)
            if row is None or key.queue_id in row.in_flight:
                continue
            if row.queues.get(key.queue_id) == forgotten:
                self._set(row, key.queue_id, None)
        self._clear_empty_rows()

    def _land(self, row: OffsetRow, queue_id: int, flight: QueueInFlight) -> None:
        """With the last change the durable value is the decided one, whatever failed."""
        if not flight.is_over:
            return
        row.land(queue_id)
        if row.queues.get(queue_id) is not flight.durable:
            self._set(row, queue_id, flight.durable)

    def _set(self, row: OffsetRow, queue_id: int, after: StoredOffset | None) -> None:
        queues = row.queues
        former = queues.get(queue_id)
        if former is not None and after is not None and former.offset >= 0 and after.offset >= 0:
            # As it nearly always is: nothing is counted anew.
            queues[queue_id] = after
            self.highest_token = max(self.highest_token, after.token)
            return
        was_empty = not queues
        queues.pop(queue_id, None)
        if after is not None:
            queues[queue_id] = after
            self.highest_token = max(self.highest_token, after.token)
        self._count(former, -1)
        self._count(after, 1)
        self._empty_rows += (not queues) - was_empty

    def _count(self, each: StoredOffset | None, number: int) -> None:
        if each is None:
            return
        if each.is_deleted:
            self._deleted += number
        else:
            self._offsets += number

    def _make_row(self, of: GroupTopic) -> OffsetRow:
        """Return a new row. Equal names are kept once."""
        names = self._names
        shared = GroupTopic._make(names.setdefault(each, each) for each in of)
        row = self._rows[shared] = OffsetRow()
        self._empty_rows += 1
        self.order.add(shared)
        return row

    def _clear_empty_rows(self) -> None:
        """Drop rows that deletions have left empty, before they outnumber the others."""
        if self._empty_rows < EMPTY_ROWS_MIN or 2 * self._empty_rows < len(self._rows):
            return
        self._rows = {of: row for of, row in self._rows.items() if row.queues or row.in_flight}
        self._empty_rows = sum(1 for row in self._rows.values() if not row.queues)
        self._names = {name: name for of in self._rows for name in of}
        self.order.rebuild(self._rows)
