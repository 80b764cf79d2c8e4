"""What `rmq` reads of the plan of a resize, and the phases that it knows (controller/SCALING.md). Pure."""

from typing import Final

import msgspec

#: A plan looks at brokers and clients.
PLAN_TIMEOUT_S: Final = 60.0
#: Phases of operations that are over.
ENDED_PHASES: Final = frozenset({"DONE", "ABORTED", "REJECTED"})
#: Phases in which somebody has to act.
STOPPED_PHASES: Final = frozenset({"BLOCKED", "CONFLICT"})


class PlannedSetDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What changes on one broker set."""

    broker_name: str
    read: int
    write: int
    target: int


class PlannedStepDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One phase of a plan."""

    phase: str
    text: str
    at_least_ms: int = 0


class PlannedGroupDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of the topic, and what it has to do."""

    group: str
    kind: str
    clients: int
    lag: int | None = None
    note: str = ""


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a resize would do."""

    topic: str
    kind: str | None = None
    sets: list[PlannedSetDocument] = []
    steps: list[PlannedStepDocument] = []
    groups: list[PlannedGroupDocument] = []
    at_least_ms: int = 0
    problems: list[str] = []
    warnings: list[str] = []
