"""Phases that only an ordered topic has: pause, resize, go on (docs/protocol/queue-scaling.md 8, O1).

While writes pause, everything is consumed; then the counts change, and no key can be in two queues at once.
"""

from collections.abc import Iterator

from controller.scaling.resize.decision import PutOrderConf, ResizeDecision
from controller.scaling.resize.operation import WRITE_PERM, ResizeOperation, ResizePhase
from controller.scaling.rules.path import PAUSED_END
from controller.scaling.rules.round import ResizeRound


def pause(this: ResizeRound) -> ResizeDecision:
    """Take the permission to write from the topic, then remove `orderTopicConf`: producers use only that.

    So they use all queues until none: no set pauses before another one for them.
    """
    check = this.path(1, lowest=0)
    if check.conflicts:
        return this.conflict(check.conflicts)
    conf = tuple(_conf_actions(this, None)) if check.is_reached else ()
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


def is_any_open(this: ResizeRound) -> bool:
    """Return whether producers can use a broker set already."""
    views = (this.observation.sets.get(each.broker_name) for each in this.operation.sets)
    counts = [view.counts for view in views if view is not None and view.counts is not None]
    return any(each.perm & WRITE_PERM for each in counts)


def resized_order_conf(operation: ResizeOperation) -> str | None:
    """Return `orderTopicConf` with the new counts, `broker-a:8;broker-b:8`; None if there was none."""
    if operation.order_conf is None:
        return None
    targets = {each.broker_name: each.target for each in operation.sets}
    parts = (part.partition(":") for part in operation.order_conf.split(";") if part)
    return ";".join(f"{name}:{targets.get(name, count)}" for name, _, count in parts)


def rolled_back_conf(this: ResizeRound) -> tuple[PutOrderConf, ...]:
    """Return what restores `orderTopicConf`."""
    return tuple(_conf_actions(this, this.operation.order_conf))


def _conf_actions(this: ResizeRound, wanted: str | None) -> Iterator[PutOrderConf]:
    for each in this.observation.name_servers:
        if each.counts is not None and each.order_conf != wanted:
            yield PutOrderConf(address=each.address, value=wanted)
