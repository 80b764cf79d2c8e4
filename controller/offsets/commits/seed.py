"""Seeds: where groups begin in queues that they have not consumed yet. Pure.

Stored before a new queue becomes readable, or clients begin at its end and skip what is in it
(docs/protocol/queue-scaling.md 3).
"""

from collections.abc import Sequence
from typing import NamedTuple

from controller.offsets.commits.entry_batch import EntryBatch
from controller.offsets.commits.entry_checks import check_entry_count
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.results import OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.values import QueueKey


class OffsetEntry(NamedTuple):
    """An offset for one queue."""

    key: QueueKey
    offset: int


def decide_seed(
    table: ManagedOffsets, freezes: FreezeTable, entries: Sequence[OffsetEntry], writer: OffsetWriter
) -> OffsetDecision:
    """Store offsets where there are none; PRESENT for the others, which stay as they are.

    Raises TooManyEntries and WriterRefused.
    """
    check_entry_count(len(entries))
    batch = EntryBatch(table, freezes, writer.batch_options)
    return batch.decision([_seed(batch, entry, writer) for entry in entries])


def _seed(batch: EntryBatch, entry: OffsetEntry, writer: OffsetWriter) -> OffsetResult:
    row = batch.row(entry.key.of)
    if (refused := batch.refuse(row, entry.key, entry.offset)) is not None:
        return refused
    if (stored := row.stored(entry.key.queue_id)) is not None:
        row.rest_on(entry.key)
        return OffsetResult(OffsetStatus.PRESENT, stored)
    if (full := batch.refuse_new()) is not None:
        return full
    after = writer.begin_epoch(entry.offset, row.last(entry.key.queue_id), batch.lead)
    row.change(entry.key, after)
    return OffsetResult(OffsetStatus.OK, after)
