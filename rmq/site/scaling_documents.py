"""Bodies of requests about queue scaling, and what is read of controllers' answers (controller/SCALING.md). Pure.

They are structs of their own: the command runs on machines without the servers' code.
"""

from typing import Final, Literal

import msgspec

#: A plan looks at brokers and clients.
PLAN_TIMEOUT_S: Final = 60.0
#: Phases of operations that are over.
ENDED_PHASES: Final = frozenset({"DONE", "ABORTED", "REJECTED"})
#: Phases in which somebody has to act.
STOPPED_PHASES: Final = frozenset({"BLOCKED", "CONFLICT"})


class ResizeOptionsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an operator chooses beside the numbers."""

    waived_groups: tuple[str, ...] = ()
    ignore_unassigned: bool = False
    ignore_message_type: bool = False


class ResizeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A wanted resize."""

    topic: str
    queues: int
    ordered: Literal["", "pause", "gate"] = ""
    equalise: bool = False
    options: ResizeOptionsBody = ResizeOptionsBody()
    requested_by: str = ""
    reason: str = ""


class CommandBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What an operator does with a resize."""

    #: It is only shown what would become of it.
    dry_run: bool = False


class ReasonBody(CommandBody, frozen=True, kw_only=True):
    """Why an operator does something."""

    reason: str = ""


class WaiveBody(CommandBody, frozen=True, kw_only=True):
    """A group whose messages in dropped queues are given up."""

    group: str


class GiveUpBody(CommandBody, frozen=True, kw_only=True):
    """A broker set that a resize goes on without."""

    broker_name: str
    requested_by: str
    reason: str = ""


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


class ResizedSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an operation changes on one broker set."""

    broker_name: str
    read_before: int
    write_before: int
    target: int


class StepDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A phase that has ended."""

    phase: str
    began_unix_ms: int
    ended_unix_ms: int
    evidence: list[str] = []


class ResizeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resize."""

    id: str
    topic: str
    kind: str
    phase: str
    resume_phase: str | None = None
    phase_since_unix_ms: int
    created_unix_ms: int
    requested_by: str = ""
    reason: str = ""
    is_undone: bool = False
    problem: str = ""
    waits_for: list[str] = []
    sets: list[ResizedSet] = []
    steps: list[StepDocument] = []


class ResizePage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Operations under way, then those that have ended."""

    operations: list[ResizeDocument]
    total: int
    problems: dict[str, str] = {}


class ProposalRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resize that waits for an operator; counts are those of each broker set."""

    id: str
    topic: str
    before: int
    target: int
    reason: str
    created_unix_ms: int
    expires_unix_ms: int


class ProposalPage(msgspec.Struct, frozen=True, kw_only=True):
    """All proposals."""

    proposals: list[ProposalRow]


class FindingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found of a topic."""

    sentence: str
    effect: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the autoscaler makes of a topic."""

    topic: str
    unix_ms: int
    mode: str
    outcome: str
    queues: int | None = None
    target: int | None = None
    reason: str = ""
    problem: str = ""
    findings: list[FindingDocument] = []


class DecisionPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last verdicts on topics with a policy."""

    decisions: list[Decision]
    left_out: int = 0
