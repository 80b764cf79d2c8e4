"""One watched topic: its readings, its findings, its last decision. Pure."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from controller.scaling.autoscaler.decision import AnalysisOutlook, KnownResizes, ScalingVerdict
from controller.scaling.autoscaler.policies import ScalingPolicy
from controller.scaling.autoscaler.progress import totals_of
from controller.scaling.autoscaler.readings import ReadingHistory, TopicReading
from controller.scaling.autoscaler.signals import TopicSignals
from controller.scaling.autoscaler.topic_watch import TopicWatch
from controller.scaling.watching.topic_decisions import TopicDecision, TopicNumbers

if TYPE_CHECKING:
    from controller.scaling.watching.topic_facts import TopicFacts

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
        self,
        reading: TopicReading,
        policy: ScalingPolicy,
        resizes: KnownResizes,
        outlook: AnalysisOutlook,
    ) -> tuple[ScalingVerdict, TopicNumbers]:
        """Take one reading, and return what follows from all of them."""
        if resizes.of_topic != self._resizes.of_topic and self.facts is not None:
            # Its queues may be others.
            self.facts = replace(self.facts, counts={}, is_complete=False)
        self._resizes = resizes
        signals = self._history.add(reading)
        self.behind = _behind(signals, policy.behind_ms)
        return self._watch.evaluate(signals, policy, resizes, outlook), TopicNumbers.of(signals)


def _behind(signals: TopicSignals, behind_ms: int) -> frozenset[str]:
    if signals.put_tps == 0 and not signals.groups:
        return _NOBODY
    totals = {name: totals_of(each) for name, each in signals.groups.items()}
    return frozenset(name for name, each in totals.items() if each is not None and each.needs_help(behind_ms))
