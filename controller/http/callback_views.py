"""What the HTTP path of callbacks answers: reads, changes nothing."""

from controller.callbacks.pending import UndeliveredChange
from controller.callbacks.service import RoleCallbacks
from controller.http.callback_shapes import CallbackListing, MasterRefView, UndeliveredView
from controller.roles.changes import RoleHolder
from remoting.clock import Clock
from serving.config.callback_target import is_url
from serving.http.pages import with_prefix
from serving.http.views import ViewRequest, requested_page


def callback_listing(
    callbacks: RoleCallbacks | None, target: str, clock: Clock, request: ViewRequest
) -> CallbackListing:
    """Return a page of the changes that were not delivered; `target` is the value of onRoleChange."""
    waiting = {} if callbacks is None else {each.change.broker_name: each for each in callbacks.pending}
    page = requested_page(with_prefix(sorted(waiting), request.prefix), request, str)
    to_unix_ms = clock.unix_ms() - clock.now_ms()
    kind = "url" if is_url(target) else "program" if target else "none"
    return CallbackListing(
        target=kind,
        undelivered=[_undelivered(waiting[name], to_unix_ms) for name in page.keys],
        total=page.total,
        next_cursor=page.next_cursor,
    )


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
