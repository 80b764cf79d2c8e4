"""Commits: which of them are stored. Pure.

Invariants 1 and 2 of docs/protocol/offsets.md 7. Within a reset epoch an offset never decreases, equal is a no-op; a
commit of an older epoch is refused, or a cached value would undo a reset. That holds for what orderly consumers call
*overwrite* as well: while one client at a time consumes a queue its offsets only grow, so an overwrite with a lower
one comes from a client that was paused and has lost the queue meanwhile. A client that has to go back, as after
OFFSET_ILLEGAL, resets.

Fencing: docs/protocol/queue-locks.md 7. While a client holds the lock of a queue, commits need its token; afterwards
those with a lower one than the highest that has committed, or was forced, are refused. Commits without a token are as
free as the queue is. What a broker has stored (OffsetSource.MIRROR) has happened already, and passes locks and freezes:
a refusal would only make this table differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from controller.offsets.commits.entry_batch import BatchOptions, BatchRow, EntryBatch
from controller.offsets.commits.entry_checks import check_entry_count
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.results import STORED, OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.values import NO_TOKEN, OffsetSource, QueueKey, StoredOffset


class CommitEntry(NamedTuple):
    """What a client has consumed of one queue."""

    key: QueueKey
    #: The next offset to consume.
    offset: int
    #: The epoch that the client has read, with the offset or with the answer that there is none.
    reset_epoch: int = 0
    #: Of the lock under which it was consumed.
    token: int = NO_TOKEN


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of one client, or of one broker that is mirrored."""

    entries: Sequence[CommitEntry]
    #: The client id, or the address of the broker.
    writer: str
    source: OffsetSource = OffsetSource.CLIENT
    #: When it arrived, monotonic ms.
    now_ms: int
    #: As above, Unix ms.
    unix_ms: int


class GrantedTokens(Protocol):
    """The fencing tokens of the lock table."""

    #: The highest token ever granted.
    last_token: int

    def required_token(self, key: QueueKey) -> int:
        """Return the token that commits on a queue must have now, NO_TOKEN if they need none."""


class NoLocks:
    """The tokens where no queue is locked."""

    last_token: int = NO_TOKEN

    def required_token(self, key: QueueKey) -> int:  # noqa: ARG002 - the same for each queue
        """Return that no token is needed."""
        return NO_TOKEN


@dataclass(frozen=True, slots=True)
class CommitFences:
    """What keeps writers away."""

    tokens: GrantedTokens
    freezes: FreezeTable


def decide_commit(table: ManagedOffsets, request: CommitRequest, fences: CommitFences) -> OffsetDecision:
    """Return what a commit changes, and the result of each entry: OK, STALE, FENCED, UNKNOWN or REFUSED.

    Entries of one queue count one after the other. Raises TooManyEntries and WriterRefused.
    """
    check_entry_count(len(request.entries))
    return _CommitBatch(table, request, fences).decide()


class _CommitBatch:
    """The entries of one request, one after the other."""

    def __init__(self, table: ManagedOffsets, request: CommitRequest, fences: CommitFences) -> None:
        self._request = request
        self._tokens = fences.tokens
        self._is_mirrored = request.source is OffsetSource.MIRROR
        freezes = FreezeTable() if self._is_mirrored else fences.freezes
        self._batch = EntryBatch(table, freezes, BatchOptions(request.writer, request.now_ms))

    def decide(self) -> OffsetDecision:
        return self._batch.decision([self._take(entry) for entry in self._request.entries])

    def _take(self, entry: CommitEntry) -> OffsetResult:
        key, offset, reset_epoch, token = entry
        batch = self._batch
        row = batch.row(key.of)
        refused = batch.refuse(row, key, offset)
        if refused is not None:
            return refused
        stored = row.stored(key.queue_id)
        last = row.last(key.queue_id) if stored is None else stored
        if reset_epoch != (0 if last is None else last.reset_epoch):
            row.rest_on(key)
            return _other_epoch(reset_epoch, last)
        if not self._is_mirrored:
            fenced = self._fenced(key, token, last)
            if fenced is not None:
                row.rest_on(key)
                return fenced
        if stored is not None and offset <= stored.offset:
            return self._not_above(row, entry, stored)
        if stored is None and (full := batch.refuse_new()) is not None:
            return full
        seen = token if last is None else max(token, last.token)
        request = self._request
        row.change(key, StoredOffset(offset, reset_epoch, request.source, request.writer, seen, request.unix_ms))
        return STORED

    def _not_above(self, row: BatchRow, entry: CommitEntry, stored: StoredOffset) -> OffsetResult:
        """Keep the offset; a higher token is seen all the same, and fences those below it."""
        if entry.token > stored.token:
            stored = replace(stored, token=entry.token, unix_ms=self._request.unix_ms)
            row.change(entry.key, stored)
        else:
            row.rest_on(entry.key)
        if entry.offset == stored.offset:
            return STORED
        reason = f"offset {entry.offset} is below the stored {stored.offset}: to go back, reset"
        return OffsetResult(OffsetStatus.STALE, stored, reason)

    def _fenced(self, key: QueueKey, token: int, last: StoredOffset | None) -> OffsetResult | None:
        stored = None if last is None or last.is_deleted else last
        required = self._tokens.required_token(key)
        if token == NO_TOKEN:
            if required == NO_TOKEN:
                return None
            reason = "the queue is locked: acquire it, and commit with the token of the lock"
            return OffsetResult(OffsetStatus.FENCED, stored, reason)
        if not 0 <= token <= (required or self._tokens.last_token):
            return OffsetResult(OffsetStatus.REFUSED, None, f"token {token} was never granted for this queue")
        highest = max(required, last.token if last is not None else NO_TOKEN)
        if token < highest:
            reason = f"token {token} is below {highest}: another client holds the queue, or has held it since"
            return OffsetResult(OffsetStatus.FENCED, stored, reason)
        return None


def _other_epoch(sent: int, last: StoredOffset | None) -> OffsetResult:
    """Return the refusal of a commit that belongs to another epoch; a later one than the stored is as wrong."""
    if sent < 0:
        return OffsetResult(OffsetStatus.REFUSED, None, f"reset epoch {sent} is negative: send the one that was read")
    if last is None:
        reason = f"there is no offset, and reset epoch {sent} is not 0: read it again"
    elif last.is_deleted:
        reason = (
            f"the offset was deleted, and reset epoch {sent} is not {last.reset_epoch}, the present one: read it again"
        )
    else:
        reason = f"reset epoch {sent} is not {last.reset_epoch}, the present one: read the offset again"
    return OffsetResult(OffsetStatus.STALE, None if last is None or last.is_deleted else last, reason)
