"""What an operator can do with a resize that is under way: abort, resume, waive a group. Pure."""

from typing import Any, Final

from msgspec.structs import replace

from controller.scaling.resize.operation import WAIVED_GROUPS_MAX, ResizeKind, ResizeOperation, ResizePhase
from controller.scaling.rules.path import PAUSED_END, may_hold_messages, reversed_grow

#: Nothing has been changed on any broker.
_UNTOUCHED: Final = frozenset({ResizePhase.PLANNED, ResizePhase.PRECHECK})


class ResizeCommandRefused(ValueError):
    """The command does not fit the phase; the text says why, and what to do instead."""


def aborted(operation: ResizeOperation, unix_ms: int, reason: str) -> ResizeOperation:
    """Return the operation on its way back; raises ResizeCommandRefused.

    What is left behind: offsets stored for new queues, which harm nobody; after a shrink that had closed queues, groups
    may consume the last 5 s of them twice (docs/protocol/queue-scaling.md 10).
    """
    phase, why = operation.phase, f"aborted by the operator{': ' if reason else ''}{reason}"
    _refuse_finished(operation)
    if phase is ResizePhase.CONFLICT or phase in _UNTOUCHED:
        left = _left_by_conflict(operation) if phase is ResizePhase.CONFLICT else ("nothing was changed",)
        return operation.entered(ResizePhase.ABORTED, unix_ms, (why, *left), problem=why)
    if operation.ends_as is ResizePhase.ABORTED:
        raise ResizeCommandRefused(f"{operation.id} is being undone already, in {phase.value}")
    if operation.kind is ResizeKind.ORDERED and operation.reached > PAUSED_END:
        raise ResizeCommandRefused(
            f"{operation.id} has given the ordered topic {operation.topic} its new queues: going back now would mix "
            "the order of keys. Let it end, then start an ordered resize back"
        )
    if operation.kind is ResizeKind.GATED and operation.reached > 1:
        raise ResizeCommandRefused(
            f"{operation.id} has given the ordered topic {operation.topic} its new queues. Let it end: fewer queues "
            "would mix the order of keys"
        )
    changes: dict[str, Any] = {"ends_as": ResizePhase.ABORTED}
    if may_hold_messages(operation):
        changes = reversed_grow(operation)
        return replace(operation.entered(ResizePhase.WRITE_DOWN, unix_ms, (why,), problem=why), **changes)
    return replace(operation.entered(ResizePhase.ROLLBACK, unix_ms, (why,), problem=why), **changes)


def resumed(operation: ResizeOperation, unix_ms: int, reason: str = "") -> ResizeOperation:
    """Return the operation with its blocked phase begun anew, or after a conflict; raises ResizeCommandRefused."""
    why = f"resumed by the operator{': ' if reason else ''}{reason}"
    if operation.phase is ResizePhase.BLOCKED:
        assert operation.resume_phase is not None, "a blocked operation knows its phase"
        return operation.entered(operation.resume_phase, unix_ms, (why,))
    if operation.phase is ResizePhase.CONFLICT:
        return operation.entered(_after_conflict(operation), unix_ms, (why,))
    _refuse_finished(operation)
    raise ResizeCommandRefused(f"{operation.id} is in {operation.phase.value} and goes on by itself")


def _left_by_conflict(operation: ResizeOperation) -> tuple[str, ...]:
    left = ["queue numbers and permissions stay as they are"]
    if operation.kind is ResizeKind.ORDERED:
        left.append("writes may be paused: check that perm is 6 on every broker")
    if operation.order_conf is not None:
        left.append(f"orderTopicConf was {operation.order_conf}, and may be missing")
    return tuple(left)


def _after_conflict(operation: ResizeOperation) -> ResizePhase:
    """Return the phase that brings all brokers to the numbers that this resize relies on."""
    if operation.ends_as is ResizePhase.ABORTED and operation.kind is not ResizeKind.SHRINK:
        return ResizePhase.ROLLBACK
    by_kind = {
        ResizeKind.GROW: ResizePhase.SEED,
        ResizeKind.GATED: ResizePhase.GATE,
        ResizeKind.SHRINK: ResizePhase.WRITE_DOWN if operation.reached <= 1 else ResizePhase.REOPEN,
        ResizeKind.ORDERED: ResizePhase.PAUSE if operation.reached <= PAUSED_END else ResizePhase.UNPAUSE,
    }
    return by_kind[operation.kind]


def waived(operation: ResizeOperation, group: str, unix_ms: int) -> ResizeOperation:
    """Return the operation that gives up what a group has not consumed of the dropped queues.

    Raises ResizeCommandRefused. The ranges of offsets are recorded when the queues are drained.
    """
    _refuse_finished(operation)
    if group in operation.options.waived_groups:
        raise ResizeCommandRefused(f"{group} is waived already")
    if len(operation.options.waived_groups) >= WAIVED_GROUPS_MAX:
        raise ResizeCommandRefused(f"{WAIVED_GROUPS_MAX} groups are waived, which is the limit: delete unused groups")
    options = replace(operation.options, waived_groups=(*operation.options.waived_groups, group))
    operation = replace(operation, options=options)
    if operation.phase is ResizePhase.BLOCKED:
        return resumed(operation, unix_ms)
    return operation


def _refuse_finished(operation: ResizeOperation) -> None:
    if operation.is_finished:
        raise ResizeCommandRefused(f"{operation.id} has ended: {operation.phase.value}")
