"""Clones: a group begins where another one is (docs/protocol/offsets.md 8.3). Pure.

Within one cluster and namespace, topic by topic and broker set by broker set: an offset means nothing on another
(invariant 9 of docs/protocol/offsets.md 7). What is absent at the source stays absent.
"""

import enum
from collections.abc import Iterator

import msgspec

from controller.offsets.commits.entry_batch import EntryBatch
from controller.offsets.commits.entry_checks import ROWS_CHANGED_MAX
from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.read_all import rows_in
from controller.offsets.commits.refusals import CloneRefused, RowsUnavailable
from controller.offsets.commits.results import OffsetDecision, OffsetResult, OffsetStatus
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset
from remoting.protocol.topic_kinds import TopicKind, kind_of


class IfExists(enum.StrEnum):
    """What becomes of offsets that the destination has already."""

    #: They stay.
    SKIP = "skip"
    #: They are replaced, in a new reset epoch.
    OVERWRITE = "overwrite"
    #: Then nothing at all is cloned.
    REFUSE = "refuse"


class CloneRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to clone."""

    cluster: str
    namespace: str = ""
    source_group: str
    to_group: str
    #: None: each topic of the source, without retry topics.
    topics: frozenset[str] | None = None
    if_exists: IfExists = IfExists.SKIP


class Cloned(msgspec.Struct, frozen=True):
    """What became of one queue of the source."""

    key: QueueKey
    result: OffsetResult


def decide_clone(
    table: ManagedOffsets, freezes: FreezeTable, request: CloneRequest, writer: OffsetWriter
) -> tuple[tuple[Cloned, ...], OffsetDecision]:
    """Return the destination's queues with what becomes of each, and the changes.

    Raises CloneRefused, RowsUnavailable, TooManyRows and WriterRefused, and then nothing is cloned. The caller stops
    both groups before, and freezes the source: what is committed during a clone is not in it.
    """
    if request.source_group == request.to_group:
        raise CloneRefused(f"source and destination are both group {request.to_group}")
    batch = EntryBatch(table, freezes, writer.batch_options)
    cloned: list[Cloned] = []
    for key, stored in _sources(table, request):
        target = QueueKey(key.of._replace(group=request.to_group), key.queue_id)
        cloned.append(Cloned(target, _clone(batch, target, stored, request, writer)))
    return tuple(cloned), batch.decision([each.result for each in cloned])


def _sources(table: ManagedOffsets, request: CloneRequest) -> Iterator[tuple[QueueKey, StoredOffset]]:
    scope = OffsetScope(request.cluster, request.namespace, request.source_group)
    rows = rows_in(table, scope, ROWS_CHANGED_MAX)
    for of in rows:
        if not _is_wanted(of, request):
            continue
        for queue_id, stored in sorted(table.durable_queues_of(of).items()):
            yield QueueKey(of, queue_id), stored


def _is_wanted(of: GroupTopic, request: CloneRequest) -> bool:
    """Messages that wait in a retry topic do not follow to another group, so its offsets do not either."""
    if request.topics is None:
        return kind_of(of.topic, ()) is not TopicKind.RETRY
    return of.topic in request.topics


def _clone(
    batch: EntryBatch, target: QueueKey, stored: StoredOffset, request: CloneRequest, writer: OffsetWriter
) -> OffsetResult:
    row = batch.row(target.of)
    refused = batch.refuse(row, target, stored.offset)
    if refused is not None:
        if refused.status is OffsetStatus.UNKNOWN:
            raise RowsUnavailable(refused.reason)
        raise CloneRefused(f"nothing was cloned: {target.of.topic} {target.of.broker_name}: {refused.reason}")
    present = row.stored(target.queue_id)
    if present is not None and request.if_exists is not IfExists.OVERWRITE:
        if request.if_exists is IfExists.REFUSE:
            where = f"queue {target.queue_id} of {target.of.topic} on {target.of.broker_name}"
            raise CloneRefused(f"nothing was cloned: group {request.to_group} has an offset for {where} already")
        row.rest_on(target)
        return OffsetResult(OffsetStatus.PRESENT, present)
    if present is None and (full := batch.refuse_new()) is not None:
        raise CloneRefused(f"nothing was cloned: {full.reason}")
    after = writer.begin_epoch(stored.offset, row.last(target.queue_id), batch.lead)
    row.change(target, after)
    return OffsetResult(OffsetStatus.OK, after)
