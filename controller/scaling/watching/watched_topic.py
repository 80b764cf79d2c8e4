"""One watched topic: its readings, its findings, the last verdict and what became of it. Pure."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from controller.scaling.autoscaler.decision import KnownResizes, ScalingVerdict
from controller.scaling.autoscaler.findings import AnalysisOutlook
from controller.scaling.autoscaler.policies import ScalingPolicy
from controller.scaling.autoscaler.readings import ReadingHistory, TopicReading
from controller.scaling.autoscaler.signals import TopicSignals, totals_of
from controller.scaling.autoscaler.topic_watch import TopicWatch, most_clients

if TYPE_CHECKING:
    from controller.scaling.watching.topic_requests import TopicFacts


class DecisionOutcome(StrEnum):
    """What became of a verdict; the values are shown to operators, and recorded."""

    #: Nothing is to change.
    KEPT = "kept"
    #: Another count is proposed, and an operator decides.
    PROPOSED = "proposed"
    #: An operator approved a proposal.
    APPROVED = "approved"
    #: A resize was started.
    RESIZED = "resized"
    #: A resize could not be started.
    REFUSED = "refused"


#: What can be the last that became of a topic.
SHOWN_OUTCOMES: Final = tuple(each.value for each in DecisionOutcome if each is not DecisionOutcome.APPROVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNumbers:
    """What was seen of a topic when it was decided on; None is unknown."""

    sets: int
    put_tps: float | None
    #: Messages not consumed by the group that is most behind.
    lag: int | None
    #: Clients of the largest group that gives queues to clients.
    clients: int | None

    @classmethod
    def of(cls, signals: TopicSignals) -> "TopicNumbers":
        totals = [totals_of(each) for each in signals.groups.values()]
        return cls(
            sets=len(signals.sets),
            put_tps=signals.put_tps,
            lag=max((each.lag for each in totals if each is not None), default=None),
            clients=most_clients(signals),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision:
    verdict: ScalingVerdict
    policy: ScalingPolicy
    outcome: DecisionOutcome
    numbers: TopicNumbers
    #: Of a refused one: why.
    problem: str = ""
    #: Of a resize that was started.
    operation_id: str = ""
    #: Of a proposal that waits for an operator.
    proposal_id: str = ""

    @property
    def topic(self) -> str:
        return self.verdict.topic

    def is_shown_as(self, other: "TopicDecision | None") -> bool:
        """Return whether nothing has changed for an operator: numbers in sentences change all the time."""
        return other is not None and _shown(self) == _shown(other)


def _shown(decision: TopicDecision) -> object:
    verdict = decision.verdict
    keys = frozenset(each.key for each in verdict.findings)
    changes = verdict.mode, verdict.before, verdict.target, decision.outcome, decision.proposal_id
    return decision.policy.topic, changes, keys


_NOBODY: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a resize could not be started, and until when it is not tried again; monotonic."""

    problem: str
    until_ms: int


class TopicUnderPolicy:
    """What is known of a topic since this controller leads."""

    def __init__(self) -> None:
        self._history = ReadingHistory()
        self._watch = TopicWatch()
        self._resizes = KnownResizes()
        self.facts: TopicFacts | None = None
        #: Groups that need help: of these all clients are queried.
        self.behind: frozenset[str] = _NOBODY
        self.decision: TopicDecision | None = None
        self.refusal: Refusal | None = None
        #: A resize of it is being planned and stored.
        self.is_starting = False

    def evaluate(
        self, reading: TopicReading, policy: ScalingPolicy, resizes: KnownResizes, outlook: AnalysisOutlook
    ) -> TopicDecision:
        """Take one reading, and return what follows from all of them; nothing has become of it yet."""
        if resizes.of_topic != self._resizes.of_topic and self.facts is not None:
            # Its queues may be others.
            self.facts = replace(self.facts, counts={}, is_complete=False)
        self._resizes = resizes
        signals = self._history.add(reading)
        self.behind = _behind(signals, policy.behind_ms)
        return TopicDecision(
            verdict=self._watch.evaluate(signals, policy, resizes, outlook),
            policy=policy,
            outcome=DecisionOutcome.KEPT,
            numbers=TopicNumbers.of(signals),
        )


def _behind(signals: TopicSignals, behind_ms: int) -> frozenset[str]:
    if signals.put_tps == 0 and not signals.groups:
        return _NOBODY
    totals = {name: totals_of(each) for name, each in signals.groups.items()}
    return frozenset(name for name, each in totals.items() if each is not None and each.needs_help(behind_ms))
