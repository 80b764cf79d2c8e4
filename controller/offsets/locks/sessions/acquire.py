"""Acquiring queues: in part, if others hold some of them. Pure.

A queue of a session whose lease is over goes to whoever acquires it next, ttl + 1 ms after the last renewal at the
earliest. Source: docs/protocol/queue-locks.md 7; why only orderly groups get locks: docs/protocol/queue-locks.md 1,
the DLQ trap.
"""

import enum
from collections.abc import Sequence

import msgspec

from controller.offsets.commits.entry_checks import problem_of_names, problem_of_queue
from controller.offsets.locks.sessions.decision import LockDecision
from controller.offsets.locks.sessions.lock_table import LockTable, check_lead
from controller.offsets.locks.sessions.refusals import TooManyQueues
from controller.offsets.locks.sessions.values import (
    LOCKS_MAX,
    QUEUES_PER_SESSION_MAX,
    Lead,
    LockChange,
    LockChanges,
    LockSession,
    QueueLock,
    group_of,
)
from controller.offsets.values import NO_TOKEN, QueueKey


class AcquireStatus(enum.StrEnum):
    """What became of one queue."""

    #: The session holds it, since now or before. Read its offset before consuming.
    GRANTED = "granted"
    #: Another session holds it.
    HELD_BY = "held_by"
    #: An operation has frozen it.
    FROZEN = "frozen"
    #: It cannot be locked; the reason says why.
    REFUSED = "refused"


class AcquireResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What became of one queue."""

    status: AcquireStatus
    #: For commits, if it is granted.
    token: int = NO_TOKEN
    #: The client that holds it.
    holder: str = ""
    #: When to try again, unless the holder renews, in ms.
    remaining_ms: int = 0
    reason: str = ""


class AcquireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Queues that a session wants."""

    session_id: str
    keys: Sequence[QueueKey]
    lead: Lead
    #: The operation whose freeze lets it pass; blank if it has none.
    operation: str = ""
    #: Monotonic ms.
    now_ms: int
    unix_ms: int


def decide_acquire(table: LockTable, request: AcquireRequest) -> LockDecision[tuple[AcquireResult, ...]]:
    """Return a result per queue, in the order of the request. Raises SessionEnded, TooManyQueues and LeadUncertain."""
    check_queue_count(len(request.keys))
    # What the session holds already is granted without the store, which would compare the leader.
    check_lead(request.lead, request.now_ms)
    session = table.living(request.session_id, request.now_ms)
    granting = _Granting(table, session, request)
    results = tuple([granting.take(key) for key in request.keys])
    locks = tuple(granting.granted.values())
    last_token = granting.last_token if locks else NO_TOKEN
    return LockDecision(LockChanges(locks=locks, last_token=last_token), results)


def check_queue_count(queues: int) -> None:
    """Raise TooManyQueues if one decision would take too long."""
    if queues > QUEUES_PER_SESSION_MAX:
        raise TooManyQueues(queues, QUEUES_PER_SESSION_MAX)


class _Granting:
    """The queues of one request, one after the other."""

    def __init__(self, table: LockTable, session: LockSession, request: AcquireRequest) -> None:
        self.granted: dict[QueueKey, LockChange] = {}
        self.last_token = table.last_token
        self._table = table
        self._session = session
        self._request = request
        self._room = min(QUEUES_PER_SESSION_MAX - len(table.queues_of(session.session_id)), LOCKS_MAX - table.count)

    def take(self, key: QueueKey) -> AcquireResult:
        """Return the result of a queue."""
        if problem := self._problem_of(key):
            return AcquireResult(status=AcquireStatus.REFUSED, reason=problem)
        if (again := self.granted.get(key)) is not None and again.after is not None:
            return AcquireResult(status=AcquireStatus.GRANTED, token=again.after.token)
        lock = self._table.lock_of(key)
        if lock is not None and lock.session_id == self._session.session_id:
            return AcquireResult(status=AcquireStatus.GRANTED, token=lock.token)
        refused = self._frozen(key) or self._held(lock)
        return self._grant(key, lock) if refused is None else refused

    def _frozen(self, key: QueueKey) -> AcquireResult | None:
        request = self._request
        freeze = self._table.freezes.of_row(key.of, request.now_ms, request.operation).of_queue(key)
        return None if freeze is None else AcquireResult(status=AcquireStatus.FROZEN, reason=freeze.sentence)

    def _held(self, lock: QueueLock | None) -> AcquireResult | None:
        if lock is None:
            return None
        remaining_ms = self._table.remaining_ms(lock.session_id, self._request.now_ms)
        if remaining_ms < 0:
            return None
        holder = self._table.sessions[lock.session_id].client_id
        reason = "by another session of this client id" if holder == self._session.client_id else ""
        return AcquireResult(status=AcquireStatus.HELD_BY, holder=holder, remaining_ms=remaining_ms + 1, reason=reason)

    def _grant(self, key: QueueKey, before: QueueLock | None) -> AcquireResult:
        if self._room <= 0:
            full = f"a session may hold {QUEUES_PER_SESSION_MAX} queues, all together {LOCKS_MAX}: release some"
            return AcquireResult(status=AcquireStatus.REFUSED, reason=full)
        self._room -= 1
        self.last_token += 1
        after = QueueLock(
            token=self.last_token, session_id=self._session.session_id, since_unix_ms=self._request.unix_ms
        )
        self.granted[key] = LockChange(key, before, after)
        return AcquireResult(status=AcquireStatus.GRANTED, token=after.token)

    def _problem_of(self, key: QueueKey) -> str:
        group = self._session.group
        if group_of(key.of) != group:
            return f"the queue belongs to group {key.of.group}, the session to {group.group}: open one for each group"
        if not self._table.is_orderly(group):
            return problem_of_concurrent(group.group)
        return problem_of_names(key.of) or problem_of_queue(key.queue_id)


def problem_of_concurrent(group: str) -> str:
    """Return why a group that is not declared orderly gets no locks."""
    return (
        f"group {group} is not declared orderly: locks of a concurrent group send its retries to the dead-letter "
        "queue; declare it first if its consumers are orderly"
    )
