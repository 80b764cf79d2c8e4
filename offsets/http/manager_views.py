"""What the path about the manager itself answers: whether it leads, whom it follows, what is not stored yet."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec

from offsets.config import OFFSET_MANAGER, OffsetManagerConfig, StoreKind
from offsets.lead import Lead
from offsets.sets.following import Following
from serving.http.paths import get
from serving.http.server_views import check_serving
from serving.http.views import Unavailable
from serving.metrics.health import Health


class ManagerView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One offset manager."""

    id: str
    #: `host:port` at which clients reach it.
    address: str
    group: str
    role: Literal["leading", "loading", "following"]
    #: Of the manager that leads, this one too; null: no manager is known to.
    leader_address: str | None
    #: Who tells it the masters. `nobody`: neither controllerHttpAddr nor namesrvAddr is set, so it reads no broker and
    #: repairs nothing.
    follows: Literal["controllers", "name_servers", "nobody"]
    #: A controller or NameServer has answered lately.
    masters_known: bool
    #: Broker sets that it follows, and those of them that have a master.
    broker_sets: int
    broker_sets_with_master: int
    store: StoreKind
    #: Offsets that clients committed to it: those it has, and those of them that the store lacks.
    offsets: int
    dirty_keys: int
    oldest_dirty_ms: int
    last_flush_error: str


class StoredOffsets(NamedTuple):
    """What a manager has of the offsets that clients committed to it."""

    offsets: int = 0
    dirty_keys: int = 0
    oldest_dirty_ms: int = 0
    last_flush_error: str = ""


class ManagerViews:
    """The view of the manager itself."""

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
