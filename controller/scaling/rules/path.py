"""The path of queue numbers that a resize takes on each broker set, and the next safe step on it.

Invariant: readQueueNums >= writeQueueNums on every step. A step is taken only if the broker shows the one before it;
any other numbers are somebody else's, and nothing is overwritten (docs/protocol/queue-scaling.md 1, 9).

GROW, GATED  read up, then write up.
SHRINK       write down, then read down.
ORDERED      writes pause first; counts change while they do; then writes go on. A shrink lowers read at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from controller.scaling.resize.decision import ChangeCounts, ResizeAction
from controller.scaling.resize.observation import ResizeObservation, SetView
from controller.scaling.resize.operation import (
    PROBLEM_BYTES_MAX,
    QueueCounts,
    ResizeOperation,
    SetResize,
    UndoneGrow,
    limited_text,
)
from serving.shapes.scaling import ResizeKind, ResizePhase


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCheck:
    """Where the brokers are on the path, compared with where they are to be."""

    actions: tuple[ResizeAction, ...] = ()
    #: Sentences about brokers that show numbers which are not on the path.
    conflicts: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()

    @property
    def is_reached(self) -> bool:
        """True if every master, NameServer and slave shows it."""
        return not (self.actions or self.conflicts or self.waits_for)


def path_of(kind: ResizeKind, resize: SetResize) -> tuple[QueueCounts, ...]:
    """Return the numbers of a broker set, from the present ones to the target."""
    before, target = resize.before, resize.target
    end = QueueCounts(target, target, before.perm)
    match kind:
        case ResizeKind.GROW | ResizeKind.GATED:
            return (before, QueueCounts(target, before.write, before.perm), end)
        case ResizeKind.SHRINK:
            return (before, QueueCounts(before.read, target, before.perm), end)
        case ResizeKind.ORDERED if target >= before.read:
            return (before, before.paused, end.paused, end)
        case ResizeKind.ORDERED:
            resized = QueueCounts(before.read, target, before.perm)
            return (before, before.paused, resized.paused, resized, end)


def check_path(
    operation: ResizeOperation,
    observation: ResizeObservation,
    wanted: int,
    *,
    lowest: int | None = None,
    furthest: int | None = None,
) -> PathCheck:
    """Compare what everybody shows with position `wanted` of the path, and return the steps there.

    Positions from `lowest` (by default the one before `wanted`) up to `operation.reached` are legal; a broker takes one
    step a round. A broker below `lowest` or on other numbers is a conflict. A broker may stay on positions after
    `wanted` up to `furthest`.
    """
    floor = max(wanted - 1, 0) if lowest is None else lowest
    enough = range(wanted, (wanted if furthest is None else furthest) + 1)
    actions: list[ResizeAction] = []
    conflicts: list[str] = []
    waits: list[str] = []
    for resize in operation.sets:
        path = path_of(operation.kind, resize)
        view = observation.sets.get(resize.broker_name)
        if view is None or view.counts is None or view.master is None:
            waits.append(_unknown(view, resize, operation.topic))
            continue
        if view.counts in {path[at] for at in enough if at < len(path)}:
            waits += _not_yet(view.counts, resize, view, observation)
            continue
        at = _position(path, view.counts, floor, max(operation.reached, wanted))
        if at is None:
            conflicts.append(_conflict(operation.topic, resize, view.counts, path[wanted]))
            continue
        after = path[at + 1] if at < wanted else path[at - 1]
        actions.append(
            ChangeCounts(broker_name=resize.broker_name, address=view.master.address, before=view.counts, after=after)
        )
    return PathCheck(actions=tuple(actions), conflicts=tuple(conflicts), waits_for=tuple(waits))


def _position(path: tuple[QueueCounts, ...], counts: QueueCounts, lowest: int, highest: int) -> int | None:
    """Return where on the legal part of its path a broker is; the furthest place if several are equal."""
    return next((at for at in range(min(highest, len(path) - 1), lowest - 1, -1) if path[at] == counts), None)


def _unknown(view: SetView | None, resize: SetResize, topic: str) -> str:
    if view is None or view.master is None:
        return f"{resize.broker_name} has no master, or it does not answer"
    return f"{resize.broker_name} at {view.master.address} does not answer how many queues {topic} has"


def _conflict(topic: str, resize: SetResize, counts: QueueCounts, wanted: QueueCounts) -> str:
    return (
        f"{resize.broker_name} shows {counts} for {topic}, and this resize goes from {resize.before} to {wanted}: "
        "somebody else has changed it"
    )


def _not_yet(counts: QueueCounts, resize: SetResize, view: SetView, observation: ResizeObservation) -> list[str]:
    show: list[tuple[str, QueueCounts | None]] = [
        (f"NameServer {each.address}", None if each.counts is None else each.counts.get(resize.broker_name))
        for each in observation.name_servers
    ]
    show += [(f"slave {address} of {resize.broker_name}", seen) for address, seen in view.slaves.items()]
    return [
        f"{who} does not show {resize.broker_name} with {counts.read} read and {counts.write} write queues"
        for who, seen in show
        if not _agrees(seen, counts)
    ]


def _agrees(seen: QueueCounts | None, counts: QueueCounts) -> bool:
    # The permission in routes is that of the topic and that of the broker: a broker may have less.
    return (
        seen is not None
        and (seen.read, seen.write) == (counts.read, counts.write)
        and seen.perm & counts.perm == seen.perm
    )


QueueFilter = Callable[[SetResize], range]


def new_queues(resize: SetResize) -> range:
    """Return the queue ids that consumers get by a grow; those that could be read before are not new to them."""
    return range(min(resize.before.read, resize.target), resize.target)


def dropped_queues(resize: SetResize) -> range:
    return range(resize.target, max(resize.before.read, resize.before.write))


def all_queues(resize: SetResize) -> range:
    return range(max(resize.before.read, resize.before.write))


def old_and_new_queues(resize: SetResize) -> range:
    """Return the queue ids before, while and after a grow."""
    return range(max(resize.before.read, resize.before.write, resize.target))


def watched_queues(operation: ResizeOperation) -> QueueFilter:
    """Return which queues have to be quiet and drained: all of an ordered topic before its counts change."""
    if operation.kind is ResizeKind.ORDERED and operation.reached < PAUSED_END:
        return all_queues
    return dropped_queues


#: Position of an ordered path at which the counts have changed.
PAUSED_END = 2


def may_hold_messages(operation: ResizeOperation) -> bool:
    """Return whether a grow has let producers use new queues, which have to be drained before it is undone."""
    adds_queues = any(each.before.read < each.target for each in operation.sets)
    return operation.kind is ResizeKind.GROW and operation.reached > 1 and adds_queues


def reversed_grow(operation: ResizeOperation, why: str) -> dict[str, Any]:
    """Return the changes that make a shrink back of a grow; brokers may be anywhere on its path."""
    sets = tuple(
        replace(each, before=QueueCounts(each.target, each.target, each.before.perm), target=each.before.read)
        for each in operation.sets
        if each.before.read < each.target
    )
    return {
        "kind": ResizeKind.SHRINK,
        "sets": sets,
        "reached": 1,
        "ends_as": ResizePhase.ABORTED,
        "undoes": UndoneGrow(sets=operation.sets, why=limited_text(why, PROBLEM_BYTES_MAX)),
        "seeds": (),
        "confirmed": (),
    }
