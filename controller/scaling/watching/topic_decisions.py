"""What became of a verdict: shown, waiting for an operator, carried out or refused. Values only."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.policies import ScalingPolicy
from controller.scaling.autoscaler.progress import totals_of
from controller.scaling.autoscaler.signals import TopicSignals
from controller.scaling.autoscaler.topic_watch import most_clients


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
        """Return the numbers of one moment."""
        totals = [totals_of(each) for each in signals.groups.values()]
        return cls(
            sets=len(signals.sets),
            put_tps=signals.put_tps,
            lag=max((each.lag for each in totals if each is not None), default=None),
            clients=most_clients(signals),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecision:
    """The last verdict on a topic, and what became of it."""

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
        """The topic that it is about."""
        return self.verdict.topic

    def is_shown_as(self, other: "TopicDecision | None") -> bool:
        """Return whether nothing has changed for an operator: numbers in sentences change all the time."""
        return other is not None and _shown(self) == _shown(other)


def _shown(decision: TopicDecision) -> object:
    verdict = decision.verdict
    keys = frozenset(each.key for each in verdict.findings)
    changes = verdict.mode, verdict.before, verdict.target, decision.outcome, decision.proposal_id
    return decision.policy.topic, changes, keys
