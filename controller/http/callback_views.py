"""What the HTTP paths of callbacks answer."""

from collections.abc import Callable

from controller.callbacks.pending import UndeliveredChange
from controller.callbacks.service import RoleCallbacks
from controller.config import ControllerConfig
from controller.http.switchover_views import PREFIX
from controller.roles.changes import RoleHolder
from remoting.clock import Clock
from serving.config.callback_target import is_url
from serving.config.stored_config import StoredConfig
from serving.http.pages import with_prefix
from serving.http.paths import get, post
from serving.http.views import StateConflict, Unavailable, ViewRequest, requested_page
from serving.shapes.controller import (
    CallbackListing,
    MasterRefView,
    Redelivery,
    RedeliveryRequest,
    UndeliveredView,
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
        """Changes of masters that onRoleChange has not taken, and why its last call failed."""
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
        """Call onRoleChange once more for sets, with their present masters and epochs."""
        self._check_leads()
        if self._callbacks is None:
            raise StateConflict("Nothing is called: onRoleChange is blank.")
        if not self._callbacks.is_ready:
            raise Unavailable("What was delivered is being loaded: try again in a second.")
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
