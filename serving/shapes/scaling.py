"""Bodies of requests and answers of queue scaling. Times are Unix ms, UTC."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

import msgspec

#: Characters of a topic, as brokers have it (docs/protocol/broker-admin.md 3).
TOPIC_CHARACTERS_MAX: Final = 127
#: Characters of what people write about a resize.
REMARK_CHARACTERS_MAX: Final = 500
#: The longest wait: a week.
WAIT_MS_MAX: Final = 7 * 24 * 60 * 60 * 1000
#: Characters of the name of a group, with its namespace.
GROUP_CHARACTERS_MAX: Final = 255
WAIVED_GROUPS_MAX: Final = 100

WaitMs = Annotated[int, msgspec.Meta(ge=0, le=WAIT_MS_MAX)]
#: Without its last part a line end at the end would fit.
GroupName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=GROUP_CHARACTERS_MAX, pattern=r"^[%|a-zA-Z0-9_-]+$(?!\n)")
]
#: Without its last part a line end at the end would fit.
TopicName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=TOPIC_CHARACTERS_MAX, pattern=r"^[%|a-zA-Z0-9_-]+$(?!\n)")
]
#: One line, without control characters.
Remark = Annotated[str, msgspec.Meta(max_length=REMARK_CHARACTERS_MAX, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]


class ResizeKind(StrEnum):
    """How a topic is resized."""

    GROW = "grow"
    SHRINK = "shrink"
    #: Writes pause until everything is consumed: keeps the order of each key (docs/protocol/queue-scaling.md 8, O1).
    ORDERED = "ordered"
    #: New queues are locked until the old ones are consumed: keeps that order without a pause (section 8, O2).
    GATED = "gated"


class ResizePhase(StrEnum):
    """Phase of a resize."""

    PLANNED = "PLANNED"
    PRECHECK = "PRECHECK"
    PAUSE = "PAUSE"
    GATE = "GATE"
    SEED = "SEED"
    READ_UP = "READ_UP"
    ASSIGN = "ASSIGN"
    WRITE_UP = "WRITE_UP"
    RELEASE = "RELEASE"
    VERIFY = "VERIFY"
    WRITE_DOWN = "WRITE_DOWN"
    QUIESCE = "QUIESCE"
    LATE = "LATE"
    DRAIN = "DRAIN"
    CONFIRM = "CONFIRM"
    RESIZE = "RESIZE"
    UNPAUSE = "UNPAUSE"
    READ_DOWN = "READ_DOWN"
    WATCH = "WATCH"
    REOPEN = "REOPEN"
    ROLLBACK = "ROLLBACK"
    BLOCKED = "BLOCKED"
    CONFLICT = "CONFLICT"
    DONE = "DONE"
    ABORTED = "ABORTED"
    REJECTED = "REJECTED"


FINISHED: Final = frozenset({ResizePhase.DONE, ResizePhase.ABORTED, ResizePhase.REJECTED})
#: Phases in which somebody has to act.
NEEDS_OPERATOR: Final = frozenset({ResizePhase.BLOCKED, ResizePhase.CONFLICT})


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class ResizeWaits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How long a resize waits, in milliseconds; docs/protocol/queue-scaling.md 7 and 9 give the reasons."""

    #: From when every NameServer answers fewer write queues until every producer has noticed: longest poll interval of
    #: clients (30 s), time of that request (6 s), sendMsgTimeout (3 s), and slack.
    producers_ms: WaitMs = 90_000
    #: How long the ends of queues must not move.
    stable_ms: WaitMs = 60_000
    #: Between two checks that must agree.
    confirm_ms: WaitMs = 10_000
    #: For brokers, NameServers and slaves to show new numbers; static slaves copy them each 60 s.
    verify_ms: WaitMs = 180_000
    #: For consumers to get new queues: poll of routes (30 s) and rebalance (20 s).
    assign_ms: WaitMs = 180_000
    #: For offsets to be stored.
    seed_ms: WaitMs = 60_000
    #: For senders to stop, after `producers_ms`; then the resize is blocked.
    quiesce_ms: WaitMs = 900_000
    #: For groups to consume what is left; then the resize is blocked.
    drain_ms: WaitMs = 14_400_000
    #: After the last change, until the resize is done.
    watch_ms: WaitMs = 60_000
    #: After the end of a grow, while lag on new queues is reported.
    grown_watch_ms: WaitMs = 300_000
    #: Invisible time of pop consumers (60 s) and 30 s: later acks are refused.
    pop_ms: WaitMs = 90_000
    #: Time in which clients process what they have pulled: pull, lite pull and broadcast.
    process_ms: WaitMs = 60_000
    #: Checks of transactions: 15 of them, one each 60 s, and slack; longer where the options of a broker say so.
    transaction_ms: WaitMs = 960_000
    #: For timed messages, where new ones come all the time: the longest delay that brokers accept by default
    #: (timerMaxDelaySec, 3 days); then those from before have been delivered.
    timed_ms: WaitMs = 259_200_000
    #: How long an ordered topic may be without writes before the resize is rolled back.
    pause_ms: WaitMs = 900_000


class ResizeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Options of a resize."""

    #: Groups whose unread messages in dropped queues are given up.
    waived_groups: Annotated[tuple[GroupName, ...], msgspec.Meta(max_length=WAIVED_GROUPS_MAX)] = ()
    #: True: delayed messages that may still arrive are not waited for; if one does, dropped queues are opened again.
    accept_late: bool = False
    #: True: goes on to new write queues although clients that broadcast, or choose their queues themselves, do not show
    #: the new read queues.
    ignore_unassigned: bool = False
    #: True: resizes a topic although its message type gives the number of queues a meaning (PRIORITY, LITE).
    ignore_message_type: bool = False


class ResizeRequest(_Body, frozen=True, kw_only=True):
    """A resize that an operator or the autoscaler requests."""

    topic: TopicName
    #: Read and write queues of each broker set at the end.
    queues: int
    #: Changes of ordered topics have to be wanted: `pause` stops writes until everything is consumed, `gate` multiplies
    #: the queues of one broker set and locks the new ones until the old ones are consumed.
    ordered: Literal["", "pause", "gate"] = ""
    #: Broker sets with different numbers are brought to the same one; never to a smaller one.
    equalise: bool = False
    waits: ResizeWaits = ResizeWaits()
    options: ResizeOptions = ResizeOptions()
    requested_by: Remark = ""
    reason: Remark = ""


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


class ResizedSetView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What a resize changes on one broker set."""

    broker_name: str
    cluster: str
    read_before: int
    write_before: int
    perm_before: int
    target: int


class FinishedStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An ended phase and its evidence."""

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
    """Running operations by topic, then ended ones, the newest first."""

    operations: list[OperationView]
    total: int
    #: What is stored and cannot be read, by name.
    problems: dict[str, str]


class OperatorReason(_Body, frozen=True, kw_only=True):
    """An operator's reason for a change."""

    reason: Remark = ""


class ResizeCommand(OperatorReason, frozen=True, kw_only=True):
    """An operator's command for a resize."""

    #: True: it is only shown what would become of it.
    dry_run: bool = False


class WaivedGroup(_Body, frozen=True, kw_only=True):
    """A group whose messages in dropped queues are given up."""

    group: GroupName
    dry_run: bool = False


class GivenUpSet(_Body, frozen=True, kw_only=True):
    """A broker set without which a resize continues."""

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
    """One finding about a topic."""

    kind: str
    #: The group, or the broker set, that it is about; blank for the topic.
    subject: str
    #: What more queues would do about it: `queues help`, `queues do not help`, `unknown`, `not needed`.
    effect: str
    sentence: str
    numbers: dict[str, float]


class DecisionView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The autoscaler's verdict on a topic, and its outcome."""

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
