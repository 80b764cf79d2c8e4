"""Who learns what the autoscaler does, to log, count and record it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from controller.scaling.autoscaler.policies import PolicyTable
from controller.scaling.watching.topic_decisions import DecisionOutcome, TopicDecision
from serving.config.table_documents import TablesRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One look at all watched topics."""

    #: How long it took, without the waits in between.
    duration_ms: int
    topics: int
    #: Topics with a policy that are too many to be watched.
    left_out: int
    #: Topics by what became of their last verdict.
    outcomes: Mapping[DecisionOutcome, int]


class ScalingObserver(Protocol):
    """Learns what the autoscaler does."""

    def verdict_changed(self, decision: TopicDecision) -> None:
        """Report that a topic is kept or proposed to be changed, for other reasons than before."""

    def proposal_approved(self, decision: TopicDecision) -> None:
        """Report that an operator approved a proposal; what became of it follows."""

    def proposal_dismissed(self, topic: str, reason: str) -> None:
        """Report that an operator dismissed the proposal for a topic."""

    def resize_requested(self, decision: TopicDecision) -> None:
        """Report that the resize of a topic was started."""

    def resize_refused(self, decision: TopicDecision) -> None:
        """Report that the resize of a topic could not be started."""

    def policies_loaded(self, source: str, policies: PolicyTable) -> None:
        """Report the policies that are in force from now on, and the file they come from; or `http`."""

    def policies_refused(self, source: str, refusal: TablesRefused) -> None:
        """Report policies with mistakes; those before stay in force."""

    def round_ended(self, report: RoundReport) -> None:
        """Report that all topics were looked at."""

    def round_failed(self, topic: str, error: Exception) -> None:
        """Report a look that failed by a fault of ours: at one topic, or as a whole if it is blank."""

    def watch_ended(self) -> None:
        """Report that no topic is watched any more: another controller leads."""
