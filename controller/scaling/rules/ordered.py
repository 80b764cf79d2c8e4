"""Phases that only an ordered topic has: pause, resize, go on (docs/protocol/queue-scaling.md 8, O1).

While writes pause, everything is consumed; then the counts change, and no key can be in two queues at once.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from controller.scaling.resize.decision import ChangeCounts, PutOrderConf, ResizeDecision
from controller.scaling.resize.operation import WRITE_PERM, QueueCounts, ResizeOperation, SetResize
from controller.scaling.rules.path import PAUSED_END, path_of
from controller.scaling.rules.round import ResizeRound
from serving.shapes.scaling import ResizeKind, ResizePhase

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
    """Yield what replaces the entries of a pause (nobody else writes one without any queue), of former sets too."""
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
    return tuple(_conf_actions(this, this.operation.order_conf))


def _conf_actions(this: ResizeRound, wanted: str | None) -> Iterator[PutOrderConf]:
    for each in this.observation.name_servers:
        if each.counts is not None and each.order_conf != wanted:
            yield PutOrderConf(address=each.address, value=wanted)


#: Rounds after `verifyMs` in which writes are still given back: somebody may take them away again each time.
LAST_ROUNDS_MAX: Final = 3


def give_back(this: ResizeRound) -> ResizeDecision:
    """Give writes back after an abort in a conflict, and again if a pause arrives late.

    Only what this resize has written itself is changed: its numbers without the permission to write, and its entry of
    `orderTopicConf` without queues. All else stays, and the last step names it (docs/protocol/queue-scaling.md 10).
    For `verifyMs` no set is opened alone: while one does not answer, producers would send its keys to the others.
    """
    observation, progress = this.observation, this.progress
    is_over = progress.lasted_ms >= this.operation.waits.verify_ms
    # The entry without queues goes once all numbers are known; in the end whatever they are.
    is_known = is_over or not _is_one_silent(this)
    conf = tuple(replaced_paused_conf(this, _fitting_conf(this))) if is_known else ()
    unpaused = tuple(_unpaused(this))
    actions: tuple[ChangeCounts | PutOrderConf, ...] = (*conf, *unpaused)
    # What can be done is tried once, however late, and not for ever.
    if is_over and (not actions or observation.failures or progress.last_rounds >= LAST_ROUNDS_MAX):
        return this.go(ResizePhase.ABORTED, list(_left(this)), problem=this.operation.problem)
    if actions or observation.missing:
        progress = replace(progress, agreed_at_ms=None, last_rounds=progress.last_rounds + is_over)
        sentences = [
            *(f"orderTopicConf of {each.address}" for each in conf),
            *(f"writes at {each.address}" for each in unpaused),
        ]
        now = actions if is_over else _in_order(this, conf, unpaused)
        return replace(this, progress=progress).stay((*sentences, *observation.missing), now)
    return this.end_undone(list(_left(this)))


def _in_order(
    this: ResizeRound, conf: tuple[PutOrderConf, ...], unpaused: tuple[ChangeCounts, ...]
) -> tuple[ChangeCounts | PutOrderConf, ...]:
    """Return what is done now: first `orderTopicConf`, by which producers use all queues again at once."""
    if _is_one_silent(this) and not is_any_open(this):
        return ()
    # Where a NameServer does not take it, writes are given back even so.
    return (*conf, *unpaused) if this.observation.failures else conf or unpaused


def _shown(this: ResizeRound) -> Iterator[tuple[SetResize, QueueCounts | None]]:
    for resize in this.operation.sets:
        view = this.observation.sets.get(resize.broker_name)
        yield resize, None if view is None else view.counts


def _unpaused(this: ResizeRound) -> Iterator[ChangeCounts]:
    for resize, counts in _shown(this):
        view = this.observation.sets.get(resize.broker_name)
        if counts is None or view is None or view.master is None or counts.perm & WRITE_PERM:
            continue
        if counts in path_of(this.operation.kind, resize):
            yield ChangeCounts(
                broker_name=resize.broker_name,
                address=view.master.address,
                before=counts,
                after=QueueCounts(counts.read, counts.write, resize.before.perm),
            )


def _is_one_silent(this: ResizeRound) -> bool:
    return any(counts is None for _, counts in _shown(this))


def _fitting_conf(this: ResizeRound) -> str | None:
    """Return the entry for the numbers that all sets have; None: it goes, and producers use what each broker shows."""
    shown = list(_shown(this))
    if all(counts is not None and counts.write == resize.before.write for resize, counts in shown):
        return this.operation.order_conf
    if all(counts is not None and counts.write == resize.target for resize, counts in shown):
        return resized_order_conf(this.operation)
    return None


def _left(this: ResizeRound) -> Iterator[str]:
    before = this.operation.order_conf
    for resize, counts in _shown(this):
        if counts is None:
            yield f"{resize.broker_name} does not answer: check its numbers, and that its perm is {resize.before.perm}"
        elif counts != resize.before:
            closed = "" if counts.perm & WRITE_PERM else ", so producers get no queue there"
            yield f"{resize.broker_name} stays with {counts}{closed}; before the resize it had {resize.before}"
    for each in this.observation.name_servers:
        was = f"before the resize it was {before or 'none'}"
        if each.counts is None:
            yield f"NameServer {each.address} does not answer: check its orderTopicConf; {was}"
        elif each.order_conf != before:
            yield f"orderTopicConf of {each.address} stays {each.order_conf or 'none'}; {was}"
    if all(counts == resize.before for resize, counts in _shown(this)):
        yield "every broker has its former numbers and permission"
