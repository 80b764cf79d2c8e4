"""Turns what the autoscaler does into log lines, counts and rows of the history. Answers to `ScalingObserver`."""

from typing import Final

from controller.observability import autoscaler_log_events as catalogue
from controller.observability.counters import SetCounters
from controller.recording.decision_recorder import DecisionRecorder
from controller.scaling.autoscaler.policies import PolicyMode, PolicyTable
from controller.scaling.watching.scaling_observer import RoundReport
from controller.scaling.watching.topic_decisions import TopicDecision
from serving.config.table_documents import TablesRefused
from serving.logging.logs import Logs

#: Mistakes of one line, and characters of its sentences.
MISTAKES_MAX: Final = 3
SENTENCE_CHARS_MAX: Final = 300
REASON_CHARS_MAX: Final = 600


class AutoscalerEventLog:
    """Learns what the autoscaler does."""

    def __init__(self, logs: Logs, counters: SetCounters, history: DecisionRecorder | None = None) -> None:
        self._logs = logs
        self._counters = counters
        self._history = history

    def verdict_changed(self, decision: TopicDecision) -> None:
        """Log and record the verdict."""
        self._record(decision)
        self._logs.write(
            catalogue.SCALING_VERDICT_CHANGED,
            **_keys(decision),
            outcome=decision.outcome.value,
            problem=decision.problem[:SENTENCE_CHARS_MAX],
            proposal=decision.proposal_id,
        )

    def proposal_approved(self, decision: TopicDecision) -> None:
        """Log and record an operator's decision."""
        self._record(decision)
        self._logs.write(catalogue.SCALING_PROPOSAL_APPROVED, **_keys(decision), proposal=decision.proposal_id)

    def proposal_dismissed(self, topic: str, reason: str) -> None:
        """Log and record an operator's decision."""
        if self._history is not None:
            self._history.proposal_dismissed(topic, reason)
        self._logs.write(catalogue.SCALING_PROPOSAL_DISMISSED, topic=topic, reason=reason[:SENTENCE_CHARS_MAX])

    def resize_requested(self, decision: TopicDecision) -> None:
        """Log and record a resize that was started."""
        self._record(decision)
        self._logs.write(catalogue.SCALING_RESIZE_REQUESTED, **_keys(decision), resize=decision.operation_id)

    def resize_refused(self, decision: TopicDecision) -> None:
        """Log and record a resize that could not be started."""
        self._record(decision)
        self._logs.write(
            catalogue.SCALING_RESIZE_REFUSED, **_keys(decision), problem=decision.problem[:SENTENCE_CHARS_MAX]
        )

    def policies_loaded(self, source: str, policies: PolicyTable) -> None:
        """Log the policies in force."""
        automatic = sum(each.mode is PolicyMode.AUTO for each in policies.policies)
        self._logs.write(
            catalogue.SCALING_POLICIES_LOADED, source=source, policies=len(policies.policies), automatic=automatic
        )

    def policies_refused(self, source: str, refusal: TablesRefused) -> None:
        """Log what is wrong with policies."""
        problems = [str(each)[:SENTENCE_CHARS_MAX] for each in refusal.mistakes[:MISTAKES_MAX]]
        self._logs.write(
            catalogue.SCALING_POLICIES_REFUSED, source=source, mistakes=len(refusal.mistakes), problems=problems
        )

    def round_ended(self, report: RoundReport) -> None:
        """Count what was found."""
        self._counters.scaling.topics_watched = report.topics
        self._counters.scaling.topics_left_out = report.left_out
        self._counters.scaling.verdicts = {each.value: count for each, count in report.outcomes.items()}
        self._counters.scaling.rounds.observe((), report.duration_ms / 1000)

    def round_failed(self, topic: str, error: Exception) -> None:
        """Log and count a fault of ours."""
        self._counters.scaling.rounds_failed += 1
        text = str(error)[:SENTENCE_CHARS_MAX] or type(error).__name__
        self._logs.write(catalogue.SCALING_ROUND_FAILED, topic=topic, error=text, exc_info=error)

    def watch_ended(self) -> None:
        """Count nothing any more."""
        self._counters.scaling.topics_watched = self._counters.scaling.topics_left_out = 0
        self._counters.scaling.verdicts = {}

    def _record(self, decision: TopicDecision) -> None:
        if self._history is not None:
            self._history.decided(decision)


def _keys(decision: TopicDecision) -> dict[str, object]:
    verdict = decision.verdict
    return {
        "topic": decision.topic,
        "policy": decision.policy.topic,
        "mode": verdict.mode.value,
        "queues": verdict.before,
        "target": verdict.target,
        "findings": [each.kind.value for each in verdict.findings],
        "reason": verdict.reason[:REASON_CHARS_MAX],
    }
