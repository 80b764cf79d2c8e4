"""What the path about the manager itself answers: whether it leads, whom it follows, what is not stored yet."""

from collections.abc import Callable
from typing import NamedTuple

from offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from offsets.lead import Lead
from offsets.sets.following import Following
from serving.http.paths import get
from serving.http.server_views import check_serving
from serving.http.views import Unavailable
from serving.metrics.health import Health
from serving.shapes.offsets import ManagerView


class StoredOffsets(NamedTuple):
    """What a manager has of the offsets that clients committed to it."""

    offsets: int = 0
    dirty_keys: int = 0
    oldest_dirty_ms: int = 0
    last_flush_error: str = ""


class ManagerViews:
    def __init__(
        self, config: OffsetManagerConfig, lead: Lead, following: Following, stored: Callable[[], StoredOffsets]
    ) -> None:
        self._options = config
        self._lead = lead
        self._following = following
        self._stored = stored

    @get("/v1/manager", refusals=(400,))
    def manager(self) -> ManagerView:
        """Whether this offset manager leads, who tells it the masters, and what the store does not have yet."""
        lead, following, stored = self._lead, self._following, self._stored()
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
            offsets=stored.offsets,
            dirty_keys=stored.dirty_keys,
            oldest_dirty_ms=stored.oldest_dirty_ms,
            last_flush_error=stored.last_flush_error,
        )


def check_ready(health: Health, lead: Lead) -> None:
    """Raise Unavailable unless this manager answers, or another one is known to."""
    check_serving(OFFSET_MANAGER.name, health)
    if lead.role == "loading" or lead.leader is None:
        raise Unavailable("This offset manager is loading, or no offset manager leads at present.")
