"""The views of one offset manager: those of itself, and the parts beside them, each of which has paths of its own."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from controller.offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from controller.offsets.http import shapes
from controller.offsets.http.guard_views import GuardViews
from controller.offsets.http.holder_views import HolderPages
from controller.offsets.http.lock_views import LockViews
from controller.offsets.http.mirror_views import MirrorViews
from controller.offsets.http.restore_views import RestoreViews
from controller.offsets.http.views import OffsetViews
from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.service.offset_service import OffsetService
from controller.offsets.storage.write_behind import WriteBehind
from serving.http.endpoints import View
from serving.http.views import MetricsText, PresentConfig, ServerViews, Unavailable, ViewRequest
from serving.metrics.health import Health
from store.store import ControllerMember

Part = TypeVar("Part")


class ViewParts(NamedTuple):
    """What answers the paths of each subject."""

    offsets: OffsetViews
    restores: RestoreViews
    locks: LockViews
    holders: HolderPages
    mirror: MirrorViews
    guard: GuardViews


class ShownManager(NamedTuple):
    """What is shown of the manager itself."""

    me: ControllerMember
    settings: PresentConfig[OffsetManagerConfig]
    service: OffsetService
    store: WriteBehind


class ManagerViews(ServerViews[OffsetManagerConfig]):
    """The views of any server, and of the manager itself."""

    def __init__(self, health: Health, metrics: MetricsText, manager: ShownManager, parts: ViewParts) -> None:
        super().__init__(OFFSET_MANAGER, health, metrics, manager.settings)
        self._manager = manager
        self.parts = parts

    @property
    def _role(self) -> ManagerRole:
        return self._manager.service.role

    def check_ready(self) -> None:
        """Raise Unavailable unless this manager answers, or another one is known to."""
        super().check_ready()
        if not self._role.is_serving and self._role.leader is None:
            raise Unavailable("This offset manager is loading, or no offset manager leads at present.")

    def manager(self, _: ViewRequest) -> shapes.ManagerView:
        """Return whether this manager leads, and what it has."""
        role, (me, settings, service, store) = self._role, self._manager
        leader = me if role.is_leading else role.leader
        return shapes.ManagerView(
            id=me.id,
            address=me.address,
            group=settings.config.manager_group,
            role="leading" if role.is_serving else "loading" if role.is_leading else "following",
            leader_address=leader.address if leader is not None else None,
            store=settings.config.store,
            offsets=service.table.count,
            dirty_keys=store.dirty_keys,
            oldest_dirty_ms=store.oldest_age_ms,
            last_flush_error=store.last_error,
        )


def of_part(
    part: Callable[[ViewParts], Part],
) -> Callable[[Callable[[Part, ViewRequest], Any | Awaitable[Any]]], View]:
    """Return what makes a view of the manager of one of a part's views."""

    def of(view: Callable[[Part, ViewRequest], Any | Awaitable[Any]]) -> View:
        def found(views: ManagerViews, request: ViewRequest) -> Any | Awaitable[Any]:
            return view(part(views.parts), request)

        return found

    return of
