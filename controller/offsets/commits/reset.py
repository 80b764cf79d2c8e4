"""Resets: the one way back. Each raises the reset epoch, so that nothing committed or cached before undoes it. Pure.

Invariant 2 of docs/protocol/offsets.md 7. To a time, to the start or to the end of a queue: whoever requests it looks
up the offset first.
"""

from collections.abc import Sequence
from typing import TypeGuard

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.entry_batch import EntryBatch
from controller.offsets.commits.entry_checks import check_entry_count
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.results import OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.values import StoredOffset


def decide_reset(
    table: ManagedOffsets, freezes: FreezeTable, entries: Sequence[OffsetEntry], writer: OffsetWriter
) -> OffsetDecision:
    """Store offsets, higher or lower than those that are there, in a new reset epoch each.

    The changes are what an undo needs: keep them. Raises TooManyEntries and WriterRefused.
    """
    check_entry_count(len(entries))
    batch = EntryBatch(table, freezes, writer.batch_options)
    return batch.decision([_reset(batch, entry, writer) for entry in entries])


def decide_undo(
    table: ManagedOffsets, freezes: FreezeTable, undone: Sequence[OffsetChange], writer: OffsetWriter
) -> OffsetDecision:
    """Store what was there before a reset, a clone or a deletion, in one more reset epoch.

    Queues that had no offset have none again. STALE where a later reset or deletion would be undone with it, or where
    a client has committed on an offset that was not there before: its progress would be lost. Raises TooManyEntries
    and WriterRefused.
    """
    check_entry_count(len(undone))
    batch = EntryBatch(table, freezes, writer.batch_options)
    return batch.decision([_undo(batch, change, writer) for change in undone])


def _reset(batch: EntryBatch, entry: OffsetEntry, writer: OffsetWriter) -> OffsetResult:
    row = batch.row(entry.key.of)
    if (refused := batch.refuse(row, entry.key, entry.offset)) is not None:
        return refused
    stored = row.stored(entry.key.queue_id)
    if stored is None and (full := batch.refuse_new()) is not None:
        return full
    after = writer.begin_epoch(entry.offset, row.last(entry.key.queue_id), batch.lead)
    row.change(entry.key, after)
    return OffsetResult(OffsetStatus.OK, after)


def _undo(batch: EntryBatch, change: OffsetChange, writer: OffsetWriter) -> OffsetResult:
    key, before, after = change
    row = batch.row(key.of)
    if (refused := batch.refuse(row, key, before.offset if _is_there(before) else 0)) is not None:
        return refused
    if not _is_there(before) and row.stored(key.queue_id) is None:
        row.rest_on(key)
        return OffsetResult(OffsetStatus.ABSENT)
    if why := _why_stale(row.last(key.queue_id), before, after):
        row.rest_on(key)
        return OffsetResult(OffsetStatus.STALE, row.stored(key.queue_id), why)
    return _restore(batch, change, writer)


def _why_stale(last: StoredOffset | None, before: StoredOffset | None, after: StoredOffset | None) -> str:
    """Return what has come between a change and its undoing, blank if nothing has."""
    if _is_there(last) is not _is_there(after):
        return f"{'an offset was stored' if _is_there(last) else 'it was deleted'} since: reset it instead"
    if last is None or after is None:
        # Nobody stores any more that it was deleted.
        return ""
    if last.reset_epoch != after.reset_epoch:
        what = "deleted" if last.is_deleted else "reset"
        return f"it was {what} again since: undo that first"
    if not _is_there(before) and last.offset != after.offset:
        return "a client has committed since: reset or delete it instead"
    return ""


def _restore(batch: EntryBatch, change: OffsetChange, writer: OffsetWriter) -> OffsetResult:
    key, before, after = change
    row = batch.row(key.of)
    last = row.last(key.queue_id) or after
    if before is None or before.is_deleted:
        assert last is not None, "there is an offset to delete, or there would be nothing to undo"
        row.change(key, writer.delete(last, batch.lead))
        return OffsetResult(OffsetStatus.OK)
    if row.stored(key.queue_id) is None and (full := batch.refuse_new()) is not None:
        return full
    restored = writer.begin_epoch(before.offset, last, batch.lead)
    row.change(key, restored)
    return OffsetResult(OffsetStatus.OK, restored)


def _is_there(each: StoredOffset | None) -> TypeGuard[StoredOffset]:
    return each is not None and not each.is_deleted
