"""Deletions: the only way in which an offset disappears (invariant 6 of docs/protocol/offsets.md 7). Pure.

What was deleted is stored as such for DELETED_KEPT_MS, in an epoch of its own: a commit from before it is refused, also
one from the journal of a manager that did not lead meanwhile. A new offset is stored in that epoch or a later one.
"""

from controller.offsets.commits.entry_batch import EntryBatch
from controller.offsets.commits.entry_checks import ROWS_CHANGED_MAX
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.read_all import rows_in
from controller.offsets.commits.refusals import ScopeTooWide
from controller.offsets.commits.results import OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.values import QueueKey


def decide_deletion(
    table: ManagedOffsets, freezes: FreezeTable, scope: OffsetScope, writer: OffsetWriter
) -> OffsetDecision:
    """Delete the offsets of a group, of a topic, or of a group in a topic; with a broker name those on it alone.

    The results are those of the changes, then FENCED for each queue that is frozen and stays, and UNKNOWN for each of
    which a reset or a deletion is being stored. Nothing to delete is no error. Raises ScopeTooWide, RowsUnavailable,
    TooManyRows and WriterRefused.
    """
    if scope.group is None and scope.topic is None:
        raise ScopeTooWide
    batch = EntryBatch(table, freezes, writer.batch_options)
    deleted: list[OffsetResult] = []
    kept: list[OffsetResult] = []
    for of in rows_in(table, scope, ROWS_CHANGED_MAX):
        row = batch.row(of)
        for queue_id, stored in sorted(table.queues_of(of).items()):
            if stored.is_deleted and not row.begins_epoch(queue_id):
                continue
            key = QueueKey(of, queue_id)
            if (refused := batch.refuse(row, key, stored.offset)) is not None:
                kept.append(refused)
                continue
            row.change(key, writer.delete(stored, batch.lead))
            deleted.append(OffsetResult(OffsetStatus.OK, stored))
    return batch.decision(deleted + kept)
