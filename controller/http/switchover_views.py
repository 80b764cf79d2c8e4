"""The HTTP paths of switchovers, rolling restarts and callbacks."""

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, TypeVar

from controller.callbacks.pending import UndeliveredChange
from controller.callbacks.service import RoleCallbacks
from controller.config import ControllerConfig
from controller.refusals import NotLeader
from controller.roles.changes import RoleHolder
from controller.switchover.record import Switchover, SwitchoverRequest
from controller.switchover.rolling_restart import RestartPhase, RollingRestart
from controller.switchover.rolling_restarts import RestartNotFound, RestartRefused, RestartRequest, RollingRestarts
from controller.switchover.service import SetNotFound, SwitchoverRefused, Switchovers
from remoting.clock import Clock
from serving.config.callback_target import is_url
from serving.config.stored_config import StoredConfig
from serving.http.pages import with_prefix
from serving.http.paths import LIMIT, Parameter, get, post
from serving.http.views import (
    NotFound,
    StateConflict,
    Unavailable,
    UnprocessableBody,
    ViewRequest,
    requested_page,
    view_of,
)
from serving.shapes.controller import (
    CallbackListing,
    MasterRefView,
    Redelivery,
    RedeliveryRequest,
    RollingRestartView,
    SwitchoverListing,
    SwitchoverView,
    UndeliveredView,
)
from serving.shapes.scaling import OperatorReason
from store.store import DocumentRefused, StoreError

PREFIX: Final = Parameter("prefix", "Only broker sets whose names begin with this.")
_SET: Final = Parameter("name", "The brokerName.")

Answer = TypeVar("Answer")


class SwitchoverViews:
    """Switchovers and rolling restarts."""

    def __init__(self, switchovers: Switchovers, restarts: RollingRestarts) -> None:
        self._switchovers, self._restarts = switchovers, restarts

    @get("/v1/broker-sets/{name}/switchover", parts=(_SET,), refusals=(400, 404))
    def switchover(self, request: ViewRequest) -> SwitchoverView:
        """The running switchover of a set, or the last one since this controller started."""
        name = request.path["name"]
        found = self._switchovers.of_set(name)
        if found is None:
            raise NotFound(f"This controller has started no switchover of {name} since its start.")
        return _switchover(found)

    @post("/v1/broker-sets/{name}/switchover", status=202, parts=(_SET,), refusals=(404, 409))
    async def switch_over(self, request: ViewRequest, body: SwitchoverRequest) -> SwitchoverView:
        """Start a planned switchover: another broker in sync becomes master, without loss."""
        return _switchover(await _answered(self._switchovers.begin(request.path["name"], body)))

    @get("/v1/switchovers", parameters=(PREFIX, LIMIT), refusals=(400,))
    def switchovers(self, request: ViewRequest) -> SwitchoverListing:
        """The last switchovers that this controller started, the newest first."""
        found = (each for each in self._switchovers if each.broker_name.startswith(request.prefix))
        return SwitchoverListing(switchovers=[_switchover(each) for each in islice(found, request.page.limit)])

    @get("/v1/broker-sets/{name}/rolling-restart", parts=(_SET,), refusals=(400, 404, 409, 503))
    async def rolling_restart(self, request: ViewRequest) -> RollingRestartView:
        """The running rolling restart of a set, or the last one."""
        return self._restart(await _answered(self._found(request.path["name"])))

    @post("/v1/broker-sets/{name}/rolling-restart", status=202, parts=(_SET,), refusals=(404, 409, 503))
    async def begin_restart(self, request: ViewRequest, body: RestartRequest) -> RollingRestartView:
        """Start a rolling restart, which names the brokers to restart one by one, the master last."""
        return self._restart(await _answered(self._restarts.begin(request.path["name"], body)))

    @post("/v1/broker-sets/{name}/rolling-restart/abort", parts=(_SET,), refusals=(404, 409, 503))
    async def abort_restart(self, request: ViewRequest, body: OperatorReason) -> RollingRestartView:
        """Abort a rolling restart: no further brokers are named."""
        return self._restart(await _answered(self._restarts.abort(request.path["name"], body.reason)))

    async def _found(self, broker_name: str) -> RollingRestart:
        return self._restarts.find(broker_name)

    def _restart(self, restart: RollingRestart) -> RollingRestartView:
        waits_for = self._restarts.waits_for.get(restart.broker_name, "")
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
        raise StateConflict(f"Only the leading controller changes masters: {error}.") from None
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


class CallbackViews:
    """What `onRoleChange` has not taken; only the leader knows that."""

    def __init__(
        self,
        callbacks: RoleCallbacks | None,
        settings: StoredConfig[ControllerConfig],
        clock: Clock,
        check_leads: Callable[[], None],
    ) -> None:
        """`callbacks` is None if nothing is called; `check_leads` raises HttpRefused."""
        self._callbacks, self._settings = callbacks, settings
        self._clock, self._check_leads = clock, check_leads

    @get("/v1/role-callbacks", parameters=(PREFIX,), paged=True, refusals=(400, 409))
    def role_callbacks(self, request: ViewRequest) -> CallbackListing:
        """Changes of masters that onRoleChange has not accepted yet, with the last error."""
        self._check_leads()
        target = self._settings.config.on_role_change
        waiting = {} if self._callbacks is None else {each.change.broker_name: each for each in self._callbacks.pending}
        page = requested_page(with_prefix(sorted(waiting), request.prefix), request, str)
        to_unix_ms = self._clock.unix_ms() - self._clock.now_ms()
        return CallbackListing(
            target="url" if is_url(target) else "program" if target else "none",
            undelivered=[_undelivered(waiting[name], to_unix_ms) for name in page.keys],
            total=page.total,
            next_cursor=page.next_cursor,
        )

    @post("/v1/role-callbacks/redeliver", refusals=(409, 503))
    def redeliver_callbacks(self, body: RedeliveryRequest) -> Redelivery:
        """Call onRoleChange again for broker sets, with their present masters and epochs."""
        self._check_leads()
        if self._callbacks is None:
            raise StateConflict("Nothing is called: onRoleChange is blank.")
        if not self._callbacks.is_ready:
            raise Unavailable("The delivered changes are being loaded: try again in a second.")
        return Redelivery(broker_sets=self._callbacks.redeliver(body.prefix))


def _undelivered(each: UndeliveredChange, to_unix_ms: int) -> UndeliveredView:
    return UndeliveredView(
        cluster=each.change.cluster,
        broker_name=each.change.broker_name,
        master_epoch=each.change.master_epoch,
        old_master=_master(each.change.old),
        new_master=_master(each.change.new),
        since_unix_ms=each.since_ms + to_unix_ms,
        running=each.is_running,
        failures=each.failures,
        error=each.error,
    )


def _master(master: RoleHolder | None) -> MasterRefView | None:
    return None if master is None else MasterRefView(broker_id=master.broker_id, address=master.address)
