"""What is told of the autoscaler: lines of the log, metrics, and rows `scaling_decision` of the history."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from controller.scaling.watching.watched_topic import SHOWN_OUTCOMES, TopicDecision
from history.rows import NO_BROKER, Record
from history.schemas import SCALING_DECISION
from serving.logging.events import Level
from serving.telemetry.events import Counter, Event, Gauge, Timer

TOPICS_WATCHED: Final = Gauge(
    "scaling_topics_watched", "Topics with a policy that the autoscaler looks at in each round."
)
TOPICS_LEFT_OUT: Final = Gauge(
    "scaling_topics_left_out", "Topics with a policy that are not looked at, because there are too many."
)
VERDICTS: Final = Gauge(
    "scaling_verdicts",
    "Watched topics by what became of their last verdict: kept, proposed, resized, refused.",
    ("verdict",),
    known=tuple((outcome,) for outcome in SHOWN_OUTCOMES),
)
ROUNDS_FAILED: Final = Counter(
    "scaling_rounds_failed", "Rounds of the autoscaler, or looks at a topic, that failed by a fault of the controller."
)
ROUND_DURATION: Final = Timer(
    "scaling_round_seconds", "Duration of a round of the autoscaler, without the waits that spread it."
)

#: Mistakes of one line, and characters of its sentences.
MISTAKES_MAX: Final = 3
SENTENCE_CHARS_MAX: Final = 300
_REASON_CHARS_MAX: Final = 600
#: Characters of a sentence that are recorded.
RECORDED_CHARS_MAX: Final = 500


class _OfDecision(Event, frozen=True, kw_only=True):
    keys: ClassVar[tuple[str, ...]] = ("topic", "policy", "mode", "queues", "target", "findings", "reason")
    decision: TopicDecision

    def line(self) -> dict[str, object]:
        verdict = self.decision.verdict
        line: dict[str, object] = {
            "topic": self.decision.topic,
            "policy": self.decision.policy.topic,
            "mode": verdict.mode.value,
            "queues": verdict.before,
            "target": verdict.target,
            "findings": [each.kind.value for each in verdict.findings],
            "reason": verdict.reason[:_REASON_CHARS_MAX],
        }
        others: dict[str, object] = {
            "outcome": self.decision.outcome.value,
            "problem": self.decision.problem[:SENTENCE_CHARS_MAX],
            "proposal": self.decision.proposal_id,
            "resize": self.decision.operation_id,
        }
        return line | {key: others[key] for key in self.keys if key in others}

    def rows(self) -> tuple[Record]:
        return (Record(SCALING_DECISION, self.decision.outcome.value, NO_BROKER, _columns_of(self.decision)),)


class ScalingPoliciesLoaded(Event, frozen=True, kw_only=True):
    """New policies are in force: `policies` in all, `automatic` of them with the mode `auto`. `source` is the file, or
    `http`."""

    audit = True
    source: str
    policies: int
    automatic: int


class ScalingPoliciesRefused(Event, frozen=True, kw_only=True):
    """New policies have mistakes, so the former ones stay in force. After a start there are none, and the autoscaler
    does nothing; brokers are served as usual. `problems` are the first mistakes, with line and property."""

    level = Level.ERROR
    advice = "Correct the file; it is read again every second."
    source: str
    mistakes: int
    problems: Sequence[str]


class ScalingVerdictChanged(_OfDecision, frozen=True, kw_only=True):
    """The autoscaler's verdict on a topic changed: `kept` changes nothing, `proposed` waits for an operator, `refused`
    could not be started. `queues` and `target` are those of each broker set; `reason` has the numbers. The same verdict
    is not logged again."""

    keys = (*_OfDecision.keys, "outcome", "problem", "proposal")
    advice = (
        'None for `kept`. A proposal in the mode `approve` has an id: see "The autoscaler" in controller/SCALING.md.'
    )


class ScalingProposalApproved(_OfDecision, frozen=True, kw_only=True):
    """An operator approved a proposal; the next line of the topic says whether its resize was started."""

    keys = (*_OfDecision.keys, "proposal")
    audit = True


class ScalingProposalDismissed(Event, frozen=True, kw_only=True):
    """An operator dismissed a proposal. The same number of queues is not proposed again for a day."""

    audit = True
    topic: str
    reason: str

    def line(self) -> Mapping[str, object]:
        return {"topic": self.topic, "reason": self.reason[:SENTENCE_CHARS_MAX]}

    def rows(self) -> Iterator[Record]:
        columns = {"topic": self.topic, "reason": self.reason[:RECORDED_CHARS_MAX] or None}
        yield Record(SCALING_DECISION, "dismissed", NO_BROKER, columns)


class ScalingResizeRequested(_OfDecision, frozen=True, kw_only=True):
    """The autoscaler started the resize of a topic, by a policy with the mode `auto` or after an approval."""

    keys = (*_OfDecision.keys, "resize")


class ScalingResizeRefused(_OfDecision, frozen=True, kw_only=True):
    """The autoscaler could not start a resize, for the reason in `problem`. It tries again after the cooldown of the
    policy, if the topic still needs it."""

    keys = (*_OfDecision.keys, "problem")
    level = Level.WARNING
    advice = "Do what `problem` says."


class ScalingRoundFailed(Event, frozen=True, kw_only=True):
    """A check of all topics by the autoscaler, or of `topic` alone, failed by a fault of the controller. It decided
    nothing; the next round tries again."""

    level = Level.ERROR
    advice = "Report it."
    keys = ("topic", "error", "exception")
    counter = ROUNDS_FAILED
    topic: str
    fault: Exception

    def line(self) -> Mapping[str, object]:
        text = str(self.fault)[:SENTENCE_CHARS_MAX] or type(self.fault).__name__
        return {"topic": self.topic, "error": text, "exc_info": self.fault}


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
        "reason": (decision.problem or verdict.reason)[:RECORDED_CHARS_MAX],
        "sets": numbers.sets,
        "tps": numbers.put_tps,
        "lag": numbers.lag,
        "consumers": numbers.clients,
        "operation_id": decision.operation_id or None,
    }
