"""The phases of a resize as one table, and the next step of a resize: the rule of its phase, after what holds in all.

A row says what the phase has to know, its rule, where it begins anew with another master, its pace, and how long it may
last. Phases end by their own limits; but time in which an answer is missing does not count there, and phases that bring
numbers back try again without end. So `is_overdue` counts wall time: alerts and pages show it, no wait ends by it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from controller.scaling.resize.decision import PhaseProgress, ResizeDecision
from controller.scaling.resize.observation import ResizeObservation
from controller.scaling.resize.operation import MasterIdentity, ResizeOperation
from controller.scaling.rules import gated, grow, ordered, shrink
from controller.scaling.rules.path import (
    PAUSED_END,
    QueueFilter,
    all_queues,
    dropped_queues,
    new_queues,
    old_and_new_queues,
    path_of,
    watched_queues,
)
from controller.scaling.rules.round import ResizeRound
from serving.shapes.scaling import NEEDS_OPERATOR, ResizeKind, ResizePhase, ResizeWaits


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeNeeds:
    """The requests that a phase needs, beside the numbers of queues, which every phase does."""

    #: Which queues' ends; `dropped_queues` of an ordered topic before its counts change are all.
    ends: QueueFilter | None = None
    #: Stored offsets of groups.
    offsets: bool = False
    #: Groups of the topic; with their offsets.
    groups: bool = False
    #: For which groups brokers refuse to store offsets.
    definitions: bool = False
    #: What each member of a group consumes.
    clients: bool = False
    #: Only of groups that have consumed everything by their stored offsets, or broadcast.
    drained: bool = False
    log: bool = False
    late: bool = False
    #: Clients that have not fetched the present route.
    producers: bool = False


def _verify_ms(waits: ResizeWaits) -> int:
    return waits.verify_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    rule: Callable[[ResizeRound], ResizeDecision]
    needs: ResizeNeeds = ResizeNeeds()
    #: The phase that begins anew with a new master, which may have older offsets, ends and numbers. Ordered and gated
    #: resizes: see `_again`.
    again: ResizePhase | None = None
    #: Brokers are to show something at once.
    is_quick: bool = False
    #: How long it lasts at most if everybody answers; None: as long as messages may come late.
    limit_ms: Callable[[ResizeWaits], int] | None = _verify_ms


def _verify(this: ResizeRound) -> ResizeDecision:
    return grow.verify(this, PAUSED_END + 1 if this.operation.kind is ResizeKind.ORDERED else grow.WRITE_UP)


def _rollback(this: ResizeRound) -> ResizeDecision:
    """Give every broker its former numbers, one step of the path a round."""
    if this.operation.leaves_numbers:
        return ordered.give_back(this)
    check = this.path(0, lowest=0)
    if check.conflicts:
        return this.conflict(check.conflicts)
    conf = ordered.rolled_back_conf(this) if this.operation.kind is ResizeKind.ORDERED else ()
    if check.is_reached and not conf and not this.observation.missing:
        return this.end_undone(["every broker has its former numbers"])
    this = this.with_progress(agreed_at_ms=None)
    # First orderTopicConf, by which producers use all queues again at once, and not those of one set after the other.
    # Where a NameServer does not take it, writes are given back even so.
    actions = (*conf, *check.actions) if this.observation.failures else conf or check.actions
    return this.stay((*check.waits_for, *this.observation.missing), actions)


def _conflict(this: ResizeRound) -> ResizeDecision:
    """Say the way out; what has happened is in the evidence of the phase before."""
    operation = this.operation
    names: dict[str, list[str]] = {}
    for resize in operation.sets:
        legal = path_of(operation.kind, resize)[: max(operation.reached, 1) + 1]
        perms = ["" if counts.perm == resize.before.perm else f" with perm {counts.perm}" for counts in legal]
        texts = dict.fromkeys(f"{counts.read}/{counts.write}{perm}" for counts, perm in zip(legal, perms, strict=True))
        names.setdefault(" or ".join(texts), []).append(resize.broker_name)
    numbers = "; ".join(f"{', '.join(sets)} {text}" for text, sets in names.items())
    way_out = (
        f"give {numbers} read/write queues, then `rmq scaling resume {operation.id}`; or `rmq scaling abort "
        f"{operation.id}`: numbers stay as they are"
    )
    return this.stay([way_out])


PHASES: Final[Mapping[ResizePhase, Phase]] = {
    ResizePhase.PAUSE: Phase(rule=ordered.pause, is_quick=True),
    ResizePhase.GATE: Phase(
        rule=gated.gate,
        needs=ResizeNeeds(offsets=True, groups=True, clients=True),
        again=ResizePhase.GATE,
        is_quick=True,
        limit_ms=lambda waits: waits.seed_ms,
    ),
    ResizePhase.SEED: Phase(
        rule=grow.seed,
        needs=ResizeNeeds(ends=new_queues, offsets=True, groups=True, definitions=True),
        again=ResizePhase.SEED,
        is_quick=True,
        limit_ms=lambda waits: waits.seed_ms,
    ),
    ResizePhase.READ_UP: Phase(rule=grow.read_up, again=ResizePhase.SEED, is_quick=True),
    ResizePhase.ASSIGN: Phase(
        rule=grow.assign,
        needs=ResizeNeeds(ends=old_and_new_queues, offsets=True, groups=True, definitions=True, clients=True),
        again=ResizePhase.SEED,
        limit_ms=lambda waits: waits.assign_ms,
    ),
    ResizePhase.WRITE_UP: Phase(rule=grow.write_up, again=ResizePhase.SEED, is_quick=True),
    ResizePhase.RELEASE: Phase(
        rule=gated.release,
        needs=ResizeNeeds(ends=all_queues, offsets=True, groups=True, log=True),
        limit_ms=lambda waits: waits.producers_ms + waits.drain_ms,
    ),
    ResizePhase.VERIFY: Phase(
        rule=_verify,
        needs=ResizeNeeds(ends=new_queues, offsets=True),
        again=ResizePhase.SEED,
        limit_ms=lambda waits: waits.grown_watch_ms,
    ),
    ResizePhase.WRITE_DOWN: Phase(rule=shrink.write_down, is_quick=True),
    ResizePhase.QUIESCE: Phase(
        rule=shrink.quiesce,
        needs=ResizeNeeds(ends=dropped_queues, log=True, late=True, producers=True),
        again=ResizePhase.WRITE_DOWN,
        limit_ms=lambda waits: max(waits.quiesce_ms, waits.producers_ms + waits.stable_ms),
    ),
    ResizePhase.LATE: Phase(
        rule=shrink.late, needs=ResizeNeeds(late=True), again=ResizePhase.WRITE_DOWN, limit_ms=None
    ),
    ResizePhase.DRAIN: Phase(
        rule=shrink.drain,
        needs=ResizeNeeds(ends=dropped_queues, offsets=True, groups=True, clients=True, drained=True),
        again=ResizePhase.WRITE_DOWN,
        limit_ms=lambda waits: waits.drain_ms,
    ),
    ResizePhase.CONFIRM: Phase(
        rule=shrink.confirm,
        needs=ResizeNeeds(ends=dropped_queues, offsets=True, groups=True, clients=True, drained=True, log=True),
        again=ResizePhase.WRITE_DOWN,
        limit_ms=lambda waits: waits.confirm_ms,
    ),
    ResizePhase.RESIZE: Phase(rule=ordered.resize, is_quick=True),
    ResizePhase.UNPAUSE: Phase(rule=ordered.unpause, is_quick=True),
    ResizePhase.READ_DOWN: Phase(
        rule=shrink.read_down,
        needs=ResizeNeeds(ends=dropped_queues, log=True, late=True),
        again=ResizePhase.REOPEN,
        is_quick=True,
    ),
    ResizePhase.WATCH: Phase(
        rule=shrink.watch,
        needs=ResizeNeeds(ends=dropped_queues, log=True, late=True),
        again=ResizePhase.REOPEN,
        limit_ms=None,
    ),
    ResizePhase.REOPEN: Phase(rule=shrink.reopen, is_quick=True),
    ResizePhase.ROLLBACK: Phase(rule=_rollback, is_quick=True),
    ResizePhase.CONFLICT: Phase(rule=_conflict),
}

#: Phases that only a broker set beside an ordered resize blocks.
_BLOCKED_BESIDE: Final = frozenset({ResizePhase.SEED, ResizePhase.RESIZE, ResizePhase.UNPAUSE})

QUICK_ROUND_MS: Final = 1_000
ROUND_MS_MIN: Final = 500
ROUND_MS_MAX: Final = 10_000
BLOCKED_ROUND_MS_MAX: Final = 60_000
#: How long before its end VERIFY begins to look at offsets: longer than two rounds of it.
VERIFY_LAST_MS: Final = 30_000
#: What a phase may last beyond its waits, and without answers: `waited_ms` is saved each minute, and leaders change.
GRACE_MS: Final = 600_000


def needs_of(operation: ResizeOperation, waited_ms: int) -> ResizeNeeds:
    """Return what the present phase has to know in a round that begins once it has waited so long."""
    phase = operation.resume_phase or operation.phase
    needs = PHASES[phase].needs
    if phase is ResizePhase.VERIFY and waited_ms < operation.waits.grown_watch_ms - VERIFY_LAST_MS:
        # Lag in new queues is reported at its end, by what is known then.
        return ResizeNeeds()
    if needs.ends is dropped_queues:
        return replace(needs, ends=watched_queues(operation))
    if operation.kind is ResizeKind.GATED and phase in gated.LOCKED:
        # Groups that appear while queues are locked get locks, too.
        return replace(needs, offsets=True, groups=True, clients=True)
    return needs


def round_ms(operation: ResizeOperation) -> int:
    is_blocked = operation.phase is ResizePhase.BLOCKED
    phase = operation.resume_phase or operation.phase
    row = PHASES[phase]
    if row.is_quick and not is_blocked:
        return QUICK_ROUND_MS
    # Each wait is looked at several times before it ends.
    shortest_ms = min(operation.waits.confirm_ms, operation.waits.stable_ms, operation.waits.watch_ms)
    # Rounds of a gated resize renew its locks, which end after 60 s; those of a paused topic end its pause in time.
    is_paused = operation.kind is ResizeKind.ORDERED and operation.reached <= PAUSED_END
    if is_blocked and operation.kind is not ResizeKind.GATED and not is_paused:
        # A command begins the next round at once.
        return min(max(shortest_ms * 6, ROUND_MS_MIN), BLOCKED_ROUND_MS_MAX)
    # All offsets of a broker come with each answer.
    return min(max(shortest_ms // (1 if row.needs.offsets else 4), ROUND_MS_MIN), ROUND_MS_MAX)


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
    return ordered.stopped_by_open_set(this) or gated.gate_late_groups(this) or PHASES[phase].rule(this)


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
            return PHASES[phase].again


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


#: What UNPAUSE is followed by once every broker has the permission to write again.
_WRITES_AGAIN: Final = frozenset({
    (ResizePhase.UNPAUSE, ResizePhase.QUIESCE), (ResizePhase.UNPAUSE, ResizePhase.VERIFY),
})  # fmt: skip


def is_overdue(operation: ResizeOperation, unix_ms: int) -> bool:
    """Return whether somebody should find out why a resize does not go on.

    One that waits for its turn or for an operator is not overdue; nor is one that waits for late messages, however
    long, while all brokers answer.
    """
    phase = operation.phase
    if operation.is_finished or phase in NEEDS_OPERATOR or phase is ResizePhase.PLANNED:
        return False
    lasted_ms = unix_ms - operation.phase_since_unix_ms
    limit_ms = PHASES[phase].limit_ms if phase in PHASES else _verify_ms
    if limit_ms is not None and lasted_ms > limit_ms(operation.waits) + GRACE_MS:
        return True
    return lasted_ms - operation.waited_ms > GRACE_MS


def writes_paused_since(operation: ResizeOperation) -> int | None:
    """Return since when producers of an ordered topic get no queue, Unix ms; None: they get them.

    From the pause until writes are given back, whether the resize is blocked, in a conflict or being undone.
    """
    if operation.kind is not ResizeKind.ORDERED or operation.is_finished:
        return None
    phases = [(each.phase, each.began_unix_ms) for each in operation.steps]
    phases.append((operation.phase, operation.phase_since_unix_ms))
    if any((before, after) in _WRITES_AGAIN for (before, _), (after, _) in pairwise(phases)):
        return None
    return next((began_unix_ms for phase, began_unix_ms in phases if phase is ResizePhase.PAUSE), None)
