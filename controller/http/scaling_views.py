"""What the HTTP paths of queue scaling answer, and what they request of it."""

from collections.abc import Awaitable
from itertools import chain, islice
from typing import TypeVar

from controller.config import CONTROLLER, ControllerConfig
from controller.http.scaling_shapes import (
    FinishedStepView,
    GivenUpSet,
    OperationListing,
    OperationView,
    ResizeCommand,
    ResizedSetView,
    WaivedGroup,
)
from controller.refusals import NotLeader
from controller.scaling.execution.operations import OperationExists, OperationMoved
from controller.scaling.execution.service import OperationUnknown, QueueScaling, ResizeRefused
from controller.scaling.resize.operation import ResizeOperation, ResizePhase
from controller.scaling.resize.request import ResizePlan
from controller.scaling.rules.commands import ResizeCommandRefused
from controller.scaling.watching.policy_source import PolicyFileDecides
from controller.scaling.watching.proposals import ProposalUnknown
from serving.config.stored_config import StoredConfig
from serving.config.table_documents import TablesRefused
from serving.http.history_views import HistoryViews
from serving.http.views import (
    HttpRefused,
    MetricsText,
    NotFound,
    StateConflict,
    Unavailable,
    UnprocessableBody,
    ViewRequest,
)
from serving.metrics.health import Health
from store.store import DocumentRefused, OutcomeUnknown, StoreError

Answer = TypeVar("Answer")


class ControllerFollows(StateConflict):
    """Another controller knows the operations, or none does."""

    code = "not_leader"

    def __init__(self, error: NotLeader) -> None:
        super().__init__(f"Only the controller that leads knows and changes operations: {error}.")


class MayBeStored(HttpRefused):
    """Nobody knows whether the store has the change."""

    status = 504
    code = "outcome_unknown"

    def __init__(self, error: OutcomeUnknown) -> None:
        super().__init__(
            f"It is not known whether this is done: {error}. Look at what there is now before you repeat it."
        )


class ScalingViews(HistoryViews[ControllerConfig]):
    """One method per path."""

    def __init__(
        self, health: Health, metrics: MetricsText, settings: StoredConfig[ControllerConfig], scaling: QueueScaling
    ) -> None:
        super().__init__(CONTROLLER, health, metrics, settings)
        self._scaling = scaling

    def operations(self, request: ViewRequest) -> OperationListing:
        """Return operations under way and ended ones, of topics with a prefix."""
        self._check_leads()
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

    def operation(self, request: ViewRequest) -> OperationView:
        """Return one operation."""
        self._check_leads()
        try:
            return self._view(self._scaling.find(request.path["id"]))
        except OperationUnknown as error:
            raise NotFound(_sentence(error)) from None

    async def plan(self, request: ViewRequest) -> ResizePlan:
        """Return what a resize would do; nothing is changed."""
        self._check_configured()
        return await answered(self._scaling.plan(request.body))

    async def start(self, request: ViewRequest) -> OperationView:
        """Start a resize."""
        self._check_configured()
        return self._view(await answered(self._scaling.start(request.body)))

    async def abort(self, request: ViewRequest) -> OperationView:
        """Undo a resize."""
        body: ResizeCommand = request.body
        done = self._scaling.abort(request.path["id"], body.reason, is_dry_run=body.dry_run)
        return self._view(await answered(done))

    async def resume(self, request: ViewRequest) -> OperationView:
        """Go on with a resize that waits for an operator."""
        body: ResizeCommand = request.body
        done = self._scaling.resume(request.path["id"], body.reason, is_dry_run=body.dry_run)
        return self._view(await answered(done))

    async def waive(self, request: ViewRequest) -> OperationView:
        """Give up what a group has not consumed."""
        body: WaivedGroup = request.body
        done = self._scaling.waive(request.path["id"], body.group, is_dry_run=body.dry_run)
        return self._view(await answered(done))

    async def give_up(self, request: ViewRequest) -> OperationView:
        """Go on without a broker set."""
        body: GivenUpSet = request.body
        why = f"{body.requested_by or 'an operator'}{': ' if body.reason else ''}{body.reason}"
        done = self._scaling.give_up(request.path["id"], body.broker_name, why, is_dry_run=body.dry_run)
        return self._view(await answered(done))

    def _check_configured(self) -> None:
        if not self._settings.config.namesrv_addr:
            raise StateConflict("Queue scaling is off: set namesrvAddr to the addresses of all NameServers.")

    def _check_leads(self) -> None:
        """Raise StateConflict on a controller that does not know the operations."""
        try:
            self._scaling.check_leads()
        except NotLeader as error:
            raise ControllerFollows(error) from None
        except StoreError as error:
            raise Unavailable(_sentence(error)) from None

    def _view(self, operation: ResizeOperation) -> OperationView:
        status = self._scaling.statuses.get(operation.id)
        if status is not None and not status.is_of(operation):
            # The first round of this phase has not ended.
            status = None
        operation = operation.requested
        return OperationView(
            id=operation.id,
            topic=operation.topic,
            kind=operation.kind.value,
            phase=operation.phase.value,
            resume_phase=operation.resume_phase.value if operation.resume_phase is not None else None,
            phase_since_unix_ms=operation.phase_since_unix_ms,
            created_unix_ms=operation.created_unix_ms,
            requested_by=operation.requested_by,
            reason=operation.reason,
            is_undone=operation.ends_as is ResizePhase.ABORTED,
            problem=operation.problem,
            waits_for=list(status.waits_for) if status is not None else [],
            observed_unix_ms=status.observed_unix_ms if status is not None else None,
            waited_ms=status.waited_ms if status is not None else operation.waited_ms,
            reopened=operation.reopened,
            sets=[
                ResizedSetView(
                    broker_name=each.broker_name,
                    cluster=each.cluster,
                    read_before=each.before.read,
                    write_before=each.before.write,
                    perm_before=each.before.perm,
                    target=each.target,
                )
                for each in operation.sets
            ],
            waits=operation.waits,
            options=operation.options,
            steps=[
                FinishedStepView(
                    phase=each.phase.value,
                    began_unix_ms=each.began_unix_ms,
                    ended_unix_ms=each.ended_unix_ms,
                    evidence=list(each.evidence),
                )
                for each in operation.steps
            ],
        )


async def answered(work: Awaitable[Answer]) -> Answer:
    """Return the result of a request, or raise its refusal with the status that it has."""
    try:
        return await work
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
