"""The entries of one request on their way to a decision: limits, availability and freezes first, then changes. Pure.

Of two entries for one queue the later one is decided on the earlier one, and one change comes of both.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.entry_checks import (
    problem_of_names,
    problem_of_offset,
    problem_of_queue,
    problem_of_writer,
)
from controller.offsets.commits.freezes import FreezeTable, RowFreezes
from controller.offsets.commits.managed_offsets import ManagedOffsets, OffsetRow, QueueInFlight
from controller.offsets.commits.refusals import WriterRefused
from controller.offsets.commits.results import OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.values import OFFSET_MAX, QUEUES_MAX, GroupTopic, QueueKey, StoredOffset

_NO_QUEUES: Final[Mapping[int, StoredOffset]] = MappingProxyType({})
_NOTHING: Final[Mapping[int, QueueInFlight]] = MappingProxyType({})


class BatchOptions(NamedTuple):
    """Who makes a request, and what the freezes are compared with."""

    #: Stored with each offset.
    writer: str
    #: Monotonic ms.
    now_ms: int
    #: The operation on whose behalf the request is made; its own freeze does not stop it.
    operation: str = ""


class BatchRow:
    """What the entries of one row share."""

    __slots__ = ("changed", "freezes", "in_flight", "is_open", "queues", "refused", "row")

    def __init__(self, row: OffsetRow | None, freezes: RowFreezes | None, refused: OffsetResult | None) -> None:
        self.row: Final = row
        #: As decided before this request.
        self.queues: Final = _NO_QUEUES if row is None else row.queues
        #: Those whose changes are being stored.
        self.in_flight: Final = _NOTHING if row is None else row.in_flight
        #: Those that last in the row; None if there are none at all.
        self.freezes: Final = freezes
        #: Why no entry of the row is decided on.
        self.refused: Final = refused
        #: Whether nothing stands in the way of any entry.
        self.is_open: Final = refused is None and freezes is None
        #: Queue id -> what this request changes.
        self.changed: Final[dict[int, OffsetChange]] = {}

    def stored(self, queue_id: int) -> StoredOffset | None:
        """Return the offset of a queue with what the request has changed so far; None if there is none."""
        last = self.last(queue_id)
        # As `is_deleted`, which takes three times as long; most calls are from here.
        return None if last is None or last.offset < 0 else last

    def last(self, queue_id: int) -> StoredOffset | None:
        """Return the same, or that the offset was deleted: the epoch goes on from there."""
        change = self.changed.get(queue_id)
        return self.queues.get(queue_id) if change is None else change.after

    def change(self, key: QueueKey, after: StoredOffset) -> None:
        """Change the offset of a queue."""
        earlier = self.changed.get(key.queue_id)
        before = self.queues.get(key.queue_id) if earlier is None else earlier.before
        self.changed[key.queue_id] = OffsetChange(key, before, after)

    def begins_epoch(self, queue_id: int) -> bool:
        """Return whether a reset, a seed or a deletion is being stored: if it fails, what was there is there again."""
        flight = self.in_flight.get(queue_id)
        return flight is not None and flight.begins_epoch(self.queues.get(queue_id))

    def rest_on(self, key: QueueKey) -> None:
        """Let the answer wait until the offset that it names is durable: while it is being stored, store it again."""
        if key.queue_id not in self.in_flight or key.queue_id in self.changed:
            return
        if (decided := self.queues.get(key.queue_id)) is not None:
            self.change(key, decided)


class EntryBatch:
    """The entries of one request. Raises WriterRefused."""

    def __init__(self, table: ManagedOffsets, freezes: FreezeTable, options: BatchOptions) -> None:
        if problem := problem_of_writer(options.writer):
            raise WriterRefused(problem)
        self._table = table
        self._freezes = freezes
        self._options = options
        self._rows: dict[GroupTopic, BatchRow] = {}
        # Entries come row by row, most of them with the same names: they are looked up once.
        self._last_of: GroupTopic | None = None
        self._last_row: BatchRow | None = None
        self._room = table.room
        #: The number of the lead: no new epoch is below it.
        self.lead: Final = table.lead

    def row(self, of: GroupTopic) -> BatchRow:
        """Return what the entries of a row share."""
        if of is self._last_of and self._last_row is not None:
            return self._last_row
        row = self._rows.get(of)
        if row is None:
            row = self._rows[of] = self._begin(of)
        self._last_of, self._last_row = of, row
        return row

    def refuse(self, row: BatchRow, key: QueueKey, offset: int) -> OffsetResult | None:
        """Return why an entry is refused, or cannot be decided on, or is fenced; None if it passes."""
        if row.in_flight and row.begins_epoch(key.queue_id):
            reason = "the offset is being reset, seeded or deleted: repeat in a second"
            return OffsetResult(OffsetStatus.UNKNOWN, None, reason)
        if row.is_open and 0 <= key.queue_id < QUEUES_MAX and 0 <= offset <= OFFSET_MAX:
            return None
        if row.refused is not None:
            return row.refused
        if problem := problem_of_queue(key.queue_id) or problem_of_offset(offset):
            return OffsetResult(OffsetStatus.REFUSED, None, problem)
        if row.freezes is not None and (freeze := row.freezes.of_queue(key)) is not None:
            return OffsetResult(OffsetStatus.FENCED, None, freeze.sentence)
        return None

    def refuse_new(self) -> OffsetResult | None:
        """Return why an offset cannot be stored where there is none; None if it can be, and has its room."""
        if self._room <= 0:
            full = f"{self._table.rows_max} offsets are stored, as many as allowed: delete those of unused groups"
            return OffsetResult(OffsetStatus.REFUSED, None, full)
        self._room -= 1
        return None

    def decision(self, results: Sequence[OffsetResult]) -> OffsetDecision:
        """Return the changes with these results."""
        changes = tuple([change for row in self._rows.values() for change in row.changed.values()])
        return OffsetDecision(changes, tuple(results))

    def _begin(self, of: GroupTopic) -> BatchRow:
        row = self._table.row(of)
        refused = self._refuse_row(of) if row is None else None
        freezes = None
        if self._freezes.count:
            freezes = self._freezes.of_row(of, self._options.now_ms, self._options.operation)
        return BatchRow(row, freezes, refused)

    def _refuse_row(self, of: GroupTopic) -> OffsetResult | None:
        if problem := problem_of_names(of):
            return OffsetResult(OffsetStatus.REFUSED, None, problem)
        if reason := self._table.why_unavailable(of):
            return OffsetResult(OffsetStatus.UNKNOWN, None, reason)
        return None
