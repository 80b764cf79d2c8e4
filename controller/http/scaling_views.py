"""The HTTP paths of queue scaling and of the autoscaler."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Final

import msgspec

from controller.config import ControllerConfig
from controller.refusals import NotLeader
from controller.scaling.execution.operations import OperationExists, OperationMoved
from controller.scaling.execution.service import OperationUnknown, QueueScaling, ResizeRefused
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.rules.commands import ResizeCommandRefused
from controller.scaling.watching.decisions import ProposalUnknown
from controller.scaling.watching.policy_source import PolicyFileDecides
from controller.scaling.watching.service import Autoscaler
from controller.scaling.watching.watched_topic import TopicDecision
from serving.config.stored_config import StoredConfig
from serving.config.table_documents import TablesRefused
from serving.http.paths import LIMIT, Parameter, get, post, put
from serving.http.views import (
    HttpRefused,
    NotFound,
    StateConflict,
    Unavailable,
    UnprocessableBody,
    ViewRequest,
    view_of,
)
from serving.shapes.scaling import (
    DecisionListing,
    DecisionView,
    GivenUpSet,
    OperationListing,
    OperationView,
    OperatorReason,
    PolicyDocument,
    PolicyListing,
    PolicyView,
    ProposalListing,
    ProposalView,
    ResizeCommand,
    ResizedSetView,
    ResizePhase,
    ResizePlan,
    ResizeRequest,
    WaivedGroup,
)
from store.documents import DOCUMENT_BYTES_MAX
from store.store import DocumentRefused, OutcomeUnknown, StoreError

TOPIC_PREFIX: Final = Parameter("prefix", "Only topics whose names begin with this.")
_OPERATION: Final = Parameter("id", "The id of the operation.")


class ControllerFollows(StateConflict):
    """Another controller knows the operations, or none does."""

    code = "not_leader"

    def __init__(self, error: NotLeader) -> None:
        super().__init__(f"Only the leading controller knows and changes operations: {error}.")


class MayBeStored(HttpRefused):
    """Nobody knows whether the store has the change."""

    status = 504
    code = "outcome_unknown"

    def __init__(self, error: OutcomeUnknown) -> None:
        super().__init__(f"The outcome is unknown: {error}. Check the present state before you repeat the request.")


class ScalingViews:
    """Resizes of topics, and what operators do with them."""

    def __init__(self, scaling: QueueScaling, settings: StoredConfig[ControllerConfig]) -> None:
        self._scaling = scaling
        self._settings = settings

    @get("/v1/scaling/operations", parameters=(TOPIC_PREFIX, LIMIT), refusals=(400, 409, 503))
    def operations(self, request: ViewRequest) -> OperationListing:
        """Resizes of topics: running ones by topic, then ended ones, the newest first."""
        check_leads(self._scaling)
        stored = self._scaling.operations
        under_way = [each for each in stored.under_way() if each.topic.startswith(request.prefix)]
        ended = [each for each in stored.ended() if each.topic.startswith(request.prefix)]
        # Of the others no more is known than what the list is sorted and filtered by.
        shown = (stored.find_ended(each.id) for each in ended)
        found = (each for each in chain(under_way, shown) if each is not None)
        return OperationListing(
            operations=[self._view(each) for each in islice(found, request.page.limit)],
            total=len(under_way) + len(ended),
            problems=stored.problems(),
        )

    @get("/v1/scaling/operations/{id}", parts=(_OPERATION,), refusals=(400, 404, 409, 503))
    def operation(self, request: ViewRequest) -> OperationView:
        """One resize: its phase, what it waits for, and the evidence of each phase."""
        with refusals():
            self._scaling.check_leads()
            return self._view(self._scaling.find(request.path["id"]))

    @post("/v1/scaling/plan", refusals=(409,))
    async def plan(self, body: ResizeRequest) -> ResizePlan:
        """Plan a resize: what it would do, how long it takes at least, and what prevents it. Changes nothing."""
        self._check_configured()
        with refusals():
            return await self._scaling.plan(body)

    @post("/v1/scaling/operations", status=201, refusals=(409, 503, 504))
    async def start(self, body: ResizeRequest) -> OperationView:
        """Start a resize of a topic."""
        self._check_configured()
        with refusals():
            return self._view(await self._scaling.start(body))

    @post("/v1/scaling/operations/{id}/abort", parts=(_OPERATION,), refusals=(404, 409, 503, 504))
    async def abort(self, request: ViewRequest, body: ResizeCommand) -> OperationView:
        """Undo a resize; its steps show what remains."""
        with refusals():
            return self._view(await self._scaling.abort(request.path["id"], body.reason, is_dry_run=body.dry_run))

    @post("/v1/scaling/operations/{id}/resume", parts=(_OPERATION,), refusals=(404, 409, 503, 504))
    async def resume(self, request: ViewRequest, body: ResizeCommand) -> OperationView:
        """Resume a resize that is BLOCKED or in CONFLICT."""
        with refusals():
            return self._view(await self._scaling.resume(request.path["id"], body.reason, is_dry_run=body.dry_run))

    @post("/v1/scaling/operations/{id}/waive", parts=(_OPERATION,), refusals=(404, 409, 503, 504))
    async def waive(self, request: ViewRequest, body: WaivedGroup) -> OperationView:
        """Give up the messages that a group has not consumed in queues that a resize drops."""
        with refusals():
            return self._view(await self._scaling.waive(request.path["id"], body.group, is_dry_run=body.dry_run))

    @post("/v1/scaling/operations/{id}/give-up", parts=(_OPERATION,), refusals=(404, 409, 503, 504))
    async def give_up(self, request: ViewRequest, body: GivenUpSet) -> OperationView:
        """Continue a resize without a broker set that no longer has the topic."""
        why = f"{body.requested_by or 'an operator'}{': ' if body.reason else ''}{body.reason}"
        with refusals():
            return self._view(
                await self._scaling.give_up(request.path["id"], body.broker_name, why, is_dry_run=body.dry_run)
            )

    def _check_configured(self) -> None:
        if not self._settings.config.namesrv_addr:
            raise StateConflict("Queue scaling is off: set namesrvAddr to the addresses of all NameServers.")

    def _view(self, operation: ResizeOperation) -> OperationView:
        return operation_view(self._scaling, operation)


def check_leads(scaling: QueueScaling) -> None:
    """Raise StateConflict on a controller that does not know the operations."""
    with refusals():
        scaling.check_leads()


def operation_view(scaling: QueueScaling, operation: ResizeOperation) -> OperationView:
    """Return what is shown of an operation."""
    status = scaling.runner.status_of(operation)
    operation = operation.requested
    return view_of(
        OperationView,
        operation,
        is_undone=operation.ends_as is ResizePhase.ABORTED,
        waits_for=status.waits_for,
        observed_unix_ms=status.observed_unix_ms,
        waited_ms=status.waited_ms,
        sets=[
            view_of(
                ResizedSetView,
                each,
                read_before=each.before.read,
                write_before=each.before.write,
                perm_before=each.before.perm,
            )
            for each in operation.sets
        ],
    )


@contextmanager
def refusals() -> Iterator[None]:
    """Refuse a request with the status of what it raises."""
    try:
        yield
    except NotLeader as error:
        raise ControllerFollows(error) from None
    except (OperationExists, OperationMoved, ResizeCommandRefused, PolicyFileDecides) as error:
        raise StateConflict(_sentence(error)) from None
    except (OperationUnknown, ProposalUnknown) as error:
        raise NotFound(_sentence(error)) from None
    except (ResizeRefused, DocumentRefused, TablesRefused) as error:
        raise UnprocessableBody(_sentence(error)) from None
    except OutcomeUnknown as error:
        raise MayBeStored(error) from None
    except StoreError as error:
        raise Unavailable(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    # It may begin with the name of a topic, a group or an operation, which stays as it is.
    text = str(error)
    return text if text.endswith(".") else f"{text}."


_PROPOSAL: Final = Parameter("id", "The id of the proposal.")


class AutoscalerViews:
    """Policies, decisions and proposals of the autoscaler."""

    def __init__(self, autoscaler: Autoscaler) -> None:
        self._autoscaler = autoscaler

    @get("/v1/scaling/policies", refusals=(400, 409, 503))
    def policies(self) -> PolicyListing:
        """The autoscaler's policies in force, and their source."""
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
        """Replace all policies of the autoscaler; refused if they come from a file."""
        with refusals():
            self._autoscaler.scaling.check_leads()
            await self._autoscaler.policies.replace(msgspec.json.encode(body).decode())
        return self.policies()

    @get("/v1/scaling/decisions", parameters=(TOPIC_PREFIX, LIMIT), refusals=(400, 409, 503))
    def decisions(self, request: ViewRequest) -> DecisionListing:
        """The autoscaler's verdict on each topic with a policy, with reasons and the last changes."""
        check_leads(self._autoscaler.scaling)
        found = [each for each in self._autoscaler.decisions() if each.topic.startswith(request.prefix)]
        changes = (each for each in reversed(self._autoscaler.decided.changes) if each.topic.startswith(request.prefix))
        return DecisionListing(
            decisions=[_decision(each) for each in islice(found, request.page.limit)],
            total=len(found),
            left_out=self._autoscaler.names.left_out,
            changes=[_decision(each) for each in islice(changes, request.page.limit)],
        )

    @get("/v1/scaling/proposals", refusals=(400, 409, 503))
    def proposals(self) -> ProposalListing:
        """Resizes that wait for an operator, by topic."""
        check_leads(self._autoscaler.scaling)
        return ProposalListing(proposals=[view_of(ProposalView, each) for each in self._autoscaler.proposals()])

    @post("/v1/scaling/proposals/{id}/approve", status=201, parts=(_PROPOSAL,), refusals=(404, 409, 503, 504))
    async def approve_proposal(self, request: ViewRequest, body: OperatorReason) -> OperationView:
        """Start a proposed resize."""
        with refusals():
            started = await self._autoscaler.approve(request.path["id"], body.reason)
            return operation_view(self._autoscaler.scaling, started)

    @post("/v1/scaling/proposals/{id}/dismiss", parts=(_PROPOSAL,), refusals=(404, 409, 503))
    async def dismiss_proposal(self, request: ViewRequest, body: OperatorReason) -> ProposalView:
        """Dismiss a proposal; the same count is not proposed again for a day."""
        with refusals():
            self._autoscaler.scaling.check_leads()
            return view_of(ProposalView, self._autoscaler.decided.dismiss(request.path["id"], body.reason))


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
