"""Phases that only a gated resize has: new queues of an ordered topic stay locked until the old ones are consumed.

One broker set, and k times as many queues: a key goes from queue v to v or to v + j * n, and nowhere else. A group gets
v + j * n once it has consumed what was in v when every producer had the new route. A broker that restarts, or a new
master, has no locks: order may break then, and no message is lost. The operation says so at its end.
Source: docs/protocol/queue-scaling.md 8, O2.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import structs

from controller.scaling.resize.decision import GiveLocks, HoldLocks, ResizeDecision
from controller.scaling.resize.observation import GroupKind
from controller.scaling.resize.operation import QueueOffset, ReleasedQueue, ResizeOperation, SetResize
from controller.scaling.rules.grow import WRITE_UP
from controller.scaling.rules.path import new_queues
from controller.scaling.rules.quiet import producers_wait
from controller.scaling.rules.round import ResizeRound
from serving.shapes.scaling import ResizeKind, ResizePhase

#: Kinds of groups that get locks. Nobody knows how a group without members consumes, and how one does whose members do
#: not answer: it may be in order. Locks hold up only who consumes in order.
_GATED_KINDS: Final = frozenset({GroupKind.ORDERLY, GroupKind.OFFLINE, GroupKind.UNKNOWN})

#: Phases in which queues are locked; in a conflict they stay so until an operator decides.
LOCKED: Final = frozenset({
    ResizePhase.GATE, ResizePhase.SEED, ResizePhase.READ_UP, ResizePhase.WRITE_UP, ResizePhase.RELEASE,
})  # fmt: skip
_HELD: Final = LOCKED | {ResizePhase.CONFLICT}
#: A lock that is not renewed for so long ends.
LOCK_MS: Final = 60_000

_NOT_RENEWED: Final = "the locks of the new queues were not renewed"
_NOT_TAKEN: Final = "new queues could not be locked"
_LOST: Final = "a broker lost the locks of the new queues when its master changed or was started again"


def client_id(operation: ResizeOperation) -> str:
    return f"rmq-controller@{operation.id}"


def gate(this: ResizeRound) -> ResizeDecision:
    """Lock the new queues for every group, before any consumer can see them."""
    operation, observation = this.operation, this.observation
    if observation.missing:
        return this.stay(observation.missing)
    if new := _ungated(this):
        return this.record(gated_groups=(*operation.gated_groups, *new))
    if this.progress.agreed_at_ms is not None and not observation.failures:
        # Also after a failover: the new master may not have what was stored for groups in new queues.
        groups_locked = ", ".join(operation.gated_groups) or "no group"
        return this.go(ResizePhase.SEED, [f"new queues are locked for {groups_locked}"])
    if this.is_over(operation.waits.seed_ms):
        return _not_locked(this)
    this = this.with_progress(agreed_at_ms=this.waited_ms)
    return this.stay(observation.failures or ["locks of the new queues"])


def _ungated(this: ResizeRound) -> tuple[str, ...]:
    known = set(this.operation.gated_groups)
    groups = this.observation.groups or ()
    return tuple(each.name for each in groups if each.kind in _GATED_KINDS and each.name not in known)


def gate_late_groups(this: ResizeRound) -> ResizeDecision | None:
    """Go back to GATE with groups that have appeared since: they get locks, and offsets in the new queues."""
    phase = this.operation.resume_phase or this.operation.phase
    if this.operation.kind is not ResizeKind.GATED or phase not in LOCKED or phase is ResizePhase.GATE:
        return None
    if this.observation.missing or not (new := _ungated(this)):
        return None
    appeared = [f"group {each} has appeared since the new queues were locked" for each in new]
    return this.go(ResizePhase.GATE, appeared, gated_groups=(*this.operation.gated_groups, *new))


def _not_locked(this: ResizeRound) -> ResizeDecision:
    """Go back while no producer uses the new queues; after that consumers that were quicker keep what they have."""
    failures = this.observation.failures
    if this.operation.reached < WRITE_UP:
        return this.undo(f"{_NOT_TAKEN}: {'; '.join(failures)}")
    return this.go(ResizePhase.SEED, failures, lapse=lapse(this.operation, _NOT_TAKEN))


def release(this: ResizeRound) -> ResizeDecision:
    """Give each group a new queue once it has consumed the old queue of the same keys."""
    if (left := this.left(WRITE_UP)) is not None:
        return left
    return _released(this) if this.operation.confirmed else _await_producers(this)


def _await_producers(this: ResizeRound) -> ResizeDecision:
    wait_ms, _ = producers_wait(this.operation, this.observation)
    if not this.is_over(wait_ms):
        return this.stay([f"producers may have the old route for {(wait_ms - this.waited_ms) / 1000:.0f} s more"])
    # The end of an old queue does not show what is in the log only.
    this, waits = this.with_log_marks()
    if waits:
        return this.stay(waits)
    sets = this.observation.sets
    old_ends = [
        QueueOffset(resize.broker_name, queue_id, sets[resize.broker_name].ends[queue_id].max_offset)
        for resize in this.operation.sets
        for queue_id in range(resize.before.write)
    ]
    return this.record(confirmed=tuple(old_ends))


def _released(this: ResizeRound) -> ResizeDecision:
    lags, ready = _consumed(this)
    if ready:
        return this.record(released=(*this.operation.released, *ready))
    behind = [sentence for sentences in lags.values() for sentence in sentences]
    offline = [each.name for each in this.observation.groups or () if each.kind is GroupKind.OFFLINE]
    if absent := [each for each in offline if each in lags]:
        return this.block(
            [f"nobody of {', '.join(absent)} is connected: start a consumer, or waive the group", *behind]
        )
    if behind and this.is_over(this.operation.waits.drain_ms):
        return this.block(["groups do not consume the old queues: start their consumers, or waive them", *behind])
    waits = [*behind, *this.observation.failures]
    if not waits and this.progress.agreed_at_ms is not None:
        consumed = "every group has consumed the old queues and consumes the new ones"
        return this.go(ResizePhase.VERIFY, [consumed], locked_unix_ms=0)
    this = this.with_progress(agreed_at_ms=None if waits else this.waited_ms)
    return this.stay(waits or ["the last queues are unlocked"], tuple(_given(this)))


def _gated_groups(operation: ResizeOperation) -> list[str]:
    """Return the groups that are waited for: those that are waived get no locks, and lose their order."""
    return [each for each in operation.gated_groups if each not in operation.options.waived_groups]


def with_locks(this: ResizeRound, decision: ResizeDecision) -> ResizeDecision:
    """Renew the locks with each round in which queues are locked, and record if they may have ended."""
    operation, now_ms = decision.operation, this.observation.now_ms
    if not _holds_locks(operation):
        return decision
    locked_ms = _locked_ms(this)
    if now_ms - locked_ms > LOCK_MS and (found := lapse(operation, _NOT_RENEWED)) != operation.lapse:
        operation = structs.replace(operation, lapse=found)
    if operation is not this.operation:
        locked_unix_ms = this.observation.unix_ms - (now_ms - locked_ms)
        operation = structs.replace(operation, locked_unix_ms=locked_unix_ms)
    is_whole = all(view.master is not None for view in this.observation.sets.values())
    progress = replace(decision.progress, locks_sent_ms=now_ms if is_whole else None, locked_ms=locked_ms)
    actions = (*_held(replace(this, operation=operation)), *decision.actions)
    return replace(decision, operation=operation, progress=progress, actions=actions)


def _locked_ms(this: ResizeRound) -> int:
    """Return when all locks were renewed last, monotonic."""
    operation, observation, progress = this.operation, this.observation, this.progress
    if progress.locked_ms is None:
        # Another leader has renewed them, and only Unix times tell when. What is recorded rests on it, and no wait.
        since_ms = observation.unix_ms - operation.locked_unix_ms if operation.locked_unix_ms else 0
        return observation.now_ms - max(since_ms, 0)
    if progress.locks_sent_ms is None or observation.failures:
        return progress.locked_ms
    return progress.locks_sent_ms


def lapse(operation: ResizeOperation, reason: str) -> str:
    """Return what the operation records about locks that may have ended: nothing while new queues have no messages."""
    if operation.lapse or operation.reached < WRITE_UP:
        return operation.lapse
    return f"{reason}: consumers may have had these queues too early, and the order of keys may be broken"


def lapse_by_master(operation: ResizeOperation) -> str:
    """Return what the operation records once a master is another one."""
    return lapse(operation, _LOST) if _holds_locks(operation) else operation.lapse


def _holds_locks(operation: ResizeOperation) -> bool:
    return operation.kind is ResizeKind.GATED and (operation.resume_phase or operation.phase) in _HELD


def _consumed(this: ResizeRound) -> tuple[dict[str, list[str]], list[ReleasedQueue]]:
    """Return by group what it has not consumed of old queues, and new queues that a group may consume now."""
    behind: dict[str, list[str]] = {}
    ready: list[ReleasedQueue] = []
    released = set(this.operation.released)
    for group in _gated_groups(this.operation):
        for mark in this.operation.confirmed:
            resize = this.operation.set_of(mark.broker_name)
            assert resize is not None, "marks are of the sets of the operation"
            wanted = [ReleasedQueue(group, mark.broker_name, each) for each in _of_same_keys(resize, mark.queue_id)]
            if released.issuperset(wanted):
                continue
            offsets = this.observation.sets[mark.broker_name].offsets or {}
            offset = offsets.get(group, {}).get(mark.queue_id)
            if mark.offset == 0 or (offset is not None and offset >= mark.offset):
                ready += [each for each in wanted if each not in released]
            else:
                behind.setdefault(group, []).append(f"group {group} has not consumed {mark.queue} up to {mark.offset}")
    return behind, ready


def _of_same_keys(resize: SetResize, queue_id: int) -> range:
    return range(queue_id + resize.before.write, resize.target, resize.before.write)


def _held(this: ResizeRound) -> Iterator[HoldLocks]:
    return _locks(this, HoldLocks, lambda queue_id, released: queue_id not in released)


def _given(this: ResizeRound) -> Iterator[HoldLocks]:
    return _locks(this, GiveLocks, lambda queue_id, released: queue_id in released)


def _locks(
    this: ResizeRound, action: type[HoldLocks], is_meant: Callable[[int, set[int]], bool]
) -> Iterator[HoldLocks]:
    operation = this.operation
    for resize in operation.sets:
        view = this.observation.sets.get(resize.broker_name)
        if view is None or view.master is None:
            continue
        for group in _gated_groups(operation):
            released = {
                queue.queue_id
                for queue in operation.released
                if (queue.group, queue.broker_name) == (group, resize.broker_name)
            }
            if ids := tuple(queue_id for queue_id in new_queues(resize) if is_meant(queue_id, released)):
                yield action(
                    broker_name=resize.broker_name,
                    address=view.master.address,
                    client_id=client_id(operation),
                    group=group,
                    queue_ids=ids,
                )
