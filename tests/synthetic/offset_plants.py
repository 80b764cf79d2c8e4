"""What an offset manager records, to plant in a history, each with its truth."""

from collections.abc import Sequence
from typing import NamedTuple

from synthetic.plan import SECOND, PlannedEvent, Plant

CLUSTER = "DefaultCluster"


class ReadAgain(NamedTuple):
    """Offsets of a group in a topic went back, and so many messages were read again; Unix us."""

    group: str
    topic: str
    cause: str
    broker_name: str
    at_us: int
    queues: int
    messages: int


class LockedTwice(NamedTuple):
    """Two clients held one queue, from when to when; Unix us."""

    group: str
    topic: str
    queue_id: int
    from_us: int
    to_us: int


def offsets_lost(
    manager: str, found: ReadAgain, *, pushed: int = 0, spared: int = 0, epoch: int = 2, cluster: str = CLUSTER
) -> Plant:
    """Plant offsets that went back, and the repair that pushed so many of the queues and spared so many messages.

    It ends a second before the reading that shows the jump; with `pushed` 0 there is none.
    """
    about = {"cluster": cluster, "broker_name": found.broker_name, "master_epoch": epoch}
    of_group = about | {"group": found.group, "topic": found.topic}
    lost = of_group | {"cause": found.cause, "queues": found.queues, "removed": 0}
    lost |= {"messages_again": found.messages, "messages_skipped": 0}
    happenings = [PlannedEvent(found.at_us, manager, "offset_jump", "jumped", lost)]
    if pushed:
        sums = {
            "queues": found.queues,
            "pushed": pushed,
            "set_back": 0,
            "would_change": found.queues - pushed,
            "not_proved": 0,
            "failed": 0,
            "messages_spared": spared,
            "messages_again": found.messages - spared,
            "messages_skipped": 0,
        }
        at_us, of_run = found.at_us - SECOND, {"run": 1, "cause": "moved"} | sums
        happenings += [
            PlannedEvent(at_us, manager, "offset_repair", "repaired", of_group | of_run),
            PlannedEvent(at_us, manager, "offset_repair", "run", about | of_run | {"duration_ms": 700}),
        ]
    return Plant(happenings=tuple(happenings), truth={"read_again": (found,)})


def operator_changed(manager: str, at_us: int, operation: str, **values: object) -> Plant:
    """Plant a change of an operator."""
    usual = {"cluster": CLUSTER, "broker_name": "broker-000", "writer": "an operator", "target": "broker", "queues": 4}
    return Plant(happenings=(PlannedEvent(at_us, manager, "offset_change_by_operator", operation, usual | values),))


def locks_replayed(manager: str, at_us: int, outcomes: Sequence[int], **values: object) -> Plant:
    """Plant a replay of locks: queues granted, held by another, unanswered and unconfirmed."""
    counts = dict(zip(("granted", "held_by_another", "unanswered", "unconfirmed"), outcomes, strict=True))
    usual = {"cluster": CLUSTER, "broker_name": "broker-000", "queues": sum(outcomes), "duration_ms": 120}
    return Plant(happenings=(PlannedEvent(at_us, manager, "lock_event", "replayed", usual | counts | values),))


def locked_twice(manager: str, found: LockedTwice, *, broker_name: str = "broker-000", is_over: bool = True) -> Plant:
    """Plant two holders of one queue, which are found one second late; not `is_over`: until the end of the history."""
    about = {"cluster": CLUSTER, "broker_name": broker_name, "group": found.group, "topic": found.topic}
    held = about | {"queue_id": found.queue_id, "clients": ["10.0.0.7@1", "10.0.0.8@1"]}
    ended = held | {"duration_ms": (found.to_us - found.from_us) // 1_000, "reason": "expired"}
    happenings = [PlannedEvent(found.from_us + SECOND, manager, "lock_event", "overlap_began", held)]
    if is_over:
        happenings.append(PlannedEvent(found.to_us, manager, "lock_event", "overlap_ended", ended))
    return Plant(happenings=tuple(happenings), truth={"locked_twice": (found,)})
