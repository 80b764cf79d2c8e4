"""A wanted resize, and the plan that is made of it: what changes where, how long it takes, and who is in the way."""

from typing import Final

import msgspec

from controller.scaling.resize.operation import QueueCounts, ResizeKind, ResizePhase

#: Message types (5.5+) that give the number of queues a meaning, and which.
SPECIAL_TYPES: Final = {"PRIORITY": "each queue is a priority", "LITE": "brokers place lite topics by its queues"}
#: Who requests the resizes of mode `auto`: nobody has read the warnings of their plans.
AUTOSCALER: Final = "autoscaler"


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One phase of a plan."""

    phase: ResizePhase
    #: What happens, and what it waits for.
    text: str
    at_least_ms: int = 0


class PlannedSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What changes on one broker set."""

    broker_name: str
    cluster: str
    master: str
    read: int
    write: int
    target: int


class PlannedGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A consumer group of the topic, and what it has to do."""

    group: str
    kind: str
    clients: int
    #: Messages of dropped queues that it has not consumed; None: unknown.
    lag: int | None = None
    note: str = ""


class ResizePlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a resize would do. With problems it is not started."""

    topic: str
    kind: ResizeKind | None
    sets: tuple[PlannedSet, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    groups: tuple[PlannedGroup, ...] = ()
    at_least_ms: int = 0
    #: Why it cannot be done, each with what to do instead.
    problems: tuple[str, ...] = ()
    #: What to know before it starts.
    warnings: tuple[str, ...] = ()


class TopicTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a topic that only its plan needs."""

    #: By broker name: its queues and addresses.
    counts: dict[str, QueueCounts] = {}
    clusters: dict[str, str] = {}
    is_static: bool = False
    #: Stored flag, message type FIFO, or compaction.
    is_ordered: bool = False
    #: Of SPECIAL_TYPES; blank for all others.
    special_type: str = ""
    #: None: there is no entry.
    order_conf: str | None = None
    #: Sets of the clusters of the topic that the controller knows, and no NameServer: they may have it.
    absent_sets: tuple[str, ...] = ()
    #: Other sets of these clusters that NameServers of ours remember, and of which no broker is registered.
    away_sets: tuple[str, ...] = ()
    #: Sets that had the topic at an earlier resize, by the stored operations.
    former_sets: tuple[str, ...] = ()
    #: By broker name: numbers of queues above the limit, whose ends nobody looks at.
    too_many_queues: dict[str, int] = {}
