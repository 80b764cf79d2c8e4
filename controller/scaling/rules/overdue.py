"""Whether a resize has been in its phase for longer than it can explain, and how long a topic is without writes. Pure.

Phases end by their own limits. But time in which an answer is missing does not count there, and phases that bring
numbers back try again without end. Here wall time counts: alerts and pages show it, and no wait ends by it.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from controller.scaling.resize.operation import NEEDS_OPERATOR, ResizeKind, ResizeOperation, ResizePhase
from serving.shapes.scaling import ResizeWaits

#: What a phase may last beyond its waits, and without answers: `waited_ms` is saved each minute, and leaders change.
GRACE_MS: Final = 600_000

#: Phases that last for as long as messages may come late.
_WITHOUT_LIMIT: Final = frozenset({ResizePhase.LATE, ResizePhase.WATCH})
#: Phase -> how long it lasts at most if everybody answers; of all others `verify_ms`.
_LIMITS: Final[Mapping[ResizePhase, Callable[[ResizeWaits], int]]] = {
    ResizePhase.SEED: lambda waits: waits.seed_ms,
    ResizePhase.ASSIGN: lambda waits: waits.assign_ms,
    ResizePhase.VERIFY: lambda waits: waits.grown_watch_ms,
    ResizePhase.QUIESCE: lambda waits: max(waits.quiesce_ms, waits.producers_ms + waits.stable_ms),
    ResizePhase.DRAIN: lambda waits: waits.drain_ms,
    ResizePhase.GATE: lambda waits: waits.seed_ms,
    ResizePhase.RELEASE: lambda waits: waits.producers_ms + waits.drain_ms,
    ResizePhase.CONFIRM: lambda waits: waits.confirm_ms,
}

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
    if phase not in _WITHOUT_LIMIT and lasted_ms > _limit_ms(phase, operation.waits) + GRACE_MS:
        return True
    return lasted_ms - operation.waited_ms > GRACE_MS


def _limit_ms(phase: ResizePhase, waits: ResizeWaits) -> int:
    limit = _LIMITS.get(phase)
    return waits.verify_ms if limit is None else limit(waits)


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
