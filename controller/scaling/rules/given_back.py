"""The end of an ordered resize that was aborted in a conflict: the topic gets its writes back, and keeps its numbers.

Only what this resize has written itself is changed: its numbers without the permission to write, and its entry of
`orderTopicConf` without queues. All else is somebody else's; it stays, and the last step names it
(docs/protocol/queue-scaling.md 10).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from controller.scaling.resize.decision import ChangeCounts, PutOrderConf, ResizeDecision
from controller.scaling.resize.operation import WRITE_PERM, QueueCounts, ResizePhase, SetResize
from controller.scaling.rules.ordered import is_any_open, replaced_paused_conf, resized_order_conf
from controller.scaling.rules.path import path_of
from controller.scaling.rules.round import ResizeRound

#: Rounds after `verifyMs` in which writes are still given back: somebody may take them away again each time.
LAST_ROUNDS_MAX: Final = 3


def give_back(this: ResizeRound) -> ResizeDecision:
    """Give writes back, and again if a pause arrives late.

    For `verifyMs` no set is opened alone: while one does not answer, producers would send its keys to the others.
    """
    observation, progress = this.observation, this.progress
    is_over = progress.lasted_ms >= this.operation.waits.verify_ms
    conf, unpaused = tuple(_conf_actions(this, is_over=is_over)), tuple(_unpaused(this))
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


def _conf_actions(this: ResizeRound, *, is_over: bool) -> Iterator[PutOrderConf]:
    """Yield what replaces the entry without queues, once all numbers are known; in the end whatever they are."""
    if is_over or not _is_one_silent(this):
        yield from replaced_paused_conf(this, _fitting_conf(this))


def _fitting_conf(this: ResizeRound) -> str | None:
    """Return the entry for the numbers that all sets have; None: it goes, and producers use what each broker shows."""
    shown = list(_shown(this))
    if all(counts is not None and counts.write == resize.before.write for resize, counts in shown):
        return this.operation.order_conf
    if all(counts is not None and counts.write == resize.target for resize, counts in shown):
        return resized_order_conf(this.operation)
    return None


def _left(this: ResizeRound) -> Iterator[str]:
    """Yield what is not as it was before the resize."""
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
