"""Fences: a queue was taken from its holder, whose commits are refused from then on, whoever holds it later. Pure.

The token of a forced release goes into the stored offset, as if it had been committed: it outlasts every lock, and
what is stored of it is gone with the offset. Source: docs/protocol/queue-locks.md 7.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from controller.offsets.commits.entry_batch import EntryBatch
from controller.offsets.commits.entry_checks import check_entry_count
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.results import STORED, OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.values import QueueKey


class Fence(NamedTuple):
    """A queue, and the token below which commits on it are refused."""

    key: QueueKey
    token: int


def decide_fence(table: ManagedOffsets, fences: Sequence[Fence], writer: OffsetWriter) -> OffsetDecision:
    """Raise the tokens of stored offsets; nothing else of them changes, so no freeze stops it.

    OK where the token or a higher one is stored, ABSENT where there is no offset, UNKNOWN. Raises TooManyEntries and
    WriterRefused.
    """
    check_entry_count(len(fences))
    batch = EntryBatch(table, FreezeTable(), writer.batch_options)
    return batch.decision([_fence(batch, each, writer) for each in fences])


def _fence(batch: EntryBatch, fence: Fence, writer: OffsetWriter) -> OffsetResult:
    key, token = fence
    row = batch.row(key.of)
    if (refused := batch.refuse(row, key, 0)) is not None:
        return refused
    stored = row.stored(key.queue_id)
    if stored is None:
        return OffsetResult(OffsetStatus.ABSENT)
    if token > stored.token:
        row.change(key, replace(stored, token=token, unix_ms=writer.unix_ms))
    else:
        row.rest_on(key)
    return STORED
