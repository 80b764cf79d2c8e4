"""What operators decide about locks: which groups are orderly, and whose queue is taken away. Pure.

A forced release takes three steps, and its former holder is fenced after each: the lock is nobody's, with a new token
(`decide_force_release`); the offset has that token (`commits.fence`); the lock is gone (`decide_fences_end`). The last
two follow at once, and are repeated from time to time for all such locks (`fences_of`). Source:
docs/protocol/queue-locks.md 7.
"""

from collections.abc import Sequence
from typing import Final

from controller.offsets.commits.entry_checks import ENTRIES_MAX, problem_of_name, problem_of_names, problem_of_queue
from controller.offsets.commits.fence import Fence
from controller.offsets.commits.results import OffsetResult, OffsetStatus
from controller.offsets.locks.sessions.acquire import problem_of_concurrent
from controller.offsets.locks.sessions.decision import LockDecision
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.refusals import ForceRefused, GroupRefused
from controller.offsets.locks.sessions.values import (
    GROUPS_MAX,
    LOCKS_MAX,
    NO_CHANGES,
    NOBODY,
    LockChange,
    LockChanges,
    LockGroup,
    OrderlyChange,
    QueueLock,
    group_of,
)
from controller.offsets.values import QueueKey

#: How long a queue is fenced that was taken from its holder, and that nobody acquires or commits on.
FENCED_MS_MAX: Final = 86_400_000


def declare_orderly(table: LockTable, group: LockGroup) -> LockChanges:
    """Let a group have locks: all its consumers are orderly. Raises GroupRefused."""
    for word, name in group._asdict().items():
        if not name.strip() and (word != "namespace" or name):
            raise GroupRefused(f"the {word} is blank: name it")
        if name and (problem := problem_of_name(name)):
            raise GroupRefused(f"the {word} {problem}")
    if table.is_orderly(group):
        return NO_CHANGES
    if len(table.orderly_groups) >= GROUPS_MAX:
        raise GroupRefused(f"{GROUPS_MAX} groups are declared orderly, as many as allowed: withdraw unused ones")
    return LockChanges(groups=(OrderlyChange(group, before=False, after=True),))


def withdraw_orderly(table: LockTable, group: LockGroup, now_ms: int) -> LockChanges:
    """Let a group have no locks any more, and its commits need no tokens. Raises GroupRefused while one is held."""
    locks = table.locks_of(group)
    if held := sum(1 for each in locks.values() if table.remaining_ms(each.session_id, now_ms) >= 0):
        raise GroupRefused(f"{held} queues of group {group.group} are held: stop its consumers first")
    if not table.is_orderly(group) and not locks:
        return NO_CHANGES
    return LockChanges(
        locks=tuple(LockChange(key, lock, None) for key, lock in locks.items()),
        groups=(OrderlyChange(group, before=table.is_orderly(group), after=False),),
    )


def decide_force_release(table: LockTable, key: QueueKey, unix_ms: int) -> LockDecision[int]:
    """Take a queue from its holder, whoever it is, and return the token from which commits are accepted again.

    What its former holder commits is FENCED from now on, even if nobody acquires the queue. Store the token with the
    offset next. Raises ForceRefused.
    """
    if problem := problem_of_names(key.of) or problem_of_queue(key.queue_id):
        raise ForceRefused(problem)
    if not table.is_orderly(group_of(key.of)):
        raise ForceRefused(problem_of_concurrent(key.of.group))
    before = table.lock_of(key)
    if before is None and table.count >= LOCKS_MAX:
        raise ForceRefused(f"there are {LOCKS_MAX} locks, as many as allowed: release some")
    token = table.last_token + 1
    after = QueueLock(token=token, session_id=NOBODY, since_unix_ms=unix_ms)
    return LockDecision(LockChanges(locks=(LockChange(key, before, after),), last_token=token), token)


def fences_of(table: LockTable) -> tuple[tuple[Fence, ...], ...]:
    """Return for `decide_fence` the queues that were taken from their holders, and that nobody has acquired since.

    In parts of at most ENTRIES_MAX.
    """
    fences = []
    for key in table.queues_of(NOBODY):
        lock = table.lock_of(key)
        assert lock is not None, "nobody's queue has a lock"
        fences.append(Fence(key, lock.token))
    return tuple(tuple(fences[at : at + ENTRIES_MAX]) for at in range(0, len(fences), ENTRIES_MAX))


def decide_fences_end(
    table: LockTable, fences: Sequence[Fence], stored: Sequence[OffsetResult], unix_ms: int
) -> LockChanges:
    """Free queues that were taken from their holders, once their offsets are stored with the tokens.

    `stored` has the result of each fence. A queue without an offset has no place for the token: it is freed when it was
    taken FENCED_MS_MAX ago. What a former holder commits there later has been consumed, and by nobody else.
    """
    ended: dict[QueueKey, LockChange] = {}
    for (key, token), result in zip(fences, stored, strict=True):
        lock = table.lock_of(key)
        # Somebody may have acquired it meanwhile.
        if lock is None or lock.session_id != NOBODY:
            continue
        is_fenced = result.status is OffsetStatus.OK and token >= lock.token
        if is_fenced or unix_ms - lock.since_unix_ms > FENCED_MS_MAX:
            ended[key] = LockChange(key, lock, None)
    return LockChanges(locks=tuple(ended.values()))
