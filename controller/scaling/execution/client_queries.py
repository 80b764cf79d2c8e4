"""Queries clients, through their brokers, about what they consume (307): a limited number, and no silent one at once.

Old clients and those behind a proxy never answer. Each request to one that hangs keeps a thread of its broker for 10 s.
"""

from typing import Final

from remoting.admin.client import AdminClient
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, NotSent, Refused

#: How long a client that did not answer is not queried again.
SILENT_MS: Final = 60_000
#: Silent clients that are remembered.
SILENT_MAX: Final = 10_000


class ClientQueries:
    """Queries clients of all groups, with turns of their own: clients that hang hold up no other requests."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        #: (broker, group, client id) -> when it is queried again, monotonic.
        self._silent_until_ms: dict[tuple[str, str, str], int] = {}

    async def running(self, master: str, group: str, client_id: str) -> RunningConsumer | None:
        """Return what a client consumes, by the broker at "host:port"; None is unknown."""
        client = (master, group, client_id)
        if self._silent_until_ms.get(client, 0) > self._clock.now_ms():
            return None
        try:
            found = await self._admin.call(master, running_consumer(group, client_id))
        except NotSent:
            return None
        except InvokeError:
            self._keep_silent(client)
            return None
        except (Refused, BodyError):
            return None
        self._silent_until_ms.pop(client, None)
        return found

    def _keep_silent(self, client: tuple[str, str, str]) -> None:
        if len(self._silent_until_ms) >= SILENT_MAX:
            self._silent_until_ms.clear()
        self._silent_until_ms[client] = self._clock.now_ms() + SILENT_MS
