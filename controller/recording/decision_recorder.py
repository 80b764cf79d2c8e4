"""Hands over to the recorder what the autoscaler decides: a decision that is that of before is not recorded again."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from controller.recording.resize_recorder import SENTENCE_MAX
from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.policies import MATCHES_MAX, ScalingPolicy
from controller.scaling.autoscaler.signals import GroupSignals, TopicSignals
from controller.scaling.autoscaler.topic_watch import most_clients
from history.recorder import Recorder
from history.rows import NO_BROKER, HistoryRow, Moment, RowMaker
from history.schemas import SCALING_DECISION

#: Topics whose last decision is remembered; beyond it all are recorded once more.
TOPICS_MAX: Final = MATCHES_MAX


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
        #: Topic -> what its last decision differs by from another one.
        self._last: dict[str, object] = {}

    def decided(self, verdict: ScalingVerdict, policy: ScalingPolicy, signals: TopicSignals) -> None:
        """Record a verdict that differs from the one before by more than its numbers: `proposed` or `kept`."""
        shown = (verdict.mode, verdict.before, verdict.target, frozenset(each.key for each in verdict.findings))
        if self._last.get(verdict.topic) == shown:
            return
        if len(self._last) >= TOPICS_MAX:
            self._last.clear()
        self._last[verdict.topic] = shown
        self._record("proposed" if verdict.is_change else "kept", verdict, policy, signals)

    def approved(self, verdict: ScalingVerdict, policy: ScalingPolicy, signals: TopicSignals) -> None:
        """Record that an operator approved a proposal."""
        self._record("approved", verdict, policy, signals)

    def resized(self, verdict: ScalingVerdict, policy: ScalingPolicy, signals: TopicSignals, operation_id: str) -> None:
        """Record that the resize of a verdict was started."""
        self._record("resized", verdict, policy, signals, operation_id=operation_id)

    def refused(self, verdict: ScalingVerdict, policy: ScalingPolicy, signals: TopicSignals, why: str) -> None:
        """Record that the resize of a verdict could not be started."""
        self._record("refused", verdict, policy, signals, reason=why[:SENTENCE_MAX])

    def _record(
        self,
        event_type: str,
        verdict: ScalingVerdict,
        policy: ScalingPolicy,
        signals: TopicSignals,
        **more: object,
    ) -> None:
        columns = {**_of_verdict(verdict), "policy": policy.topic, **_of_signals(signals), **more}
        self._recorder.enqueue(DecisionRow(event_type, columns))


def _of_verdict(verdict: ScalingVerdict) -> dict[str, object]:
    first = next(iter(verdict.findings), None)
    return {
        "topic": verdict.topic,
        "mode": verdict.mode.value,
        "queues": verdict.before,
        "target": verdict.target,
        "finding": first.kind.value if first is not None else None,
        "subject": (first.subject or None) if first is not None else None,
        "findings": sorted({each.kind.value for each in verdict.findings}),
        "reason": verdict.reason[:SENTENCE_MAX],
    }


def _of_signals(signals: TopicSignals) -> dict[str, object]:
    lags = [lag for each in signals.groups.values() if (lag := _lag(each)) is not None]
    return {
        "sets": len(signals.sets),
        "tps": signals.put_tps,
        "lag": max(lags, default=None),
        "consumers": most_clients(signals),
    }


def _lag(group: GroupSignals) -> int | None:
    """Return what a group has not consumed; None if that of a queue is unknown."""
    lags = [each.lag for each in group.queues]
    return sum(lag for lag in lags if lag is not None) if lags and None not in lags else None
