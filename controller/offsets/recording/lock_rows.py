"""Rows about locks: what a new master got, two holders of one queue, and what operators took. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from controller.offsets.locks.overlaps import ClosedOverlap, OpenOverlap, Overlap
from controller.offsets.locks.replay import ReplayedQueue, ReplayReport
from controller.offsets.locks.replay_rules import ReplayOutcome
from controller.offsets.mirror.masters import SetName
from controller.offsets.recording.offset_rows import TEXT_MAX, OffsetRow
from controller.offsets.values import QueueKey
from history.offset_families import LOCK_EVENT
from history.rows import BrokerRef

_COLUMN_OF: Final = {
    ReplayOutcome.GRANTED: "granted",
    ReplayOutcome.HELD_BY_ANOTHER: "held_by_another",
    ReplayOutcome.UNANSWERED: "unanswered",
    ReplayOutcome.UNCONFIRMED: "unconfirmed",
}


def replay_rows(set_name: SetName, master_epoch: int | None, report: ReplayReport) -> Iterator[OffsetRow]:
    """Yield a row for each group and topic whose locks were to be taken at a new master."""
    broker = BrokerRef(set_name.cluster or None, set_name.broker_name, broker_addr=report.promotion.address)
    by_group: dict[tuple[str, str], list[ReplayedQueue]] = {}
    for each in report.results:
        by_group.setdefault((each.queue.group, each.queue.queue.topic), []).append(each)
    for (group, topic), mine in by_group.items():
        counts = Counter(each.outcome for each in mine)
        granted_ms = [each.elapsed_ms for each in mine if each.outcome is ReplayOutcome.GRANTED]
        columns: dict[str, object] = {
            "group": group,
            "topic": topic,
            "master_epoch": master_epoch,
            "queues": len(mine),
            **{column: counts[outcome] for outcome, column in _COLUMN_OF.items()},
            "duration_ms": max(granted_ms, default=None),
        }
        yield OffsetRow(LOCK_EVENT, "replayed", broker, columns)


def overlap_row(cluster: str, change: OpenOverlap | ClosedOverlap) -> OffsetRow:
    """Return the row of two holders of one queue that were found, or are over."""
    broker, columns = _of_overlap(cluster, change.overlap)
    if isinstance(change, OpenOverlap):
        return OffsetRow(LOCK_EVENT, "overlap_began", broker, columns)
    ended = {"duration_ms": max(0, change.until_ms - change.since_ms), "reason": change.why.value}
    return OffsetRow(LOCK_EVENT, "overlap_ended", broker, {**columns, **ended})


def _of_overlap(cluster: str, overlap: Overlap) -> tuple[BrokerRef, dict[str, object]]:
    held = overlap.queue
    columns = {
        "group": held.group,
        "topic": held.queue.topic,
        "queue_id": held.queue.queue_id,
        "clients": [each[:TEXT_MAX] for each in overlap.clients],
    }
    return BrokerRef(cluster or None, held.queue.broker_name), columns


def forced_release_row(writer: str, key: QueueKey) -> OffsetRow:
    """Return the row of a queue that an operator took from its holder."""
    of = key.of
    columns = {"group": of.group, "topic": of.topic, "queue_id": key.queue_id, "writer": writer[:TEXT_MAX]}
    return OffsetRow(LOCK_EVENT, "forced_release", BrokerRef(of.cluster, of.broker_name), columns)


def expired_sessions_row(sessions: int) -> OffsetRow:
    """Return the row of sessions that were not renewed."""
    return OffsetRow(LOCK_EVENT, "session_expired", BrokerRef(), {"sessions": sessions})
