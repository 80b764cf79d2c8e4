"""Hands over to the recorder what the autoscaler decides, and what becomes of that."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from controller.recording.resize_recorder import SENTENCE_MAX
from controller.scaling.watching.topic_decisions import TopicDecision
from history.recorder import Recorder
from history.rows import NO_BROKER, HistoryRow, Moment, RowMaker
from history.schemas import SCALING_DECISION


class DecisionRow(NamedTuple):
    """One decision about a topic."""

    event_type: str
    columns: Mapping[str, object]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield one row."""
        yield maker.row(SCALING_DECISION, self.event_type, moment, NO_BROKER, **self.columns)


class DecisionRecorder:
    """What is recorded of the autoscaler."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def decided(self, decision: TopicDecision) -> None:
        """Record a decision that differs from the one before, or what became of it."""
        self._recorder.enqueue(DecisionRow(decision.outcome.value, _columns_of(decision)))

    def proposal_dismissed(self, topic: str, reason: str) -> None:
        """Record that an operator dismissed a proposal."""
        columns = {"topic": topic, "reason": reason[:SENTENCE_MAX] or None}
        self._recorder.enqueue(DecisionRow("dismissed", columns))


def _columns_of(decision: TopicDecision) -> dict[str, object]:
    verdict, numbers = decision.verdict, decision.numbers
    first = next(iter(verdict.findings), None)
    return {
        "topic": verdict.topic,
        "policy": decision.policy.topic,
        "mode": verdict.mode.value,
        "queues": verdict.before,
        "target": verdict.target,
        "finding": first.kind.value if first is not None else None,
        "subject": (first.subject or None) if first is not None else None,
        "findings": sorted({each.kind.value for each in verdict.findings}),
        # Of a refused one the reason of the refusal matters: what was found has columns of its own.
        "reason": (decision.problem or verdict.reason)[:SENTENCE_MAX],
        "sets": numbers.sets,
        "tps": numbers.put_tps,
        "lag": numbers.lag,
        "consumers": numbers.clients,
        "operation_id": decision.operation_id or None,
    }
