"""Between bodies and what the rules take and return."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.entry_checks import problem_of_writer
from controller.offsets.commits.results import STORED, OffsetNotFound, OffsetResult, OffsetStatus, ReadAnswer
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.http.shapes import (
    LISTED_MAX,
    ChangeAnswer,
    CommitBody,
    EntryResult,
    ListedOffset,
    QueueChange,
    QueueName,
    ReadResult,
    ScopeBody,
    SeedBody,
    StoredView,
)
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset
from serving.http.views import UnprocessableBody

_new: Final = tuple.__new__
_OK: Final = EntryResult(OffsetStatus.OK.value)


def commit_entries(body: CommitBody) -> list[CommitEntry]:
    """Return the entries of a commit; neighbours with equal names share one row, which is what most requests have."""
    entries = []
    group = topic = broker_name = ""
    of = GroupTopic(body.cluster, body.namespace, group, topic, broker_name)
    for item in body.entries:
        if item.topic != topic or item.group != group or item.broker_name != broker_name:
            group, topic, broker_name = item.group, item.topic, item.broker_name
            of = GroupTopic(body.cluster, body.namespace, group, topic, broker_name)
        # A hundred thousand of them a second: a named tuple's own constructor would take three times as long.
        key = _new(QueueKey, (of, item.queue_id))
        entries.append(_new(CommitEntry, (key, item.offset, item.reset_epoch, item.token)))
    return entries


def queue_keys(cluster: str, namespace: str, names: Iterable[QueueName]) -> list[QueueKey]:
    """Return the keys of queues."""
    return [
        QueueKey(GroupTopic(cluster, namespace, each.group, each.topic, each.broker_name), each.queue_id)
        for each in names
    ]


def offset_entries(body: SeedBody) -> list[OffsetEntry]:
    """Return the entries of a seed or a reset."""
    keys = queue_keys(body.cluster, body.namespace, body.entries)
    return [OffsetEntry(key, item.offset) for key, item in zip(keys, body.entries, strict=True)]


def scope_of(body: ScopeBody) -> OffsetScope:
    """Return the scope of a body."""
    return OffsetScope(body.cluster, body.namespace, body.group, body.topic, body.broker_name)


def check_writer(writer: str) -> None:
    """Refuse a writer that no store or log could take; raises UnprocessableBody."""
    if problem := problem_of_writer(writer):
        raise UnprocessableBody(f"T{problem[1:]}.")


def stored_view(stored: StoredOffset) -> StoredView:
    """Return a stored offset as it is shown."""
    return StoredView(stored.offset, stored.reset_epoch, stored.source, stored.writer, stored.token, stored.unix_ms)


def entry_results(results: Sequence[OffsetResult]) -> list[EntryResult]:
    """Return the results of entries as they are shown."""
    return [_OK if each is STORED else _entry_result(each) for each in results]


def _entry_result(result: OffsetResult) -> EntryResult:
    stored = None if result.stored is None else stored_view(result.stored)
    return EntryResult(result.status.value, stored, result.reason)


def read_result(answer: ReadAnswer) -> ReadResult:
    """Return one of the three answers to a read."""
    if isinstance(answer, StoredOffset):
        return ReadResult("ok", stored_view(answer))
    if isinstance(answer, OffsetNotFound):
        return ReadResult("not_found", reset_epoch=answer.reset_epoch)
    return ReadResult("unavailable", reason=answer.reason)


def listed_offset(key: QueueKey, stored: StoredOffset) -> ListedOffset:
    """Return an offset with its queue."""
    of = key.of
    return ListedOffset(of.group, of.topic, of.broker_name, key.queue_id, stored_view(stored))


def change_answer(
    keyed: Iterable[tuple[QueueKey, OffsetResult]], changes: Iterable[OffsetChange], *, is_dry_run: bool
) -> ChangeAnswer:
    """Return what became of queues, the first LISTED_MAX of them by name."""
    changed = {change.key: change for change in changes}
    counts: Counter[str] = Counter()
    queues: list[QueueChange] = []
    for key, result in keyed:
        counts[result.status.value] += 1
        if len(queues) < LISTED_MAX:
            queues.append(_queue_change(key, result, changed.get(key)))
    return ChangeAnswer(is_dry_run, dict(counts), queues)


def _queue_change(key: QueueKey, result: OffsetResult, change: OffsetChange | None) -> QueueChange:
    old, new = (result.stored, result.stored) if change is None else (change.before, change.after)
    of = key.of
    return QueueChange(
        of.group,
        of.topic,
        of.broker_name,
        key.queue_id,
        result.status.value,
        None if old is None or old.is_deleted else stored_view(old),
        None if new is None or new.is_deleted else stored_view(new),
        result.reason,
    )
