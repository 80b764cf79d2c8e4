"""Phases that only an ordered topic has: pause, resize, go on (docs/protocol/queue-scaling.md 8, O1).

While writes pause, everything is consumed; then the counts change, and no key can be in two queues at once.
"""

from collections.abc import Callable, Iterator
from typing import Final

from controller.scaling.resize.decision import PutOrderConf, ResizeDecision
from controller.scaling.resize.operation import WRITE_PERM, ResizeKind, ResizeOperation, ResizePhase
from controller.scaling.rules.path import PAUSED_END
from controller.scaling.rules.round import ResizeRound

#: Phases before the new counts: producers get no queue.
PAUSED: Final = frozenset({
    ResizePhase.PAUSE, ResizePhase.QUIESCE, ResizePhase.LATE, ResizePhase.DRAIN, ResizePhase.CONFIRM, ResizePhase.SEED,
    ResizePhase.RESIZE,
})  # fmt: skip
#: Phases after the counts have changed in which nobody may write yet.
_OPENING: Final = frozenset({ResizePhase.SEED, ResizePhase.UNPAUSE})


def pause(this: ResizeRound) -> ResizeDecision:
    """Take the permission to write from the topic, then all queues from `orderTopicConf`: producers use only that.

    So they use all queues until none: no set pauses before another one for them, and one that appears gets no keys.
    """
    check = this.path(1, lowest=0)
    if check.conflicts:
        return this.conflict(check.conflicts)
    conf = tuple(_conf_actions(this, paused_order_conf(this.operation))) if check.is_reached else ()
    if check.is_reached and not conf and not this.observation.missing:
        return this.go(ResizePhase.QUIESCE, ["producers get no queue of the topic any more"], reached=1)
    if this.is_over(this.operation.waits.verify_ms):
        return this.undo(f"not everybody showed the topic without writes: {'; '.join(check.waits_for)}")
    waits = (*check.waits_for, *this.observation.missing, *(f"orderTopicConf of {each.address}" for each in conf))
    return this.stay(waits, (*conf, *check.actions))


def resize(this: ResizeRound) -> ResizeDecision:
    """Change the counts while nobody writes, and `orderTopicConf` with them."""
    check = this.path(PAUSED_END)
    if check.conflicts:
        return this.conflict(check.conflicts)
    if not check.is_reached or this.observation.missing:
        return this.stay((*check.waits_for, *this.observation.missing), check.actions)
    conf = tuple(_conf_actions(this, resized_order_conf(this.operation)))
    if conf and this.operation.reached <= PAUSED_END:
        # Producers use the entry whatever the permission is: from here on there is no way back.
        return this.record(reached=PAUSED_END + 1)
    if conf:
        return this.stay([f"orderTopicConf of {each.address}" for each in conf], conf)
    return this.go(ResizePhase.UNPAUSE, ["every broker has the new counts, and nobody writes"], reached=PAUSED_END + 1)


def unpause(this: ResizeRound) -> ResizeDecision:
    """Give the permission to write back."""
    check = this.path(PAUSED_END + 1, lowest=0)
    if check.conflicts:
        return this.conflict(check.conflicts)
    conf = tuple(_conf_actions(this, resized_order_conf(this.operation)))
    waits = (*check.waits_for, *this.observation.missing)
    if conf:
        return this.stay([*waits, *(f"orderTopicConf of {each.address}" for each in conf)], conf)
    if not check.is_reached or this.observation.missing:
        # While a set does not answer, producers would send keys of its queues to those of the others.
        return this.stay(waits, () if this.observation.missing and not is_any_open(this) else check.actions)
    shrinks = any(each.target < each.before.read for each in this.operation.sets)
    following = ResizePhase.QUIESCE if shrinks else ResizePhase.VERIFY
    return this.go(following, ["producers use the new queues"], confirmed=())


def stopped_by_open_set(this: ResizeRound) -> ResizeDecision | None:
    """Undo or block a pause once a broker set beside the resize takes writes.

    Producers whose route has no `orderTopicConf` send it the keys of all queues, whose older messages are not consumed.
    """
    operation = this.operation
    if operation.kind is not ResizeKind.ORDERED or not _is_closed(this):
        return None
    covered = {each.broker_name for each in operation.sets}
    servers = [
        each for each in this.observation.name_servers if operation.order_conf is None or not each.sends_order_conf
    ]
    shown = (each for server in servers for each in (server.counts or {}).items())
    found = sorted({name for name, counts in shown if name not in covered and counts.perm & WRITE_PERM})
    if not found:
        return None
    problem = (
        f"{', '.join(found)} takes writes of {operation.topic} and is not part of this resize: while it pauses, "
        "producers send all keys there"
    )
    if operation.reached < PAUSED_END:
        return this.undo(problem)
    return this.block([f"{problem}. Stop it, or take its permission to write (mqadmin wipeWritePerm)"])


def _is_closed(this: ResizeRound) -> bool:
    """Return whether no producer may have the new queues yet: it has them by `orderTopicConf`, or by the permission."""
    operation, phase = this.operation, this.operation.resume_phase or this.operation.phase
    if operation.reached <= PAUSED_END:
        return phase in PAUSED
    return phase in _OPENING and operation.order_conf is None and not is_any_open(this)


def is_any_open(this: ResizeRound) -> bool:
    """Return whether producers can use a broker set already."""
    views = (this.observation.sets.get(each.broker_name) for each in this.operation.sets)
    counts = [view.counts for view in views if view is not None and view.counts is not None]
    return any(each.perm & WRITE_PERM for each in counts)


def resized_order_conf(operation: ResizeOperation) -> str | None:
    """Return `orderTopicConf` with the new counts, `broker-a:8;broker-b:8`; None if there was none."""
    targets = {each.broker_name: str(each.target) for each in operation.sets}
    return _order_conf(operation, targets.get)


def paused_order_conf(operation: ResizeOperation) -> str | None:
    """Return `orderTopicConf` without queues, `broker-a:0;broker-b:0`; None if there was none."""
    return _order_conf(operation, lambda _name, _count: "0")


def replaced_paused_conf(this: ResizeRound, value: str | None) -> Iterator[PutOrderConf]:
    """Yield what replaces the entries of a pause: nobody else writes one without any queue.

    They may name sets that were given up since.
    """
    for each in this.observation.name_servers:
        parts = [part for part in (each.order_conf or "").split(";") if part]
        is_paused = bool(parts) and all(part.endswith(":0") for part in parts)
        if each.counts is not None and is_paused and each.order_conf != value:
            yield PutOrderConf(address=each.address, value=value)


def _order_conf(operation: ResizeOperation, queues: Callable[[str, str], str]) -> str | None:
    if operation.order_conf is None:
        return None
    parts = (part.partition(":") for part in operation.order_conf.split(";") if part)
    return ";".join(f"{name}:{queues(name, count)}" for name, _, count in parts)


def rolled_back_conf(this: ResizeRound) -> tuple[PutOrderConf, ...]:
    """Return what restores `orderTopicConf`."""
    return tuple(_conf_actions(this, this.operation.order_conf))


def _conf_actions(this: ResizeRound, wanted: str | None) -> Iterator[PutOrderConf]:
    for each in this.observation.name_servers:
        if each.counts is not None and each.order_conf != wanted:
            yield PutOrderConf(address=each.address, value=wanted)
