"""Carries out verdicts: shows them, lets them wait for an operator, or starts resizes. Each change is reported once."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from controller.refusals import NotLeader
from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.policies import PolicyMode
from controller.scaling.execution.operations import OperationExists, why_no_turn
from controller.scaling.execution.service import QueueScaling, ResizeRefused
from controller.scaling.resize.operation import AUTOSCALER, ResizeOperation
from controller.scaling.watching.events import (
    ScalingProposalApproved,
    ScalingProposalDismissed,
    ScalingResizeRefused,
    ScalingResizeRequested,
    ScalingVerdictChanged,
)
from controller.scaling.watching.watched_topic import (
    DecisionOutcome,
    Refusal,
    TopicDecision,
    TopicUnderPolicy,
)
from serving.shapes.scaling import ResizeRequest
from store.store import DocumentRefused, StoreError

if TYPE_CHECKING:
    import asyncio

#: A proposal ends if no verdict has confirmed it for so long.
UNCONFIRMED_MS: Final = 120_000
#: And after so long in any case: what it was made of is old.
WAIT_MS: Final = 86_400_000
#: So long after it was dismissed, the same count is not proposed again.
DISMISSED_MS: Final = 86_400_000
#: Dismissed proposals that are remembered; the oldest is forgotten first.
DISMISSED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A resize that waits for an operator; counts are queues on each set."""

    id: str
    topic: str
    before: int
    target: int
    #: Of the newest verdict.
    reason: str
    created_unix_ms: int
    confirmed_unix_ms: int

    @property
    def expires_unix_ms(self) -> int:
        """When it ends, unless a verdict confirms it before."""
        return min(self.confirmed_unix_ms + UNCONFIRMED_MS, self.created_unix_ms + WAIT_MS)

    def is_over(self, unix_ms: int) -> bool:
        """Return whether it has ended; after a clock was set back nobody knows how old it is, so it has too."""
        return not self.confirmed_unix_ms - UNCONFIRMED_MS < unix_ms < self.expires_unix_ms


class ProposalUnknown(Exception):
    """There is no proposal of that id, or not any more."""

    def __init__(self, proposal_id: str) -> None:
        super().__init__(f"there is no proposal {proposal_id}: it may have expired, or been replaced by another one")


class Proposals:
    """At most one for each topic, in the memory of the leader alone: a new leader makes them anew."""

    def __init__(self) -> None:
        self.by_topic: dict[str, Proposal] = {}
        #: Topic -> the count that was dismissed, and until when.
        self._dismissed: dict[str, tuple[int, int]] = {}

    def waiting(self, unix_ms: int) -> list[Proposal]:
        """Return the proposals that have not expired, by topic."""
        self.by_topic = {topic: each for topic, each in self.by_topic.items() if not each.is_over(unix_ms)}
        return [self.by_topic[topic] for topic in sorted(self.by_topic)]

    def propose(self, verdict: ScalingVerdict) -> Proposal | None:
        """Return the proposal that a verdict makes or confirms; None if an operator has dismissed it."""
        unix_ms = verdict.unix_ms
        assert verdict.target is not None, "only a change is proposed"
        assert verdict.before is not None, "nothing is proposed for unknown counts"
        dismissed_target, until_ms = self._dismissed.get(verdict.topic, (None, 0))
        if dismissed_target == verdict.target and unix_ms < until_ms:
            return None
        known = self.by_topic.get(verdict.topic)
        counts = verdict.before, verdict.target
        if known is not None and (known.before, known.target) == counts and not known.is_over(unix_ms):
            confirmed = replace(known, reason=verdict.reason, confirmed_unix_ms=unix_ms)
        else:
            confirmed = Proposal(
                id=f"{verdict.topic}.{unix_ms}",
                topic=verdict.topic,
                before=verdict.before,
                target=verdict.target,
                reason=verdict.reason,
                created_unix_ms=unix_ms,
                confirmed_unix_ms=unix_ms,
            )
        self.by_topic[verdict.topic] = confirmed
        return confirmed

    def find(self, proposal_id: str, unix_ms: int) -> Proposal:
        """Return a proposal; raises ProposalUnknown."""
        found = (each for each in self.waiting(unix_ms) if each.id == proposal_id)
        if (proposal := next(found, None)) is None:
            raise ProposalUnknown(proposal_id)
        return proposal

    def dismiss(self, proposal_id: str, unix_ms: int) -> Proposal:
        """Remove a proposal, and remember that nobody wants it; raises ProposalUnknown."""
        proposal = self.find(proposal_id, unix_ms)
        while len(self._dismissed) >= DISMISSED_MAX:
            del self._dismissed[next(iter(self._dismissed))]
        self._dismissed.pop(proposal.topic, None)
        self._dismissed[proposal.topic] = (proposal.target, unix_ms + DISMISSED_MS)
        del self.by_topic[proposal.topic]
        return proposal

    def keep_only(self, topics: Iterable[str]) -> None:
        kept = set(topics)
        self.by_topic = {topic: each for topic, each in self.by_topic.items() if topic in kept}


#: Changes of decisions that are shown, of all topics.
CHANGES_MAX: Final = 200

#: Who requests the resizes of approved proposals.
APPROVED_BY: Final = "autoscaler, approved by an operator"

_REFUSALS: Final = (ResizeRefused, OperationExists, DocumentRefused, StoreError)


