"""What the HTTP paths of the autoscaler answer, and what they request of it."""

from collections.abc import Iterable
from itertools import islice

import msgspec

from controller.config import ControllerConfig
from controller.http.scaling_shapes import (
    DecisionListing,
    DecisionView,
    FindingView,
    OperationView,
    OperatorReason,
    PolicyDocument,
    PolicyListing,
    PolicyView,
    ProposalListing,
    ProposalView,
)
from controller.http.scaling_views import ScalingViews, answered
from controller.scaling.watching.proposals import Proposal
from controller.scaling.watching.service import Autoscaler
from controller.scaling.watching.topic_decisions import TopicDecision
from serving.config.stored_config import StoredConfig
from serving.http.views import MetricsText, ViewRequest
from serving.metrics.health import Health


class AutoscalerViews(ScalingViews):
    """One method per path."""

    def __init__(
        self, health: Health, metrics: MetricsText, settings: StoredConfig[ControllerConfig], autoscaler: Autoscaler
    ) -> None:
        super().__init__(health, metrics, settings, autoscaler.scaling)
        self._autoscaler = autoscaler

    def policies(self, _: ViewRequest) -> PolicyListing:
        """Return the policies in force, and where they come from; those of a file every controller knows."""
        source = self._autoscaler.policies
        if not source.is_file:
            self._check_leads()
            source.look_at_store()
        return PolicyListing(
            source=source.source,
            policies=[
                PolicyView(
                    topic=each.topic,
                    min=each.queues_min,
                    max=each.queues_max,
                    step=each.step,
                    cooldown_ms=each.cooldown_ms,
                    window_ms=each.window_ms,
                    behind_ms=each.behind_ms,
                    queue_writes=each.queue_writes_max,
                    broker_writes=each.broker_writes_max,
                    mode=each.mode.value,
                )
                for each in source.table.policies
            ],
            problem=source.problem,
        )

    async def replace_policies(self, request: ViewRequest) -> PolicyListing:
        """Put other policies in force."""
        body: PolicyDocument = request.body
        await answered(self._autoscaler.replace_policies(msgspec.json.encode(body).decode()))
        return self.policies(request)

    def decisions(self, request: ViewRequest) -> DecisionListing:
        """Return the last verdicts on topics with a prefix."""
        self._check_leads()
        found = [each for each in self._autoscaler.decisions() if each.topic.startswith(request.prefix)]
        changes = (each for each in self._autoscaler.changes() if each.topic.startswith(request.prefix))
        return DecisionListing(
            decisions=_views(islice(found, request.page.limit)),
            total=len(found),
            left_out=self._autoscaler.left_out,
            changes=_views(islice(changes, request.page.limit)),
        )

    def proposals(self, _: ViewRequest) -> ProposalListing:
        """Return the proposals that wait for an operator."""
        self._check_leads()
        return ProposalListing(proposals=[_proposal(each) for each in self._autoscaler.proposals()])

    async def approve_proposal(self, request: ViewRequest) -> OperationView:
        """Start a proposed resize."""
        body: OperatorReason = request.body
        return self._view(await answered(self._autoscaler.approve(request.path["id"], body.reason)))

    async def dismiss_proposal(self, request: ViewRequest) -> ProposalView:
        """Give up a proposal."""
        body: OperatorReason = request.body
        return _proposal(await answered(self._dismissed(request.path["id"], body.reason)))

    async def _dismissed(self, proposal_id: str, reason: str) -> Proposal:
        return self._autoscaler.dismiss(proposal_id, reason)


def _views(decisions: Iterable[TopicDecision]) -> list[DecisionView]:
    return [_decision(each) for each in decisions]


def _decision(decision: TopicDecision) -> DecisionView:
    verdict, numbers = decision.verdict, decision.numbers
    return DecisionView(
        topic=decision.topic,
        unix_ms=verdict.unix_ms,
        policy=decision.policy.topic,
        mode=verdict.mode.value,
        outcome=decision.outcome.value,
        queues=verdict.before,
        target=verdict.target,
        reason=verdict.reason,
        problem=decision.problem,
        operation_id=decision.operation_id,
        proposal_id=decision.proposal_id,
        sets=numbers.sets,
        put_tps=numbers.put_tps,
        lag=numbers.lag,
        clients=numbers.clients,
        findings=[
            FindingView(
                kind=each.kind.value,
                subject=each.subject,
                effect=each.effect.value,
                sentence=each.sentence,
                numbers=dict(each.numbers),
            )
            for each in verdict.findings
        ],
    )


def _proposal(proposal: Proposal) -> ProposalView:
    return ProposalView(
        id=proposal.id,
        topic=proposal.topic,
        before=proposal.before,
        target=proposal.target,
        reason=proposal.reason,
        created_unix_ms=proposal.created_unix_ms,
        expires_unix_ms=proposal.expires_unix_ms,
    )
