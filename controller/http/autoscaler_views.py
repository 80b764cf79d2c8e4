"""What the HTTP paths of the autoscaler answer, and what they request of it."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from controller.http.scaling_views import TOPIC_PREFIX, answered, check_leads, operation_view
from controller.scaling.watching.decisions import Proposal
from controller.scaling.watching.service import Autoscaler
from controller.scaling.watching.watched_topic import TopicDecision
from serving.http.endpoints import LIMIT, Parameter
from serving.http.paths import get, post, put
from serving.http.views import ViewRequest, view_of
from serving.shapes.scaling import (
    DecisionListing,
    DecisionView,
    OperationView,
    OperatorReason,
    PolicyDocument,
    PolicyListing,
    PolicyView,
    ProposalListing,
    ProposalView,
)
from store.documents import DOCUMENT_BYTES_MAX

_PROPOSAL: Final = Parameter("id", "The id of the proposal.")


class AutoscalerViews:
    """Policies, decisions and proposals of the autoscaler."""

    def __init__(self, autoscaler: Autoscaler) -> None:
        self._autoscaler = autoscaler

    @get("/v1/scaling/policies", refusals=(400, 409, 503))
    def policies(self) -> PolicyListing:
        """The policies of the autoscaler that are in force, and where they come from."""
        # Those of a file every controller knows.
        source = self._autoscaler.policies
        if not source.is_file:
            check_leads(self._autoscaler.scaling)
            source.look_at_store()
        return PolicyListing(
            source=source.source,
            policies=[
                view_of(
                    PolicyView,
                    each,
                    min=each.queues_min,
                    max=each.queues_max,
                    queue_writes=each.queue_writes_max,
                    broker_writes=each.broker_writes_max,
                )
                for each in source.table.policies
            ],
            problem=source.problem,
        )

    @put("/v1/scaling/policies", body_bytes_max=DOCUMENT_BYTES_MAX, refusals=(409, 503, 504))
    async def replace_policies(self, body: PolicyDocument) -> PolicyListing:
        """Replace all policies of the autoscaler; refused while they come from a file."""
        await answered(self._autoscaler.replace_policies(msgspec.json.encode(body).decode()))
        return self.policies()

    @get("/v1/scaling/decisions", parameters=(TOPIC_PREFIX, LIMIT), refusals=(400, 409, 503))
    def decisions(self, request: ViewRequest) -> DecisionListing:
        """What the autoscaler makes of each topic that has a policy, and why; and the last changes of that."""
        check_leads(self._autoscaler.scaling)
        found = [each for each in self._autoscaler.decisions() if each.topic.startswith(request.prefix)]
        changes = (each for each in self._autoscaler.changes() if each.topic.startswith(request.prefix))
        return DecisionListing(
            decisions=_views(islice(found, request.page.limit)),
            total=len(found),
            left_out=self._autoscaler.left_out,
            changes=_views(islice(changes, request.page.limit)),
        )

    @get("/v1/scaling/proposals", refusals=(400, 409, 503))
    def proposals(self) -> ProposalListing:
        """Resizes that wait for an operator, by topic."""
        check_leads(self._autoscaler.scaling)
        return ProposalListing(proposals=[view_of(ProposalView, each) for each in self._autoscaler.proposals()])

    @post("/v1/scaling/proposals/{id}/approve", status=201, parts=(_PROPOSAL,), refusals=(404, 409, 503, 504))
    async def approve_proposal(self, request: ViewRequest, body: OperatorReason) -> OperationView:
        """Start a proposed resize."""
        started = await answered(self._autoscaler.approve(request.path["id"], body.reason))
        return operation_view(self._autoscaler.scaling, started)

    @post("/v1/scaling/proposals/{id}/dismiss", parts=(_PROPOSAL,), refusals=(404, 409, 503))
    async def dismiss_proposal(self, request: ViewRequest, body: OperatorReason) -> ProposalView:
        """Give up a proposal; the same count is not proposed again for a day."""
        return view_of(ProposalView, await answered(self._dismissed(request.path["id"], body.reason)))

    async def _dismissed(self, proposal_id: str, reason: str) -> Proposal:
        return self._autoscaler.dismiss(proposal_id, reason)


def _views(decisions: Iterable[TopicDecision]) -> list[DecisionView]:
    return [_decision(each) for each in decisions]


def _decision(decision: TopicDecision) -> DecisionView:
    verdict, numbers = decision.verdict, decision.numbers
    return view_of(
        DecisionView,
        decision,
        unix_ms=verdict.unix_ms,
        policy=decision.policy.topic,
        mode=verdict.mode,
        queues=verdict.before,
        target=verdict.target,
        reason=verdict.reason,
        sets=numbers.sets,
        put_tps=numbers.put_tps,
        lag=numbers.lag,
        clients=numbers.clients,
        findings=verdict.findings,
    )
