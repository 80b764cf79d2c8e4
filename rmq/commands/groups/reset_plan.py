"""Where a reset takes a group in each queue, and how it is sent to each broker. Pure.

Three ways, as mqadmin's resetOffsetByTime has them. A broker that resets on its side (222) gets each offset. An older
one only sends members that are online to a moment, which it looks up itself (222). Without members their offsets are
committed for them (15).
"""

from enum import Enum
from typing import Literal, NamedTuple

import msgspec

from rmq.cli.moments import unix_ms_of
from rmq.failures import WrongUse


class TargetKind(Enum):
    """What a reset goes to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"


class ResetTarget(NamedTuple):
    """Where a reset goes."""

    kind: TargetKind
    #: Unix ms, or an offset; 0 of the ends.
    value: int = 0


class WantedReset(NamedTuple):
    """What an operator wants."""

    group: str
    topic: str
    target: ResetTarget
    #: None: all of them.
    queue_id: int | None


class ResetWay(Enum):
    """What a broker is sent."""

    #: 15 and 222 for each queue.
    RESET = "reset"
    #: 222 for the topic: members that are online are sent to a moment.
    MEMBERS = "members"
    #: 15 for each queue.
    COMMIT = "commit"


class QueueFacts(NamedTuple):
    """What is known of a queue before a reset."""

    queue_id: int
    #: None: none is stored.
    old: int | None
    min_offset: int
    max_offset: int
    #: By the broker, for a time (29); None for other targets.
    at_time: int | None = None
    #: Unix ms; None of an empty queue.
    last_stored_unix_ms: int | None = None


class ResetRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What becomes of one queue."""

    broker_name: str
    queue_id: int
    #: Blank: none is stored.
    old: int | None
    new: int
    #: Blank where it is not known: without an offset before.
    messages_again: int | None
    messages_skipped: int | None
    way: str
    #: `planned`: with --dry-run. `unknown`: it was sent, and no answer came. `not_sent`: a request before it failed.
    state: Literal["planned", "done", "failed", "unknown", "not_sent"] = "planned"
    detail: str | None = None


class BrokerReset(NamedTuple):
    """What is planned at one master."""

    broker_name: str
    address: str
    way: ResetWay
    rows: list[ResetRow]


def target_of(text: str) -> ResetTarget:
    """Return what `--to` says; raises WrongUse."""
    if text in (TargetKind.EARLIEST.value, TargetKind.LATEST.value):
        return ResetTarget(TargetKind(text))
    if text.isascii() and text.isdigit():
        if int(text) >= 1 << 63:
            raise WrongUse(f"--to: {text} is greater than any offset")
        return ResetTarget(TargetKind.OFFSET, int(text))
    try:
        return ResetTarget(TargetKind.TIME, unix_ms_of(text, "--to"))
    except WrongUse:
        raise WrongUse(
            f"--to: {text} is none of earliest, latest, an offset, or a time such as 2026-11-27T10:00:00Z"
        ) from None


def way_at(broker_name: str, wanted: WantedReset, *, resets_on_server: bool, is_online: bool) -> ResetWay:
    """Return what a broker is sent; raises WrongUse where it cannot be."""
    if resets_on_server:
        return ResetWay.RESET
    if not is_online:
        return ResetWay.COMMIT
    if wanted.target.kind is TargetKind.OFFSET or wanted.queue_id is not None:
        raise WrongUse(
            f"{broker_name} sends members that are online only to a time, in all queues of the topic (before 5.1, or "
            "useServerSideResetOffset=false): stop them, or reset to a time, earliest or latest, without --queue"
        )
    return ResetWay.MEMBERS


def moment_of(target: ResetTarget) -> int:
    """Return the timestamp that members are sent to (222); -1 is the end."""
    return {TargetKind.EARLIEST: 0, TargetKind.LATEST: -1}.get(target.kind, target.value)


def planned_row(broker_name: str, facts: QueueFacts, target: ResetTarget, way: ResetWay) -> ResetRow:
    """Return what a reset does to a queue; raises WrongUse for an offset that the queue does not have."""
    new = _new_offset(broker_name, facts, target)
    is_known = facts.old is not None
    old = max(facts.old or 0, facts.min_offset)
    return ResetRow(
        broker_name=broker_name,
        queue_id=facts.queue_id,
        old=facts.old,
        new=new,
        messages_again=max(0, min(old, facts.max_offset) - max(new, facts.min_offset)) if is_known else None,
        messages_skipped=max(0, new - old) if is_known else None,
        way=way.value,
    )


def _new_offset(broker_name: str, facts: QueueFacts, target: ResetTarget) -> int:
    match target.kind:
        case TargetKind.EARLIEST:
            return facts.min_offset
        case TargetKind.LATEST:
            return facts.max_offset
        case TargetKind.TIME:
            # Up to 4.9 a broker answers its last message where there is none so late.
            is_after_all = facts.last_stored_unix_ms is not None and facts.last_stored_unix_ms < target.value
            at_time = facts.max_offset if is_after_all else facts.at_time or 0
            return min(max(at_time, facts.min_offset), facts.max_offset)
        case TargetKind.OFFSET:
            if not facts.min_offset <= target.value <= facts.max_offset:
                raise WrongUse(
                    f"--to: queue {facts.queue_id} of {broker_name} has offsets from {facts.min_offset} to "
                    f"{facts.max_offset}, not {target.value}; a time is written as 2026-11-27T10:00:00Z"
                )
            return target.value
