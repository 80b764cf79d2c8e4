"""Carries out verdicts: shows them, lets them wait for an operator, or starts resizes. Each change is reported once."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final, NamedTuple

from controller.refusals import NotLeader
from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.policies import PolicyMode, ScalingPolicy
from controller.scaling.execution.operations import OperationExists, why_no_turn
from controller.scaling.execution.service import QueueScaling, ResizeRefused
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.resize.request import AUTOSCALER
from controller.scaling.watching.events import (
    ScalingProposalApproved,
    ScalingProposalDismissed,
    ScalingResizeRefused,
    ScalingResizeRequested,
    ScalingVerdictChanged,
)
from controller.scaling.watching.proposals import Proposal, Proposals
from controller.scaling.watching.topic_decisions import DecisionOutcome, TopicDecision, TopicNumbers
from controller.scaling.watching.topic_under_policy import Refusal, TopicUnderPolicy
from remoting.clock import Clock
from serving.shapes.scaling import ResizeRequest
from serving.telemetry.events import Emit
from store.store import DocumentRefused, StoreError

#: Changes of decisions that are shown, of all topics.
CHANGES_MAX: Final = 200

#: Who requests the resizes of approved proposals.
APPROVED_BY: Final = "autoscaler, approved by an operator"

_REFUSALS: Final = (ResizeRefused, OperationExists, DocumentRefused, StoreError)


class FoundVerdict(NamedTuple):
    """What follows from one reading of a topic, and from which policy."""

    policy: ScalingPolicy
    verdict: ScalingVerdict
    numbers: TopicNumbers

    def decision(self, outcome: DecisionOutcome, problem: str = "") -> TopicDecision:
        """Return the decision with what became of it."""
        return TopicDecision(
            verdict=self.verdict, policy=self.policy, outcome=outcome, numbers=self.numbers, problem=problem
        )


class DecisionRuntime(NamedTuple):
    """What decisions are carried out with."""

    scaling: QueueScaling
    emit: Emit
    clock: Clock
    #: Resizes that have turns at one time; further ones are not started.
    running_max: Callable[[], int]
    #: Runs what nobody waits for.
    start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]]


class Decisions:
    """What became of verdicts since this controller leads."""

    def __init__(self, runtime: DecisionRuntime) -> None:
        self._scaling, self._emit, self._clock, self._running_max, self._start = runtime
        self.proposals = Proposals()
        #: The newest last.
        self.changes: deque[TopicDecision] = deque(maxlen=CHANGES_MAX)
        self._starts: set[asyncio.Task[Any]] = set()

    def take(self, watched: TopicUnderPolicy, found: FoundVerdict) -> None:
        """Carry out a verdict."""
        if watched.is_starting:
            return
        if found.verdict.target is None:
            self._decided(watched, found.decision(DecisionOutcome.KEPT))
        elif found.verdict.mode is PolicyMode.PROPOSE:
            self._decided(watched, found.decision(DecisionOutcome.PROPOSED))
        elif found.verdict.mode is PolicyMode.APPROVE:
            proposal = self.proposals.propose(found.verdict)
            decision = found.decision(DecisionOutcome.PROPOSED)
            self._decided(watched, replace(decision, proposal_id="" if proposal is None else proposal.id))
        else:
            self._begin(watched, found)
        if found.verdict.target is None or found.verdict.mode is not PolicyMode.APPROVE:
            self._withdraw_changed(found.verdict)

    async def approve(self, watched: TopicUnderPolicy | None, proposal: Proposal, reason: str) -> ResizeOperation:
        """Start what is proposed; raises what `QueueScaling.start` raises, and then the proposal goes on waiting."""
        decision = None if watched is None else _of_proposal(watched.decision, proposal)
        if decision is not None:
            self._emit(ScalingProposalApproved(decision=decision))
        request = ResizeRequest(
            topic=proposal.topic,
            queues=proposal.target,
            requested_by=APPROVED_BY,
            reason=f"{proposal.reason}; approved: {reason}" if reason else proposal.reason,
        )
        try:
            operation = await self._scaling.start_from(request, proposal.before)
        except _REFUSALS as error:
            if decision is not None:
                refused = replace(decision, outcome=DecisionOutcome.REFUSED, problem=str(error))
                self._emit(ScalingResizeRefused(decision=refused))
            raise
        self.proposals.withdraw(proposal.topic)
        if watched is not None and decision is not None:
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
        self.proposals.clear()
        self.changes.clear()

    def _withdraw_changed(self, verdict: ScalingVerdict) -> None:
        """Remove a proposal that was made for another count than the topic has now; one that only flickers stays."""
        waiting = self.proposals.of_topic(verdict.topic)
        if waiting is not None and verdict.before is not None and verdict.before != waiting.before:
            self.proposals.withdraw(verdict.topic)

    def _begin(self, watched: TopicUnderPolicy, found: FoundVerdict) -> None:
        refusal = watched.refusal
        # Counted anew each time: those that were started a moment ago are stored by now.
        ahead = len(self._scaling.operations.turns()) + len(self._starts)
        if refusal is not None and self._clock.now_ms() < refusal.until_ms:
            self._decided(watched, found.decision(DecisionOutcome.REFUSED, refusal.problem))
        elif ahead >= self._running_max():
            self._decided(watched, found.decision(DecisionOutcome.REFUSED, why_no_turn(ahead)))
        else:
            watched.is_starting = True
            task = self._start(self._resize(watched, found))
            self._starts.add(task)
            task.add_done_callback(self._starts.discard)

    async def _resize(self, watched: TopicUnderPolicy, found: FoundVerdict) -> None:
        verdict = found.verdict
        assert verdict.target is not None, "only a change is carried out"
        assert verdict.before is not None, "nothing follows from unknown counts"
        request = ResizeRequest(
            topic=verdict.topic, queues=verdict.target, requested_by=AUTOSCALER, reason=verdict.reason
        )
        try:
            operation = await self._scaling.start_from(request, verdict.before)
        except NotLeader:
            return
        except _REFUSALS as error:
            self._refused(watched, found, str(error))
        else:
            self._resized(watched, found.decision(DecisionOutcome.RESIZED), operation)
        finally:
            watched.is_starting = False

    def _refused(self, watched: TopicUnderPolicy, found: FoundVerdict, problem: str) -> None:
        watched.refusal = Refusal(problem, self._clock.now_ms() + found.policy.cooldown_ms)
        decision = found.decision(DecisionOutcome.REFUSED, problem)
        self._change(watched, decision)
        self._emit(ScalingResizeRefused(decision=decision))

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


def _of_proposal(decision: TopicDecision | None, proposal: Proposal) -> TopicDecision | None:
    """Return the decision that an operator approves: the newest verdict may be another one."""
    if decision is None:
        return None
    verdict = replace(
        decision.verdict,
        mode=PolicyMode.APPROVE,
        before=proposal.before,
        target=proposal.target,
        reason=proposal.reason,
    )
    return replace(decision, verdict=verdict, outcome=DecisionOutcome.APPROVED, problem="", proposal_id=proposal.id)
