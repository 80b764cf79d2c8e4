"""Queries NameServers and brokers about producers with an old route; where they do not know, a fixed wait counts."""

from collections.abc import Callable, Collection
from typing import Final

from controller.scaling.execution.broker_views import FAILURES
from controller.scaling.resize.observation import StaleProducers
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.rules.producers import LoweredWrites, stale_producers
from remoting.admin.client import AdminClient
from remoting.admin.clients import ProducerClient, producers
from remoting.admin.route_fetches import ClientFetches, host_of, watch_route_fetches
from remoting.background_tasks import all_results

#: A watch lasts so long without another request; the next round prolongs it.
KEEP_MS: Final = 600_000


class ProducerFetches:
    """Watches the routes of topics that are to be resized."""

    def __init__(self, admin: AdminClient, name_servers: Callable[[], tuple[str, ...]]) -> None:
        self._admin = admin
        self._name_servers = name_servers

    async def begin(self, topic: str) -> None:
        """Watch a topic that may be resized: who has which route is known only from then on."""
        await all_results(self._fetches(each, topic) for each in self._name_servers())

    async def stale(self, operation: ResizeOperation, masters: Collection[str]) -> StaleProducers:
        """Return the producers that have not fetched the lowered write numbers."""
        answers = await all_results(self._fetches(each, operation.topic) for each in self._name_servers())
        lowered = LoweredWrites(
            write_queue_nums={each.broker_name: each.target for each in operation.sets},
            fixed_wait_ms=operation.waits.producers_ms,
        )
        return stale_producers(lowered, answers, await self._hosts(masters))

    async def _fetches(self, address: str, topic: str) -> ClientFetches | None:
        try:
            return await self._admin.call(address, watch_route_fetches(topic, KEEP_MS))
        except FAILURES:
            return None

    async def _hosts(self, masters: Collection[str]) -> frozenset[str] | None:
        """Return the hosts of all producers that brokers know; None if a broker does not tell."""
        found = await all_results(self._producers(each) for each in masters)
        answered = [each for each in found if each is not None]
        addresses = [client.remote_address for each in answered for client in each]
        known = [each for each in addresses if each is not None]
        is_everybody = len(answered) == len(found) and len(known) == len(addresses)
        return frozenset(map(host_of, known)) if is_everybody else None

    async def _producers(self, master: str) -> tuple[ProducerClient, ...] | None:
        try:
            return await self._admin.call(master, producers())
        except FAILURES:
            return None
