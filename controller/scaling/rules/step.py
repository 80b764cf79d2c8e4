"""The next step of a resize: the rule of its phase, after what holds in every phase."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from controller.scaling.resize.decision import PhaseProgress, ResizeDecision
from controller.scaling.resize.observation import ResizeObservation
from controller.scaling.resize.operation import MasterIdentity, ResizeKind, ResizeOperation, ResizePhase
from controller.scaling.rules import gated, grow, ordered, shrink
from controller.scaling.rules.ordered import give_back
from controller.scaling.rules.path import PAUSED_END, path_of
from controller.scaling.rules.round import ResizeRound

#: Phases that only a broker set beside an ordered resize blocks.
_BLOCKED_BESIDE: Final = frozenset({ResizePhase.SEED, ResizePhase.RESIZE, ResizePhase.UNPAUSE})
#: Phase -> the one that begins anew with a new master: it may have older offsets, ends and numbers.
_AGAIN: Final[Mapping[ResizePhase, ResizePhase]] = {
    ResizePhase.GATE: ResizePhase.GATE,
    ResizePhase.SEED: ResizePhase.SEED,
    ResizePhase.READ_UP: ResizePhase.SEED,
    ResizePhase.ASSIGN: ResizePhase.SEED,
    ResizePhase.WRITE_UP: ResizePhase.SEED,
    ResizePhase.VERIFY: ResizePhase.SEED,
    ResizePhase.QUIESCE: ResizePhase.WRITE_DOWN,
    ResizePhase.LATE: ResizePhase.WRITE_DOWN,
    ResizePhase.DRAIN: ResizePhase.WRITE_DOWN,
    ResizePhase.CONFIRM: ResizePhase.WRITE_DOWN,
    ResizePhase.READ_DOWN: ResizePhase.REOPEN,
    ResizePhase.WATCH: ResizePhase.REOPEN,
}
#: The problem of a resize that ended so.
DELETED: Final = "the topic was deleted"


def begin_phase(operation: ResizeOperation, now_ms: int | None = None) -> PhaseProgress:
    """Return what a leader knows of the present phase when it begins with it.

    Ends only grow: if they are what they were, no message has come meanwhile. With `now_ms` the phase was entered
    before, and its first round counts from then on.
    """
    return PhaseProgress(
        round_ms=now_ms,
        seen_ms=now_ms,
        waited_ms=operation.waited_ms,
        lasted_ms=operation.lasted_ms,
        saved_ms=operation.lasted_ms,
        ends={each.queue: each.offset for each in operation.seen_ends},
        moved_at_ms=operation.moved_at_ms,
    )


def decide_step(operation: ResizeOperation, progress: PhaseProgress, observation: ResizeObservation) -> ResizeDecision:
    """Return what becomes of a started resize in this round; finished ones are not given."""
    was_deleted, is_deleted = progress.is_deleted, _is_deleted(operation, observation)
    progress = progress.at(observation.now_ms, is_complete=not observation.missing)
    this = ResizeRound(operation=operation, progress=replace(progress, is_deleted=is_deleted), observation=observation)
    if is_deleted:
        return _deleted(this, is_certain=was_deleted)
    if (decision := _masters_changed(this)) is not None:
        return decision
    if operation.phase is ResizePhase.BLOCKED:
        return gated.with_locks(this, _blocked(this))
    return gated.with_locks(this, _by_phase(this, operation.phase))


def _by_phase(this: ResizeRound, phase: ResizePhase) -> ResizeDecision:
    """Apply the rule of a phase, unless the pause of an ordered topic is to end first."""
    if _is_paused_too_long(this):
        return this.undo(f"the topic had no writes for longer than {this.operation.waits.pause_ms / 1000:.0f} s")
    return ordered.stopped_by_open_set(this) or gated.gate_late_groups(this) or _RULES[phase](this)


def _deleted(this: ResizeRound, *, is_certain: bool) -> ResizeDecision:
    """End once the entry of a pause is gone: a topic of that name that is made again would get no messages."""
    # One odd answer ends nothing, and nothing is done about it.
    removals = tuple(ordered.replaced_paused_conf(this, None)) if is_certain else ()
    if removals or not is_certain:
        return this.stay((DELETED,), removals)
    return this.go(ResizePhase.ABORTED, (DELETED,), problem=DELETED)


def _is_deleted(operation: ResizeOperation, observation: ResizeObservation) -> bool:
    """Return whether the topic is gone: every master answered that it does not have it, and it is in no route."""
    views = (observation.sets.get(each.broker_name) for each in operation.sets)
    return observation.is_in_no_route and all(view is not None and not view.has_topic for view in views)


def _blocked(this: ResizeRound) -> ResizeDecision:
    """Go on as soon as the reason has ended."""
    operation = this.operation
    resume = operation.resume_phase
    assert resume is not None, "a blocked operation knows its phase"
    if resume in _BLOCKED_BESIDE and not this.observation.missing and ordered.stopped_by_open_set(this) is None:
        return this.go(resume, ["no broker set beside this resize takes writes any more"])
    decision = _by_phase(this, resume)
    if decision.operation.phase is not ResizePhase.BLOCKED:
        return decision
    return replace(decision, waits_for=decision.waits_for or (operation.problem,))


def _is_paused_too_long(this: ResizeRound) -> bool:
    """Return whether an ordered topic waits too long without writes; its counts have not changed yet."""
    operation = this.operation
    phase = operation.resume_phase or operation.phase
    if operation.kind is not ResizeKind.ORDERED or operation.reached > PAUSED_END or phase not in ordered.PAUSED:
        return False
    return operation.earlier_ms + this.progress.lasted_ms > operation.waits.pause_ms


def _masters_changed(this: ResizeRound) -> ResizeDecision | None:
    """Begin anew what relied on a master that failed or was started again."""
    operation = this.operation
    seen = {name: view.master for name, view in this.observation.sets.items() if view.master is not None}
    changed = sorted(name for name, master in seen.items() if operation.masters.get(name) != master)
    if not changed:
        return None
    masters = operation.masters | seen
    lost = [name for name in changed if name in operation.masters]
    again = _again(operation)
    if not lost or again is None:
        lapse = gated.lapse_by_master(operation) if lost else operation.lapse
        return this.record(masters=masters, has_new_master=True, lapse=lapse)
    evidence = [_replaced(name, operation.masters[name], masters[name]) for name in lost]
    if again is ResizePhase.REOPEN:
        return this.go(again, evidence, masters=masters, reopened=operation.reopened + 1)
    return this.go(again, evidence, masters=masters, has_new_master=True, lapse=gated.lapse_by_master(operation))


def _again(operation: ResizeOperation) -> ResizePhase | None:
    """Return the phase from which a resize goes on after the change of a master; None: the present one."""
    phase = operation.resume_phase or operation.phase
    match operation.kind:
        case ResizeKind.ORDERED if operation.leaves_numbers:
            return None
        case ResizeKind.ORDERED:
            return _again_ordered(operation, phase)
        case ResizeKind.GATED:
            # Locks are in the memory of a broker: they are taken again before anything else.
            return ResizePhase.GATE if phase in gated.LOCKED or phase is ResizePhase.VERIFY else None
        case _:
            return _AGAIN.get(phase)


def _again_ordered(operation: ResizeOperation, phase: ResizePhase) -> ResizePhase | None:
    if phase in {ResizePhase.READ_DOWN, ResizePhase.WATCH}:
        return ResizePhase.REOPEN
    if operation.reached < PAUSED_END:
        return ResizePhase.PAUSE if phase in ordered.PAUSED and phase is not ResizePhase.RESIZE else None
    if operation.seeds and phase is not ResizePhase.ROLLBACK:
        # Producers may use new queues already; what was stored for groups there may be lost.
        return ResizePhase.SEED
    if phase is ResizePhase.RESIZE:
        return None
    return ResizePhase.UNPAUSE if operation.reached > PAUSED_END and phase is not ResizePhase.REOPEN else None


def _replaced(name: str, before: MasterIdentity, after: MasterIdentity) -> str:
    if before.address == after.address:
        return f"the master of {name} at {after.address} was started again"
    return f"{after.address} leads {name} instead of {before.address}"


def rollback(this: ResizeRound) -> ResizeDecision:
    """Give every broker its former numbers, one step of the path a round."""
    if this.operation.leaves_numbers:
        return give_back(this)
    check = this.path(0, lowest=0)
    if check.conflicts:
        return this.conflict(check.conflicts)
    conf = ordered.rolled_back_conf(this) if this.operation.kind is ResizeKind.ORDERED else ()
    if check.is_reached and not conf and not this.observation.missing:
        return this.end_undone(["every broker has its former numbers"])
    this = replace(this, progress=replace(this.progress, agreed_at_ms=None))
    # First orderTopicConf, by which producers use all queues again at once, and not those of one set after the other.
    # Where a NameServer does not take it, writes are given back even so.
    actions = (*conf, *check.actions) if this.observation.failures else conf or check.actions
    return this.stay((*check.waits_for, *this.observation.missing), actions)


def _verify(this: ResizeRound) -> ResizeDecision:
    return grow.verify(this, PAUSED_END + 1 if this.operation.kind is ResizeKind.ORDERED else grow.WRITE_UP)


def _conflict(this: ResizeRound) -> ResizeDecision:
    # What has happened is in the evidence of the phase before.
    return this.stay([_way_out(this.operation)])


def _way_out(operation: ResizeOperation) -> str:
    names: dict[str, list[str]] = {}
    for resize in operation.sets:
        legal = path_of(operation.kind, resize)[: max(operation.reached, 1) + 1]
        perms = ["" if each.perm == resize.before.perm else f" with perm {each.perm}" for each in legal]
        texts = dict.fromkeys(f"{each.read}/{each.write}{perm}" for each, perm in zip(legal, perms, strict=True))
        names.setdefault(" or ".join(texts), []).append(resize.broker_name)
    numbers = "; ".join(f"{', '.join(sets)} {text}" for text, sets in names.items())
    return (
        f"give {numbers} read/write queues, then `rmq scaling resume {operation.id}`; or `rmq scaling abort "
        f"{operation.id}`: numbers stay as they are"
    )


_RULES: Final[Mapping[ResizePhase, Callable[[ResizeRound], ResizeDecision]]] = {
    ResizePhase.PAUSE: ordered.pause,
    ResizePhase.SEED: grow.seed,
    ResizePhase.READ_UP: grow.read_up,
    ResizePhase.ASSIGN: grow.assign,
    ResizePhase.WRITE_UP: grow.write_up,
    ResizePhase.GATE: gated.gate,
    ResizePhase.RELEASE: gated.release,
    ResizePhase.VERIFY: _verify,
    ResizePhase.WRITE_DOWN: shrink.write_down,
    ResizePhase.QUIESCE: shrink.quiesce,
    ResizePhase.LATE: shrink.late,
    ResizePhase.DRAIN: shrink.drain,
    ResizePhase.CONFIRM: shrink.confirm,
    ResizePhase.RESIZE: ordered.resize,
    ResizePhase.UNPAUSE: ordered.unpause,
    ResizePhase.READ_DOWN: shrink.read_down,
    ResizePhase.WATCH: shrink.watch,
    ResizePhase.REOPEN: shrink.reopen,
    ResizePhase.ROLLBACK: rollback,
    ResizePhase.CONFLICT: _conflict,
}
