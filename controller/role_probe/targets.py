"""Where the probe sends: the sets with its topic, by the route that a client in its place gets."""

from collections.abc import Callable
from typing import Final, NamedTuple

from remoting.admin.client import AdminClient
from remoting.admin.routes import TopicRoute, route_of
from remoting.protocol.errors import BodyError, InvokeError, Refused

#: How old a route may be: clients query it this often.
ROUTE_MS: Final = 30_000
#: How soon it is queried again where no NameServer has it.
ROUTE_AGAIN_MS: Final = 5_000
#: Sets that are probed; each is a connection and some requests a second.
PROBED_SETS_MAX: Final = 200
#: Permission bit of a topic that takes messages.
_PERM_WRITE: Final = 2


class ProbeTarget(NamedTuple):
    """A set that is probed."""

    cluster: str
    #: Of broker id 0, which may be a role address; None while the route has no master.
    address: str | None


class ProbeTargets:
    """The sets that have the topic."""

    def __init__(
        self, admin: AdminClient, topic: str, name_servers: Callable[[], tuple[str, ...]], now_ms: Callable[[], int]
    ) -> None:
        self._admin, self._topic, self._name_servers, self._now_ms = admin, topic, name_servers, now_ms
        #: By broker name, in the order of names.
        self.sets: dict[str, ProbeTarget] = {}
        #: Sets with the topic beyond PROBED_SETS_MAX.
        self.left_out = 0
        self._due_ms: int | None = None

    def clear(self) -> None:
        """Forget the route: another controller leads."""
        self.sets, self.left_out, self._due_ms = {}, 0, None

    async def look(self) -> str:
        """Query the route if it is old; returns why there is none, blank if there is one or it is not old.

        Without any answer the last route counts, as for clients.
        """
        if self._due_ms is not None and self._now_ms() < self._due_ms:
            return ""
        problem = "no NameServer is configured: set roleProbeNamesrvAddr or namesrvAddr"
        for address in self._name_servers():
            try:
                self._take(await self._admin.call(address, route_of(self._topic)))
            except (InvokeError, Refused, BodyError) as error:
                problem = f"{address}: {error}"
            else:
                self._due_ms = self._now_ms() + ROUTE_MS
                return "" if self.sets else f"{address}: no broker takes messages of {self._topic}"
        self._due_ms = self._now_ms() + ROUTE_AGAIN_MS
        return problem

    def _take(self, route: TopicRoute) -> None:
        names = sorted(name for name, queues in route.queues.items() if queues.perm & _PERM_WRITE)
        known = {name: route.broker_sets.get(name) for name in names[:PROBED_SETS_MAX]}
        self.left_out = max(0, len(names) - PROBED_SETS_MAX)
        self.sets = {
            name: ProbeTarget(each.cluster, each.master_address) for name, each in known.items() if each is not None
        }
