"""The steps of a resize as a plan lists them, by its kind. Pure."""

from collections.abc import Iterator
from typing import Final

from controller.scaling.resize.operation import ResizeKind, ResizePhase
from controller.scaling.resize.request import PlannedStep
from serving.shapes.scaling import ResizeWaits

_SEED: Final = PlannedStep(phase=ResizePhase.SEED, text="store where each group begins in the new queues")


def planned_steps(kind: ResizeKind, waits: ResizeWaits, assign_ms: int, *, shrinks: bool) -> Iterator[PlannedStep]:
    """Return the steps in their order; `shrinks`: an ordered topic, whose kind does not say so, gets fewer queues.

    `assign_ms`: until masters know the members of all groups.
    """
    match kind:
        case ResizeKind.GROW:
            return _growing(waits, assign_ms)
        case ResizeKind.GATED:
            return _gated(waits)
        case ResizeKind.SHRINK:
            return _shrinking(waits)
        case ResizeKind.ORDERED:
            return _ordered(waits, shrinks=shrinks)


def _growing(waits: ResizeWaits, assign_ms: int) -> Iterator[PlannedStep]:
    yield _SEED
    yield PlannedStep(phase=ResizePhase.READ_UP, text="raise readQueueNums on every broker")
    yield PlannedStep(
        phase=ResizePhase.ASSIGN,
        text="wait until every online group consumes the new queues",
        at_least_ms=max(waits.confirm_ms, assign_ms),
    )
    yield PlannedStep(phase=ResizePhase.WRITE_UP, text="raise writeQueueNums on every broker")
    yield _verify(waits)


def _gated(waits: ResizeWaits) -> Iterator[PlannedStep]:
    yield PlannedStep(phase=ResizePhase.GATE, text="lock the new queues for every group")
    yield _SEED
    yield PlannedStep(phase=ResizePhase.READ_UP, text="raise readQueueNums")
    yield PlannedStep(phase=ResizePhase.WRITE_UP, text="raise writeQueueNums")
    yield PlannedStep(
        phase=ResizePhase.RELEASE,
        text="unlock each new queue for a group once it has consumed the old queue of the same keys",
        at_least_ms=waits.producers_ms,
    )
    yield _verify(waits)


def _shrinking(waits: ResizeWaits) -> Iterator[PlannedStep]:
    yield PlannedStep(phase=ResizePhase.WRITE_DOWN, text="lower writeQueueNums on every broker")
    yield from _quiet(waits)
    yield from _closing(waits)


def _ordered(waits: ResizeWaits, *, shrinks: bool) -> Iterator[PlannedStep]:
    yield PlannedStep(phase=ResizePhase.PAUSE, text="set perm 4, and no queues in orderTopicConf: producers stop")
    yield from _quiet(waits)
    if not shrinks:
        yield _SEED
    yield PlannedStep(phase=ResizePhase.RESIZE, text="change the numbers and orderTopicConf")
    yield PlannedStep(phase=ResizePhase.UNPAUSE, text="set perm 6: producers go on")
    if shrinks:
        yield from _quiet(waits)
        yield from _closing(waits)
    else:
        yield _verify(waits)


def _quiet(waits: ResizeWaits) -> Iterator[PlannedStep]:
    """Yield the steps until nothing is written to the queues, and all of it is consumed."""
    yield PlannedStep(
        phase=ResizePhase.QUIESCE,
        text="wait until no producer has the old route, and no message comes",
        at_least_ms=max(waits.producers_ms, waits.stable_ms),
    )
    yield PlannedStep(phase=ResizePhase.LATE, text="wait for delayed, timed and transactional messages")
    yield PlannedStep(phase=ResizePhase.DRAIN, text="wait until every group has consumed the queues")
    yield PlannedStep(phase=ResizePhase.CONFIRM, text="check a second time", at_least_ms=waits.confirm_ms)


def _closing(waits: ResizeWaits) -> Iterator[PlannedStep]:
    """Yield the steps by which queues are dropped."""
    yield PlannedStep(
        phase=ResizePhase.READ_DOWN,
        text="lower readQueueNums: brokers refuse the dropped queues; check twice that none has grown",
        at_least_ms=waits.confirm_ms,
    )
    yield PlannedStep(phase=ResizePhase.WATCH, text="watch for late messages", at_least_ms=waits.watch_ms)


def _verify(waits: ResizeWaits) -> PlannedStep:
    return PlannedStep(phase=ResizePhase.VERIFY, text="watch lag on the new queues", at_least_ms=waits.grown_watch_ms)
