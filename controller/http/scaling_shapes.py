"""Bodies of requests and answers of queue scaling; `openapi.py` describes them from here. Times are Unix ms, UTC."""

from typing import Annotated, Any

import msgspec

from controller.scaling.resize.operation import GroupName, ResizeOptions, ResizeWaits
from controller.scaling.resize.request import Remark


class ResizedSetView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a resize changes on one broker set."""

    broker_name: str
    cluster: str
    read_before: int
    write_before: int
    perm_before: int
    target: int


class FinishedStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A phase that has ended, and what was seen in it."""

    phase: str
    began_unix_ms: int
    ended_unix_ms: int
    evidence: list[str]


class OperationView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One resize."""

    id: str
    topic: str
    kind: str
    #: PLANNED to WATCH: under way; BLOCKED, CONFLICT: somebody has to act; DONE, ABORTED, REJECTED: ended.
    phase: str
    #: Of a blocked one: the phase that goes on.
    resume_phase: str | None
    phase_since_unix_ms: int
    created_unix_ms: int
    requested_by: str
    reason: str
    #: It ends as ABORTED: it is being undone.
    is_undone: bool
    problem: str
    #: What it waits for, as of the last round; empty on a controller that does not lead.
    waits_for: list[str]
    observed_unix_ms: int | None
    #: How long the phase has waited; time in which an answer was missing does not count.
    waited_ms: int
    #: How often dropped queues were opened again.
    reopened: int
    sets: list[ResizedSetView]
    waits: ResizeWaits
    options: ResizeOptions
    steps: list[FinishedStepView]


class OperationListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Operations under way, by topic, then those that have ended, the newest first."""

    operations: list[OperationView]
    total: int
    #: What is stored and cannot be read, by name.
    problems: dict[str, str]


class OperatorReason(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Why an operator does something."""

    reason: Remark = ""


class ResizeCommand(OperatorReason, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """What an operator does with a resize."""

    #: True: it is only shown what would become of it.
    dry_run: bool = False


class WaivedGroup(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A group whose messages in dropped queues are given up."""

    group: GroupName
    dry_run: bool = False


class GivenUpSet(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A broker set that a resize goes on without."""

    broker_name: Annotated[Remark, msgspec.Meta(min_length=1)]
    requested_by: Remark = ""
    reason: Remark = ""
    dry_run: bool = False


class PolicyView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One policy with all its properties; counts are those of each broker set."""

    topic: str
    min: int
    max: int
    step: float
    cooldown_ms: int
    window_ms: int
    behind_ms: int
    #: Messages a second that a queue, and a broker, take at most; null: unknown.
    queue_writes: float | None
    broker_writes: float | None
    #: `propose`, `approve` or `auto`.
    mode: str


class PolicyListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The policies in force."""

    #: The path of the file that they come from, or `http`.
    source: str
    policies: list[PolicyView]
    #: What is wrong with newer ones, which are not in force; blank if nothing is.
    problem: str


class PolicyDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All policies, as in the file.

    Properties are `topic`, `min`, `max`, `step`, `cooldown`, `window`, `behind`, `queueWrites`, `brokerWrites`, `mode`.
    """

    policy: list[dict[str, Any]]


class FindingView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One thing that was found of a topic."""

    kind: str
    #: The group, or the broker set, that it is about; blank for the topic.
    subject: str
    #: What more queues would do about it: `queues help`, `queues do not help`, `unknown`, `not needed`.
    effect: str
    sentence: str
    numbers: dict[str, float]


class DecisionView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the autoscaler makes of a topic, and what became of that."""

    topic: str
    unix_ms: int
    #: The topic or pattern of the policy that holds for it.
    policy: str
    #: Who decides: the mode of the policy, or `propose` where it must not be carried out.
    mode: str
    #: `kept`, `proposed`, `resized` or `refused`.
    outcome: str
    #: Queues on each broker set; null: a set did not answer.
    queues: int | None
    #: Null: nothing is to change.
    target: int | None
    reason: str
    #: Of a refused one: why.
    problem: str
    operation_id: str
    proposal_id: str
    sets: int
    put_tps: float | None
    #: Messages not consumed by the group that is most behind; null: unknown, as are all numbers.
    lag: int | None
    clients: int | None
    findings: list[FindingView]


class DecisionListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The last verdicts on topics with a policy, by topic."""

    decisions: list[DecisionView]
    total: int
    #: Topics with a policy that are too many to be watched.
    left_out: int
    #: The last changes of verdicts, the newest first.
    changes: list[DecisionView]


class ProposalView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A resize that waits for an operator; counts are those of each broker set."""

    id: str
    topic: str
    before: int
    target: int
    reason: str
    created_unix_ms: int
    #: It ends then, unless a verdict confirms it before.
    expires_unix_ms: int


class ProposalListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All proposals, by topic."""

    proposals: list[ProposalView]
