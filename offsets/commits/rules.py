"""What commits, resets and deletions change, and the result of each entry. Pure.

Within a reset epoch an offset never decreases, an equal one changes nothing, and a commit of another epoch is refused:
a cached value would undo a reset. That holds for clients that overwrite too, such as orderly consumers: while one
client at a time consumes a queue its offsets only grow, so a lower one comes from a client that was paused. A client
that has to go back resets. Invariants 1, 2, 6 and 8 of docs/protocol/offsets.md 7.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from offsets.commits.stored import (
    DELETED,
    Change,
    RowName,
    Source,
    StoredOffset,
    begin_epoch,
    problem_of_names,
    problem_of_queue,
    problem_of_writer,
)
from offsets.commits.table import LOADING, OffsetTable, Row, Scope
from offsets.values import OFFSET_MAX, QUEUES_MAX

#: Offsets that one deletion may change.
DELETED_AT_ONCE_MAX: Final = 100_000


class OffsetsRefused(Exception):
    """The whole request is refused; nothing was changed. The sentence says what to do."""


class NotNow(OffsetsRefused):
    """Offsets of the request cannot be read now."""


class Status(enum.StrEnum):
    """Outcome for one entry."""

    #: Stored, or stored already.
    OK = "ok"
    #: What is stored is newer: a higher offset, or another reset epoch. Read it, and go on from there.
    STALE = "stale"
    #: Neither stored nor refused: repeat the entry.
    UNKNOWN = "unknown"
    #: The entry can never be stored.
    REFUSED = "refused"


class Result(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    status: Status
    #: What is stored now, where the status depends on it.
    stored: StoredOffset | None = None
    #: What is wrong, and what to do; blank if all is well.
    reason: str = ""


#: The answer to nearly every commit.
STORED: Final = Result(Status.OK)
_IN_FLIGHT: Final = Result(Status.UNKNOWN, None, "the offset is being reset or deleted: repeat in a second")


class Entry(NamedTuple):
    name: RowName
    queue_id: int
    #: The next offset to consume.
    offset: int
    #: Of a commit: the epoch that the client has read, with the offset or with the answer that there is none.
    reset_epoch: int = 0


class Decision(NamedTuple):
    """What to store, and what to answer once it is stored."""

    #: Each queue once.
    changes: Sequence[Change]
    #: One for each entry of the request, in its order.
    results: Sequence[Result]


class Writer(NamedTuple):
    name: str
    unix_ms: int


class _OpenRow:
    """A row on the way to a decision: later entries of a request are decided on earlier ones."""

    __slots__ = ("changed", "name", "refused", "row")

    def __init__(self, table: OffsetTable, name: RowName) -> None:
        self.name = name
        self.row: Row | None = table.rows.get(name)
        self.changed: dict[int, Change] = {}
        #: Why no entry of it can be decided.
        self.refused: Result | None = None
        if reason := table.unreadable.get(name, ""):
            self.refused = Result(Status.UNKNOWN, None, reason)
        elif self.row is None:
            if problem := problem_of_names(name):
                self.refused = Result(Status.REFUSED, None, problem)
            elif reason := table.why_unavailable(name):
                self.refused = Result(Status.UNKNOWN, None, reason)

    def last(self, queue_id: int) -> StoredOffset | None:
        if (change := self.changed.get(queue_id)) is not None:
            return change.after
        return None if self.row is None else self.row.decided(queue_id)

    def change(self, queue_id: int, after: StoredOffset) -> None:
        earlier = self.changed.get(queue_id)
        before = earlier.before if earlier is not None else None if self.row is None else self.row.decided(queue_id)
        self.changed[queue_id] = Change(self.name, queue_id, before, after)

    def rest_on(self, queue_id: int, value: StoredOffset | None) -> None:
        """Answer only when a value that is still being stored is durable: by storing it again."""
        if value is not None and self.row is not None and self.row.is_in_flight(queue_id):
            self.change(queue_id, value)

    def problem(self, queue_id: int, offset: int) -> Result | None:
        """Return why an entry cannot be decided; None if it can be."""
        if self.refused is not None:
            return self.refused
        if not (0 <= queue_id < QUEUES_MAX and 0 <= offset <= OFFSET_MAX):
            return Result(Status.REFUSED, None, problem_of_queue(queue_id, offset))
        return _IN_FLIGHT if self.row is not None and self.row.begins_epoch(queue_id) else None


class _Request:
    def __init__(self, table: OffsetTable, writer: str) -> None:
        if problem := problem_of_writer(writer):
            raise OffsetsRefused(problem)
        self._table = table
        self._rows: dict[RowName, _OpenRow] = {}
        self._room = table.room

    def row(self, name: RowName) -> _OpenRow:
        if (row := self._rows.get(name)) is None:
            row = self._rows[name] = _OpenRow(self._table, name)
        return row

    def no_room(self) -> Result | None:
        """Return why no further offset is stored; None if there is room, which is taken then."""
        if self._room > 0:
            self._room -= 1
            return None
        full = f"{self._table.offsets_max} offsets are stored, which is the limit: delete those of unused groups"
        return Result(Status.REFUSED, None, full)

    def decision(self, results: Sequence[Result]) -> Decision:
        return Decision([change for row in self._rows.values() for change in row.changed.values()], results)


def decide_commit(table: OffsetTable, entries: Iterable[Entry], writer: Writer) -> Decision:
    """Return what the commits of one client change; entries of one queue count one after the other."""
    request = _Request(table, writer.name)
    results = []
    last_name: RowName | None = None
    for name, queue_id, offset, epoch in entries:
        # Neighbours mostly share a row.
        if name is not last_name:
            row, last_name = request.row(name), name
        result = row.problem(queue_id, offset)
        if result is None:
            last = row.last(queue_id)
            if epoch != (0 if last is None else last.reset_epoch):
                row.rest_on(queue_id, last)
                result = _of_other_epoch(epoch, last)
            elif last is None or last.offset < 0:
                result = request.no_room() or STORED
            elif offset <= last.offset:
                row.rest_on(queue_id, last)
                results.append(STORED if offset == last.offset else _lower(offset, last))
                continue
            else:
                result = STORED
            if result is STORED:
                row.change(queue_id, StoredOffset(offset, epoch, Source.CLIENT, writer.name, writer.unix_ms))
        results.append(result)
    return request.decision(results)


def _lower(offset: int, stored: StoredOffset) -> Result:
    return Result(Status.STALE, stored, f"offset {offset} is below the stored {stored.offset}: to go back, reset")


def _of_other_epoch(sent: int, last: StoredOffset | None) -> Result:
    """Return the result of a commit of another epoch; a later one than the stored is as wrong."""
    if sent < 0:
        return Result(Status.REFUSED, None, f"reset epoch {sent} is negative: send the one that was read")
    if last is None:
        return Result(Status.STALE, None, f"there is no offset, and reset epoch {sent} is not 0: read it again")
    what, stored = ("the offset was deleted, and", None) if last.is_deleted else ("the offset has", last)
    reason = f"{what} reset epoch {last.reset_epoch}, not {sent}: read it again"
    return Result(Status.STALE, stored, reason)


def decide_reset(table: OffsetTable, entries: Iterable[Entry], writer: Writer) -> Decision:
    """Store offsets, higher or lower than those that are there, in a new reset epoch each."""
    request = _Request(table, writer.name)
    results = []
    for entry in entries:
        row = request.row(entry.name)
        result = row.problem(entry.queue_id, entry.offset)
        if result is None:
            last = row.last(entry.queue_id)
            if last is None or last.is_deleted:
                result = request.no_room()
        if result is None:
            after = _new_epoch(table, entry.offset, last, writer)
            row.change(entry.queue_id, after)
            result = Result(Status.OK, after)
        results.append(result)
    return request.decision(results)


def decide_deletion(table: OffsetTable, scope: Scope, writer: Writer) -> Decision:
    """Delete the offsets of a group, of a topic, or of a group in a topic.

    The results are those of the changes, then UNKNOWN for each queue of which a reset or a deletion is being stored.
    Raises OffsetsRefused for a scope that is too wide, or has rows that cannot be read.
    """
    if scope.group is None and scope.topic is None:
        raise OffsetsRefused("name a group, a topic or both: offsets are not deleted by cluster or broker alone")
    if not table.is_loaded:
        raise NotNow(f"nothing was deleted: {LOADING}")
    for name, reason in table.unreadable.items():
        if scope.covers(name):
            raise NotNow(f"nothing was deleted: {reason}")
    request = _Request(table, writer.name)
    deleted: list[Result] = []
    kept: list[Result] = []
    for name in (name for _, name in table.walk(scope) if name is not None):
        row = request.row(name)
        here = table.rows[name]
        for queue_id in sorted({*here.queues, *(here.flights or ())}):
            last = row.last(queue_id)
            if here.begins_epoch(queue_id):
                kept.append(_IN_FLIGHT)
            elif last is not None and not last.is_deleted:
                row.change(queue_id, _new_epoch(table, DELETED, last, writer))
                deleted.append(Result(Status.OK, last))
        if len(deleted) > DELETED_AT_ONCE_MAX:
            raise OffsetsRefused(
                f"this covers more than {DELETED_AT_ONCE_MAX} offsets: name a topic or a broker, then the next one"
            )
    return request.decision(deleted + kept)


def _new_epoch(table: OffsetTable, offset: int, last: StoredOffset | None, writer: Writer) -> StoredOffset:
    return begin_epoch(offset, last, writer=writer.name, unix_ms=writer.unix_ms, lead=table.lead)
