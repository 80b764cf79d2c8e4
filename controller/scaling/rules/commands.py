"""What an operator can do with a resize that is under way: abort, resume, waive a group, give up a set. Pure."""

from collections.abc import Collection
from typing import Final, TypeVar

from msgspec.structs import replace

from controller.scaling.resize.operation import LateMark, QueueOffset, ResizeOperation, SetResize
from controller.scaling.rules.path import PAUSED_END, may_hold_messages, reversed_grow
from serving.shapes.scaling import WAIVED_GROUPS_MAX, ResizeKind, ResizePhase

#: Nothing has been changed on any broker.
_UNTOUCHED: Final = frozenset({ResizePhase.PLANNED, ResizePhase.PRECHECK})

OfSet = TypeVar("OfSet", SetResize, QueueOffset, LateMark)

#: Groups that a refusal names.
GROUPS_SHOWN: Final = 20


class ResizeCommandRefused(ValueError):
    """The command does not fit the phase; the text says why, and what to do instead."""


def aborted(operation: ResizeOperation, unix_ms: int, reason: str) -> ResizeOperation:
    """Return the operation on its way back; raises ResizeCommandRefused.

    What is left behind: offsets stored for new queues, which harm nobody; after a shrink that had closed queues, groups
    may consume the last 5 s of them twice (docs/protocol/queue-scaling.md 10). After a conflict numbers stay as they
    are; the pause of an ordered topic is undone where it is this resize's own.
    """
    phase, why = operation.phase, f"aborted by the operator{': ' if reason else ''}{reason}"
    _refuse_finished(operation)
    if phase is ResizePhase.CONFLICT and operation.kind is ResizeKind.ORDERED:
        gives_back = operation.entered(ResizePhase.ROLLBACK, unix_ms, (why,), problem=why)
        return replace(gives_back, ends_as=ResizePhase.ABORTED, leaves_numbers=True)
    if phase is ResizePhase.CONFLICT or phase in _UNTOUCHED:
        left = "queue numbers stay as they are" if phase is ResizePhase.CONFLICT else "nothing was changed"
        return operation.entered(ResizePhase.ABORTED, unix_ms, (why, left), problem=why)
    if operation.ends_as is ResizePhase.ABORTED:
        raise ResizeCommandRefused(f"{operation.id} is already being undone, in {phase.value}")
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
    if may_hold_messages(operation):
        shrinks = operation.entered(ResizePhase.WRITE_DOWN, unix_ms, (why,), problem=why)
        return replace(shrinks, **reversed_grow(operation, why))
    return replace(operation.entered(ResizePhase.ROLLBACK, unix_ms, (why,), problem=why), ends_as=ResizePhase.ABORTED)


def resumed(operation: ResizeOperation, unix_ms: int, reason: str = "") -> ResizeOperation:
    """Return the operation with its blocked phase begun anew, or after a conflict; raises ResizeCommandRefused."""
    why = f"resumed by the operator{': ' if reason else ''}{reason}"
    if operation.phase is ResizePhase.BLOCKED:
        assert operation.resume_phase is not None, "a blocked operation knows its phase"
        return operation.entered(operation.resume_phase, unix_ms, (why,))
    if operation.phase is ResizePhase.CONFLICT:
        return operation.entered(_after_conflict(operation), unix_ms, (why,))
    _refuse_finished(operation)
    raise ResizeCommandRefused(f"{operation.id} is in {operation.phase.value} and continues by itself")


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


def waived(operation: ResizeOperation, group: str, groups: Collection[str], unix_ms: int) -> ResizeOperation:
    """Return the operation that gives up what a group has not consumed of the dropped queues.

    `groups` are those that the topic has now. Raises ResizeCommandRefused. The ranges of offsets are recorded when the
    queues are drained.
    """
    _refuse_finished(operation)
    if operation.kind is ResizeKind.GROW:
        raise ResizeCommandRefused(f"{operation.id} adds queues and waits for no group: nothing can be waived")
    if group in operation.options.waived_groups:
        raise ResizeCommandRefused(f"{group} is already waived")
    if len(operation.options.waived_groups) >= WAIVED_GROUPS_MAX:
        raise ResizeCommandRefused(f"{WAIVED_GROUPS_MAX} groups are waived, which is the limit: delete unused groups")
    # A group that was deleted keeps its locks, and would be waited for.
    known = {*groups, *operation.gated_groups}
    if group not in known:
        raise ResizeCommandRefused(_not_of_topic(operation, group, known))
    options = replace(operation.options, waived_groups=(*operation.options.waived_groups, group))
    operation = replace(operation, options=options)
    if operation.phase is ResizePhase.BLOCKED:
        return resumed(operation, unix_ms)
    return operation


def _not_of_topic(operation: ResizeOperation, group: str, groups: Collection[str]) -> str:
    others = sorted(set(groups) - set(operation.options.waived_groups))
    shown = ", ".join(others[:GROUPS_SHOWN]) or "none"
    more = f" and {len(others) - GROUPS_SHOWN} more" if len(others) > GROUPS_SHOWN else ""
    return f"{group} is no group of {operation.topic}; those that can be waived: {shown}{more}"


def check_gives_up(operation: ResizeOperation, broker_name: str) -> None:
    """Raise ResizeCommandRefused if a broker set cannot be given up, whatever its brokers answer."""
    _refuse_finished(operation)
    names = [each.broker_name for each in operation.sets]
    if broker_name not in names:
        raise ResizeCommandRefused(f"{operation.id} has no set {broker_name}, but these: {', '.join(names)}")
    if operation.phase in _UNTOUCHED:
        raise ResizeCommandRefused(f"{operation.id} has changed nothing yet: abort it, and request it again")
    if len(names) == 1:
        raise ResizeCommandRefused(
            f"{broker_name} is the last set of {operation.id}: bring it back, or delete {operation.topic} everywhere. "
            f"If {broker_name} is lost, start an empty {broker_name}: the resize ends when it answers that it lacks "
            "the topic"
        )


def given_up(operation: ResizeOperation, broker_name: str, why: str, unix_ms: int) -> ResizeOperation:
    """Return the operation without a broker set that is gone, or was replaced by an empty one.

    Raises ResizeCommandRefused. `why` is recorded with the present phase, which begins anew.
    """
    check_gives_up(operation, broker_name)
    conf = [part for part in (operation.order_conf or "").split(";") if part.partition(":")[0] != broker_name]
    problem = "" if operation.phase is ResizePhase.BLOCKED else operation.problem
    phase = operation.resume_phase or operation.phase
    operation = operation.entered(phase, unix_ms, (f"{broker_name} was given up by {why}",), problem=problem)
    return replace(
        operation,
        sets=_without(broker_name, operation.sets),
        undoes=operation.undoes and replace(operation.undoes, sets=_without(broker_name, operation.undoes.sets)),
        masters={name: master for name, master in operation.masters.items() if name != broker_name},
        seeds=_without(broker_name, operation.seeds),
        confirmed=_without(broker_name, operation.confirmed),
        late_marks=_without(broker_name, operation.late_marks),
        order_conf=";".join(conf) or None,
    )


def _without(broker_name: str, parts: tuple[OfSet, ...]) -> tuple[OfSet, ...]:
    return tuple(each for each in parts if each.broker_name != broker_name)


def _refuse_finished(operation: ResizeOperation) -> None:
    if operation.is_finished:
        raise ResizeCommandRefused(f"{operation.id} has ended: {operation.phase.value}")
