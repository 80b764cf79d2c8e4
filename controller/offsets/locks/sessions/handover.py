"""Queues given up by their holders: released, or transferred to another client. Pure.

Final offsets are committed first (docs/protocol/queue-locks.md 7): the edge commits `final_commits`, and passes the
results to the decision. A queue whose offset was not stored for a reason that can be mended stays with its holder, or
its successor would consume again what was consumed already.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.results import OffsetResult, OffsetStatus
from controller.offsets.locks.sessions.acquire import check_queue_count
from controller.offsets.locks.sessions.decision import LockDecision
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.refusals import TransferRefused
from controller.offsets.locks.sessions.values import (
    QUEUES_PER_SESSION_MAX,
    LockChange,
    LockChanges,
    LockGroup,
    LockSession,
    QueueLock,
)
from controller.offsets.values import QueueKey

#: Of a final offset: the offset is stored, or something newer is, and stays.
_SETTLED: Final = frozenset({OffsetStatus.OK, OffsetStatus.STALE})


class ReleaseStatus(enum.StrEnum):
    """What became of one queue."""

    RELEASED = "released"
    #: The session does not hold it: nothing changed.
    NOT_HELD = "not_held"
    #: Its final offset was not stored, so it is still held; without a final offset it is released.
    KEPT = "kept"


class ReleaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of one queue."""

    status: ReleaseStatus
    reason: str = ""


class FinalOffset(NamedTuple):
    """How far a holder has come when it gives a queue up."""

    offset: int
    #: The epoch of the offset that it has read.
    reset_epoch: int = 0


class TransferRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that its holder gives to another client of the group."""

    session_id: str
    key: QueueKey
    to_client: str
    #: The operation whose freeze lets it pass; blank if it has none.
    operation: str = ""
    #: Monotonic ms.
    now_ms: int
    unix_ms: int


def final_commits(
    table: LockTable, session_id: str, offsets: Mapping[QueueKey, FinalOffset]
) -> tuple[CommitEntry, ...]:
    """Return the commits to make before a session gives queues up, with their tokens; none for queues of others."""
    entries = []
    for key, final in offsets.items():
        lock = table.lock_of(key)
        if lock is not None and lock.session_id == session_id:
            entries.append(CommitEntry(key, final.offset, final.reset_epoch, lock.token))
    return tuple(entries)


def decide_release(
    table: LockTable, session_id: str, keys: Sequence[QueueKey], committed: Mapping[QueueKey, OffsetResult]
) -> LockDecision[tuple[ReleaseResult, ...]]:
    """Return a result per queue, in the order of the request; it can be repeated. Raises TooManyQueues.

    `committed`: the results of `final_commits`. A session whose lease is over may release what nobody else has yet.
    """
    check_queue_count(len(keys))
    freed: dict[QueueKey, LockChange] = {}
    results = []
    for key in keys:
        lock = table.lock_of(key)
        if lock is None or lock.session_id != session_id or key in freed:
            results.append(ReleaseResult(status=ReleaseStatus.NOT_HELD))
        elif problem := _not_stored(committed.get(key)):
            results.append(ReleaseResult(status=ReleaseStatus.KEPT, reason=problem))
        else:
            freed[key] = LockChange(key, lock, None)
            results.append(ReleaseResult(status=ReleaseStatus.RELEASED))
    return LockDecision(LockChanges(locks=tuple(freed.values())), tuple(results))


def decide_transfer(
    table: LockTable, request: TransferRequest, committed: Mapping[QueueKey, OffsetResult]
) -> LockDecision[int]:
    """Give a queue to another client in one step, and return its new token; nobody can acquire it in between.

    The client finds it in the answer to its next renewal. Raises SessionEnded and TransferRefused.
    """
    session = table.living(request.session_id, request.now_ms)
    lock = table.lock_of(request.key)
    if lock is None or lock.session_id != session.session_id:
        raise TransferRefused("the session does not hold the queue: only its holder gives it away")
    if problem := _not_stored(committed.get(request.key)):
        raise TransferRefused(f"the final offset was not stored: {problem}")
    freezes = table.freezes.of_row(request.key.of, request.now_ms, request.operation)
    if (freeze := freezes.of_queue(request.key)) is not None:
        raise TransferRefused(freeze.sentence)
    to = _session_of(table, session.group, request)
    if len(table.queues_of(to.session_id)) >= QUEUES_PER_SESSION_MAX:
        raise TransferRefused(f"client {request.to_client} holds {QUEUES_PER_SESSION_MAX} queues, as many as allowed")
    token = table.last_token + 1
    after = QueueLock(token=token, session_id=to.session_id, since_unix_ms=request.unix_ms)
    return LockDecision(LockChanges(locks=(LockChange(request.key, lock, after),), last_token=token), token)


def _session_of(table: LockTable, group: LockGroup, request: TransferRequest) -> LockSession:
    """Return the session of the client that was renewed last: an earlier one is of a process that has ended."""
    living = [
        each
        for each in table.sessions_of(group)
        if table.sessions[each].client_id == request.to_client and table.remaining_ms(each, request.now_ms) >= 0
    ]
    if not living:
        name = group.group
        raise TransferRefused(f"client {request.to_client} has no session of group {name}: it has to open one first")
    return table.sessions[max(living, key=lambda each: (table.renewed_ms(each), each))]


def _not_stored(result: OffsetResult | None) -> str:
    """Return why a final offset is not stored, blank if it is, or none was given."""
    if result is None or result.status in _SETTLED:
        return ""
    return result.reason
