"""What the manager tells of itself: whether it leads, whom it follows, what is not stored yet."""

from offsets.commits.service import OffsetService
from offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from offsets.lead import Lead
from offsets.sets.following import Following
from serving.http.paths import get
from serving.http.server_views import check_serving
from serving.http.views import Unavailable
from serving.metrics.health import Health
from serving.shapes.offsets import ManagerView


class ManagerViews:
    def __init__(self, config: OffsetManagerConfig, lead: Lead, following: Following, commits: OffsetService) -> None:
        self._options, self._lead, self._following, self._commits = config, lead, following, commits

    @get("/v1/manager", refusals=(400,))
    def manager(self) -> ManagerView:
        """This offset manager: its role, its source of masters, and what the store lacks."""
        lead, following, store = self._lead, self._following, self._commits.store
        return ManagerView(
            id=lead.me.id,
            address=lead.me.address,
            group=self._options.manager_group,
            role=lead.role,
            leader_address=None if lead.leader is None else lead.leader.address,
            follows=following.source,
            masters_known=following.is_fresh(),
            broker_sets=len(following.sets),
            broker_sets_with_master=sum(1 for _ in following.masters()),
            store=self._options.store,
            offsets=self._commits.table.count,
            dirty_keys=store.dirty_keys,
            oldest_dirty_ms=store.oldest_dirty_ms,
            last_flush_error=store.last_error,
        )


def check_ready(health: Health, lead: Lead) -> None:
    """Raise Unavailable unless this manager answers, or another one is known to."""
    check_serving(OFFSET_MANAGER.name, health)
    if lead.role == "loading" or lead.leader is None:
        raise Unavailable("This offset manager is loading, or no offset manager leads at present.")
