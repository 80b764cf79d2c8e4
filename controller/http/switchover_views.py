"""What the HTTP paths of switchovers and rolling restarts answer, and what they request of them."""

from collections.abc import Awaitable
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from controller.refusals import NotLeader
from controller.scaling.watching.service import Autoscaler
from controller.switchover.request import SwitchoverRequest
from controller.switchover.rolling_restart import RestartPhase, RollingRestart
from controller.switchover.rolling_restarts import RestartNotFound, RestartRefused, RestartRequest, RollingRestarts
from controller.switchover.service import SetNotFound, SwitchoverRefused, Switchovers
from controller.switchover.switchover import Switchover
from serving.http.endpoints import LIMIT, Parameter
from serving.http.paths import get, post
from serving.http.views import NotFound, StateConflict, Unavailable, UnprocessableBody, ViewRequest, view_of
from serving.shapes.controller import (
    RollingRestartView,
    SwitchoverListing,
    SwitchoverView,
)
from serving.shapes.scaling import OperatorReason
from store.store import DocumentRefused, StoreError

PREFIX: Final = Parameter("prefix", "Only broker sets whose names begin with this.")
_SET: Final = Parameter("name", "The brokerName.")

Answer = TypeVar("Answer")


class PlannedChanges(NamedTuple):
    """What operators plan: resizes of topics, switchovers and restarts of sets."""

    autoscaler: Autoscaler
    switchovers: Switchovers
    restarts: RollingRestarts


class SwitchoverViews:
    """Switchovers and rolling restarts."""

    def __init__(self, planned: PlannedChanges) -> None:
        self._planned = planned

    @get("/v1/broker-sets/{name}/switchover", parts=(_SET,), refusals=(400, 404))
    def switchover(self, request: ViewRequest) -> SwitchoverView:
        """The switchover of a set that is under way, or the last one since this controller started."""
        name = request.path["name"]
        found = self._planned.switchovers.of_set(name)
        if found is None:
            raise NotFound(f"This controller has begun no switchover of {name} since its start.")
        return _switchover(found)

    @post("/v1/broker-sets/{name}/switchover", status=202, parts=(_SET,), refusals=(404, 409))
    async def switch_over(self, request: ViewRequest, body: SwitchoverRequest) -> SwitchoverView:
        """Begin a planned switchover: another broker in sync becomes master, without loss."""
        return _switchover(await _answered(self._planned.switchovers.begin(request.path["name"], body)))

    @get("/v1/switchovers", parameters=(PREFIX, LIMIT), refusals=(400,))
    def switchovers(self, request: ViewRequest) -> SwitchoverListing:
        """The last switchovers that this controller has begun, the newest first."""
        found = (each for each in self._planned.switchovers if each.broker_name.startswith(request.prefix))
        return SwitchoverListing(switchovers=[_switchover(each) for each in islice(found, request.page.limit)])

    @get("/v1/broker-sets/{name}/rolling-restart", parts=(_SET,), refusals=(400, 404, 409, 503))
    async def rolling_restart(self, request: ViewRequest) -> RollingRestartView:
        """The rolling restart of a set that is under way, or the last one."""
        return self._restart(await _answered(self._found(request.path["name"])))

    @post("/v1/broker-sets/{name}/rolling-restart", status=202, parts=(_SET,), refusals=(404, 409, 503))
    async def begin_restart(self, request: ViewRequest, body: RestartRequest) -> RollingRestartView:
        """Begin a rolling restart: it names each broker when it may be restarted, the master last."""
        return self._restart(await _answered(self._planned.restarts.begin(request.path["name"], body)))

    @post("/v1/broker-sets/{name}/rolling-restart/abort", parts=(_SET,), refusals=(404, 409, 503))
    async def abort_restart(self, request: ViewRequest, body: OperatorReason) -> RollingRestartView:
        """Abort a rolling restart: no more brokers are named."""
        return self._restart(await _answered(self._planned.restarts.abort(request.path["name"], body.reason)))

    async def _found(self, broker_name: str) -> RollingRestart:
        return self._planned.restarts.find(broker_name)

    def _restart(self, restart: RollingRestart) -> RollingRestartView:
        waits_for = self._planned.restarts.waits_for.get(restart.broker_name, "")
        return view_of(
            RollingRestartView,
            restart,
            restart_now=restart.broker_id if restart.phase is RestartPhase.RESTART else None,
            waits_for="" if restart.has_ended else waits_for,
            broker_ids=restart.brokers,
        )


async def _answered(work: Awaitable[Answer]) -> Answer:
    """Return the result of a request, or raise its refusal with the status that it has."""
    try:
        return await work
    except NotLeader as error:
        raise StateConflict(f"Only the controller that leads changes masters: {error}.") from None
    except (SwitchoverRefused, RestartRefused) as error:
        raise StateConflict(_sentence(error)) from None
    except (SetNotFound, RestartNotFound) as error:
        raise NotFound(_sentence(error)) from None
    except DocumentRefused as error:
        raise UnprocessableBody(_sentence(error)) from None
    except StoreError as error:
        raise Unavailable(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    # It may begin with the name of a set, which stays as it is.
    return f"{error}."


def _switchover(switchover: Switchover) -> SwitchoverView:
    return view_of(
        SwitchoverView,
        switchover,
        held_ms=switchover.held_for_ms if switchover.is_held else None,
        requested_by=switchover.request.requested_by,
        reason=switchover.request.reason,
    )