class Decisions:
    """What became of verdicts since this controller leads."""

    def __init__(self, scaling: QueueScaling) -> None:
        self._scaling, self._emit, self._clock = scaling, scaling.emit, scaling.clock
        self.proposals = Proposals()
        #: The newest last.
        self.changes: deque[TopicDecision] = deque(maxlen=CHANGES_MAX)
        self._starts: set[asyncio.Task[Any]] = set()

    def take(self, watched: TopicUnderPolicy, found: TopicDecision) -> None:
        """Carry out a verdict of which nothing has become yet."""
        if watched.is_starting:
            return
        verdict = found.verdict
        if verdict.target is None:
            self._decided(watched, found)
        elif verdict.mode is PolicyMode.PROPOSE:
            self._decided(watched, replace(found, outcome=DecisionOutcome.PROPOSED))
        elif verdict.mode is PolicyMode.APPROVE:
            proposal = self.proposals.propose(verdict)
            proposal_id = "" if proposal is None else proposal.id
            self._decided(watched, replace(found, outcome=DecisionOutcome.PROPOSED, proposal_id=proposal_id))
            return
        else:
            self._begin(watched, found)
        waiting = self.proposals.by_topic.get(verdict.topic)
        # It was made for another count than the topic has now; one that only flickers stays.
        if waiting is not None and verdict.before is not None and verdict.before != waiting.before:
            del self.proposals.by_topic[verdict.topic]

    async def approve(self, watched: TopicUnderPolicy, proposal: Proposal, reason: str) -> ResizeOperation:
        """Start what is proposed; raises what `QueueScaling.start` raises, and then the proposal goes on waiting."""
        decision = _of_proposal(watched, proposal)
        self._emit(ScalingProposalApproved(decision=decision))
        request = ResizeRequest(
            topic=proposal.topic,
            queues=proposal.target,
            requested_by=APPROVED_BY,
            reason=f"{proposal.reason}; approved: {reason}" if reason else proposal.reason,
        )
        try:
            operation = await self._scaling.start(request, proposal.before)
        except _REFUSALS as error:
            self._emit(ScalingResizeRefused(decision=_refused(decision, str(error))))
            raise
        self.proposals.by_topic.pop(proposal.topic, None)
        self._resized(watched, decision, operation)
        return operation

    def dismiss(self, proposal_id: str, reason: str) -> Proposal:
        """Give up a proposal: the same count is not proposed for a day. Raises ProposalUnknown."""
        proposal = self.proposals.dismiss(proposal_id, self._clock.unix_ms())
        self._emit(ScalingProposalDismissed(topic=proposal.topic, reason=reason))
        return proposal

    def clear(self) -> None:
        """Start nothing more, and forget everything: another controller leads."""
        for task in self._starts:
            task.cancel()
        self._starts.clear()
        self.proposals = Proposals()
        self.changes.clear()

    def _begin(self, watched: TopicUnderPolicy, found: TopicDecision) -> None:
        refusal = watched.refusal
        # Counted anew each time: those that were started a moment ago are stored by now.
        ahead = len(self._scaling.operations.turns()) + len(self._starts)
        if refusal is not None and self._clock.now_ms() < refusal.until_ms:
            self._decided(watched, _refused(found, refusal.problem))
        elif ahead >= self._scaling.options().running_max:
            self._decided(watched, _refused(found, why_no_turn(ahead)))
        else:
            watched.is_starting = True
            task = self._scaling.begin(self._resize(watched, found))
            self._starts.add(task)
            task.add_done_callback(self._starts.discard)

    async def _resize(self, watched: TopicUnderPolicy, found: TopicDecision) -> None:
        verdict = found.verdict
        assert verdict.target is not None, "only a change is carried out"
        assert verdict.before is not None, "nothing follows from unknown counts"
        request = ResizeRequest(
            topic=verdict.topic, queues=verdict.target, requested_by=AUTOSCALER, reason=verdict.reason
        )
        try:
            operation = await self._scaling.start(request, verdict.before)
        except NotLeader:
            return
        except _REFUSALS as error:
            watched.refusal = Refusal(str(error), self._clock.now_ms() + found.policy.cooldown_ms)
            decision = _refused(found, str(error))
            self._change(watched, decision)
            self._emit(ScalingResizeRefused(decision=decision))
        else:
            self._resized(watched, found, operation)
        finally:
            watched.is_starting = False

    def _resized(self, watched: TopicUnderPolicy, decision: TopicDecision, operation: ResizeOperation) -> None:
        watched.refusal = None
        resized = replace(decision, outcome=DecisionOutcome.RESIZED, operation_id=operation.id, proposal_id="")
        self._change(watched, resized)
        self._emit(ScalingResizeRequested(decision=resized))

    def _decided(self, watched: TopicUnderPolicy, decision: TopicDecision) -> None:
        if decision.is_shown_as(watched.decision):
            # Its numbers are newer.
            watched.decision = decision
            return
        self._change(watched, decision)
        self._emit(ScalingVerdictChanged(decision=decision))

    def _change(self, watched: TopicUnderPolicy, decision: TopicDecision) -> None:
        watched.decision = decision
        self.changes.append(decision)


def _refused(decision: TopicDecision, problem: str) -> TopicDecision:
    return replace(decision, outcome=DecisionOutcome.REFUSED, problem=problem)


def _of_proposal(watched: TopicUnderPolicy, proposal: Proposal) -> TopicDecision:
    """Return the decision that an operator approves: the newest verdict may be another one."""
    assert watched.decision is not None, "it was proposed by a decision"
    verdict = replace(
        watched.decision.verdict,
        mode=PolicyMode.APPROVE,
        before=proposal.before,
        target=proposal.target,
        reason=proposal.reason,
    )
    return replace(
        watched.decision, verdict=verdict, outcome=DecisionOutcome.APPROVED, problem="", proposal_id=proposal.id
    )
