"""What a phase of a resize has to know, and how often it looks."""

from dataclasses import dataclass
from typing import Final

from controller.scaling.resize.operation import ResizeKind, ResizeOperation, ResizePhase
from controller.scaling.rules.gated import LOCKED
from controller.scaling.rules.path import (
    PAUSED_END,
    QueueFilter,
    all_queues,
    dropped_queues,
    new_queues,
    old_and_new_queues,
    watched_queues,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeNeeds:
    """The requests that a phase needs, beside the numbers of queues, which every phase does."""

    #: Which queues' ends.
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


_GROUPS: Final = frozenset({
    ResizePhase.GATE, ResizePhase.RELEASE, ResizePhase.SEED, ResizePhase.ASSIGN, ResizePhase.DRAIN, ResizePhase.CONFIRM,
})  # fmt: skip
_CLIENTS: Final = _GROUPS - {ResizePhase.SEED, ResizePhase.RELEASE}
_DRAINED: Final = frozenset({ResizePhase.DRAIN, ResizePhase.CONFIRM})
_DEFINITIONS: Final = frozenset({ResizePhase.SEED, ResizePhase.ASSIGN})
_WATCHED: Final = frozenset({ResizePhase.QUIESCE, ResizePhase.DRAIN, ResizePhase.CONFIRM})
_DROPPED: Final = frozenset({ResizePhase.READ_DOWN, ResizePhase.WATCH})
_LATE: Final = frozenset({ResizePhase.QUIESCE, ResizePhase.LATE, ResizePhase.READ_DOWN, ResizePhase.WATCH})
_LOG: Final = _DROPPED | {ResizePhase.QUIESCE, ResizePhase.CONFIRM, ResizePhase.RELEASE}

#: Phases in which brokers are to show something at once.
_QUICK: Final = frozenset({
    ResizePhase.GATE, ResizePhase.PAUSE, ResizePhase.SEED, ResizePhase.READ_UP, ResizePhase.WRITE_UP,
    ResizePhase.WRITE_DOWN, ResizePhase.RESIZE, ResizePhase.UNPAUSE, ResizePhase.READ_DOWN, ResizePhase.REOPEN,
    ResizePhase.ROLLBACK,
})  # fmt: skip
QUICK_ROUND_MS: Final = 1_000
ROUND_MS_MIN: Final = 500
ROUND_MS_MAX: Final = 10_000
BLOCKED_ROUND_MS_MAX: Final = 60_000
#: How long before its end VERIFY begins to look at offsets: longer than two rounds of it.
VERIFY_LAST_MS: Final = 30_000


def needs_of(operation: ResizeOperation, waited_ms: int) -> ResizeNeeds:
    """Return what the present phase has to know in a round that begins once it has waited so long."""
    phase = operation.resume_phase or operation.phase
    # Groups that appear while queues are locked get locks, too.
    gates = operation.kind is ResizeKind.GATED and phase in LOCKED
    if phase is ResizePhase.VERIFY:
        # Lag in new queues is reported at its end, by what is known then.
        ends_soon = waited_ms >= operation.waits.grown_watch_ms - VERIFY_LAST_MS
        return ResizeNeeds(ends=new_queues if ends_soon else None, offsets=ends_soon)
    return ResizeNeeds(
        ends=_ends(operation, phase),
        offsets=gates or phase in _GROUPS,
        groups=gates or phase in _GROUPS,
        definitions=phase in _DEFINITIONS,
        clients=gates or phase in _CLIENTS,
        drained=phase in _DRAINED,
        log=phase in _LOG,
        late=phase in _LATE,
        producers=phase is ResizePhase.QUIESCE,
    )


def round_ms(operation: ResizeOperation) -> int:
    """Return how long after a round the next one begins."""
    if operation.phase in _QUICK:
        return QUICK_ROUND_MS
    # Each wait is looked at several times before it ends.
    shortest_ms = min(operation.waits.confirm_ms, operation.waits.stable_ms, operation.waits.watch_ms)
    # Rounds of a gated resize renew its locks, which end after 60 s; those of a paused topic end its pause in time.
    is_paused = operation.kind is ResizeKind.ORDERED and operation.reached <= PAUSED_END
    if operation.phase is ResizePhase.BLOCKED and operation.kind is not ResizeKind.GATED and not is_paused:
        # A command begins the next round at once.
        return min(max(shortest_ms * 6, ROUND_MS_MIN), BLOCKED_ROUND_MS_MAX)
    # All offsets of a broker come with each answer.
    phase = operation.resume_phase or operation.phase
    share = 1 if phase in _GROUPS or phase is ResizePhase.VERIFY else 4
    return min(max(shortest_ms // share, ROUND_MS_MIN), ROUND_MS_MAX)


def _ends(operation: ResizeOperation, phase: ResizePhase) -> QueueFilter | None:
    if phase is ResizePhase.RELEASE:
        return all_queues
    if phase is ResizePhase.SEED:
        return new_queues
    if phase is ResizePhase.ASSIGN:
        return old_and_new_queues
    if phase in _WATCHED:
        return watched_queues(operation)
    return dropped_queues if phase in _DROPPED else None
