"""Follows the masters of clusters without a controller at their NameServers, each second. The edge.

Each round asks all NameServers (106), then the known masters and other brokers that are shown as masters: when they
started (28), and whether they still answer (26) as long as the connection lives. A round waits for nobody for long: a
peer that hangs is unknown in this round, and its request ends by itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from offsets.sets.following import Following
from offsets.sets.name_server_rules import BootTimes, NameServerSets, ShownSets
from remoting.admin.admin_request import left_out
from remoting.admin.broker_process import BrokerProcess
from remoting.admin.brokers import broker_name
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.routes import RoutedBrokerSet, registered_and_away
from remoting.background_tasks import all_results, start_task
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, Refused, RemotingError
from serving.logging.events import Level
from serving.telemetry.events import Event

PERIOD_S: Final = 1.0
#: How long a round waits for its NameServers, and then for its brokers.
ANSWERS_S: Final = 0.5
#: A peer that hangs holds one request under way for this time.
LIMITS: Final = AdminLimits(timeout_ms=2_000, requests_max=256, requests_per_peer_max=1)

Found = TypeVar("Found")


class NamesrvUnusable(Event, frozen=True, kw_only=True):
    """A NameServer of namesrvAddr does not answer, or sends unreadable rows; logged once a minute for each.

    Such rows are left out (`error` names some).
    """

    level = Level.WARNING
    advice = "Check namesrvAddr, that NameServer, and which brokers registered such rows there."
    addr: str
    error: str


class _Answer(NamedTuple):
    """A broker answered: it lives."""

    boot_unix_ms: int | None


class _PeerQueries(Generic[Found]):
    """One request to each of some peers, of which none is sent twice at a time."""

    def __init__(self, query: Callable[[str], Coroutine[Any, Any, Found | None]]) -> None:
        self._query = query
        self._under_way: dict[str, asyncio.Task[Found | None]] = {}

    async def of(self, addresses: Iterable[str]) -> dict[str, Found]:
        """Return the answers that come within ANSWERS_S, late ones to a request of the round before among them."""
        wanted = set(addresses)
        for address in wanted - self._under_way.keys():
            self._under_way[address] = start_task(self._query(address))
        if wanted:
            await asyncio.wait([self._under_way[address] for address in wanted], timeout=ANSWERS_S)
        ended = {address: task for address, task in self._under_way.items() if task.done()}
        for address in ended:
            del self._under_way[address]
        found = {address: task.result() for address, task in ended.items() if address in wanted}
        return {address: answer for address, answer in found.items() if answer is not None}

    def cancel(self) -> None:
        """Send and wait for nothing any more."""
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()


class NameServerFollowing(Following):
    source = "name_servers"

    def __init__(
        self, name_servers: Sequence[str], client: Requester, clock: Clock, emit: Callable[[Event], None]
    ) -> None:
        """Take the addresses of all NameServers, `host:port`."""
        super().__init__(clock, emit)
        self._name_servers = tuple(name_servers)
        self._table = NameServerSets()
        self.sets = self._table.sets
        self._shown = _PeerQueries(partial(self._query_sets, AdminClient(client, LIMITS)))
        self._known = _PeerQueries(partial(self._query_boot, AdminClient(client, LIMITS)))
        # With limits of their own: any number may be shown, and those that hang take no place of known masters.
        self._candidates = _PeerQueries(partial(self._query_boot, AdminClient(client, LIMITS)))
        #: By address, of the brokers of the last round.
        self._processes: dict[str, BrokerProcess] = {}

    async def run(self) -> None:
        try:
            while True:
                began_ms = self._clock.now_ms()
                await self.look()
                await asyncio.sleep(max(0.0, PERIOD_S - (self._clock.now_ms() - began_ms) / 1000))
        finally:
            for queries in (self._shown, self._known, self._candidates):
                queries.cancel()

    async def look(self) -> None:
        """Ask all of them once, and tell what has changed."""
        shown = [*(await self._shown.of(self._name_servers)).values()]
        boots = await self._boot_times(shown)
        now_ms = self._clock.now_ms()
        if shown:
            self.answered_ms = now_ms
        self.tell(self._table.take(shown, boots, now_ms=now_ms, unix_ms=self._clock.unix_ms()))

    async def _boot_times(self, shown: Sequence[ShownSets]) -> BootTimes:
        known, candidates = self._table.known_masters(), self._table.candidates(shown)
        wanted = known | candidates
        self._processes = {address: found for address, found in self._processes.items() if address in wanted}
        of_known, of_candidates = await all_results([self._known.of(known), self._candidates.of(candidates)])
        return {address: answer.boot_unix_ms for address, answer in (of_candidates | of_known).items()}

    async def _query_sets(self, admin: AdminClient, address: str) -> ShownSets | None:
        """Return what a NameServer shows, sets that are away without brokers; None if it does not answer."""
        odd_rows: list[str] = []
        try:
            found = await admin.call(address, registered_and_away(), odd_rows=odd_rows)
        except RemotingError as error:
            self._warn(address, NamesrvUnusable(addr=address, error=str(error)))
            return None
        if odd_rows:
            self._warn(address, NamesrvUnusable(addr=address, error=left_out(odd_rows)))
        away = {
            gone.broker_name: RoutedBrokerSet(cluster=gone.cluster, broker_name=gone.broker_name, addresses={})
            for gone in found.away.values()
        }
        return away | {shown.broker_name: shown for shown in found.broker_sets.values()}

    async def _query_boot(self, admin: AdminClient, address: str) -> _Answer | None:
        """Return when a broker has started; None if it does not answer."""
        process = self._processes.setdefault(address, BrokerProcess(address))
        known = process.known(admin)
        try:
            if known is not None:
                await admin.call(address, broker_name())
            if known is None or process.known(admin) is not known:
                known = await process.report(admin)
        except (Refused, BodyError):
            # It lives: 4.9 refuses in its first second, others where access control keeps us out.
            known = process.known(admin)
            return _Answer(None if known is None else known.boot_unix_ms)
        except RemotingError:
            return None
        return _Answer(known.boot_unix_ms)
