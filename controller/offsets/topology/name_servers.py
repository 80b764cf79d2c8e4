"""Follows the masters of clusters without a controller at their NameServers, each second, for ever. The edge.

Each round queries all NameServers (106), then the known masters and others that may be masters (28), which take no
place of the known ones. Nobody is waited for long: a peer
that hangs is unknown in this round, and its request ends by itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from controller.offsets.topology.candidates import CandidateTurns
from controller.offsets.topology.rare_reports import RareReports
from controller.offsets.topology.shown_masters import BootTimes, ShownMasters, ShownRound, ShownSets
from controller.offsets.topology.values import SetMaster
from controller.offsets.topology.watch import MastersListener, is_fresh
from remoting.admin.admin_request import left_out
from remoting.admin.brokers import broker_runtime
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.routes import RoutedBrokerSet, registered_and_away
from remoting.background_tasks import all_results, start_task
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, Refused, RemotingError

PERIOD_S: Final = 1.0
#: How long a round waits for its NameServers, and then for its brokers.
ANSWERS_S: Final = 0.5
#: A peer that hangs holds one request under way for this time.
LIMITS: Final = AdminLimits(timeout_ms=2_000, requests_max=256, requests_per_peer_max=1)
#: Brokers that are shown as masters, but not known as such, of which so many are queried at a time.
CANDIDATES_MAX: Final = 256

Found = TypeVar("Found")


class NameServerObserver(Protocol):
    """Learns how the NameServers answer, to log and count it."""

    def name_server_unusable(self, address: str, problem: str) -> None:
        """Report that a NameServer does not answer, or with something else or odd rows; once a minute for each."""


class NameServerParts(NamedTuple):
    """What NameServers are followed with."""

    client: Requester
    masters: ShownMasters
    listener: MastersListener
    observer: NameServerObserver
    clock: Clock


class _PeerQueries(Generic[Found]):
    """One request to each of some peers, of which none is sent twice at a time."""

    def __init__(self, query: Callable[[str], Coroutine[Any, Any, Found]]) -> None:
        self._query = query
        self._under_way: dict[str, asyncio.Task[Found]] = {}

    async def of(self, addresses: Iterable[str]) -> dict[str, Found]:
        """Return what those answer that do within ANSWERS_S, or have answered a request of the round before late."""
        wanted = set(addresses)
        for address in wanted - self._under_way.keys():
            self._under_way[address] = start_task(self._query(address))
        if wanted:
            await asyncio.wait([self._under_way[each] for each in wanted], timeout=ANSWERS_S)
        done = [address for address, task in self._under_way.items() if task.done()]
        found = {address: self._under_way.pop(address) for address in done}
        return {address: task.result() for address, task in found.items() if address in wanted}

    @property
    def under_way(self) -> AbstractSet[str]:
        """Who has not answered yet."""
        return self._under_way.keys()

    def cancel(self) -> None:
        """Send and wait for nothing any more."""
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()


class NameServerWatch:
    """The masters by some NameServers."""

    def __init__(self, name_servers: Sequence[str], parts: NameServerParts) -> None:
        """Take the addresses of all NameServers, `host:port`."""
        self._name_servers = tuple(name_servers)
        self._admin = AdminClient(parts.client, LIMITS)
        self.masters, self._listener, self._observer, self._clock = parts[1:]
        self._reports = RareReports()
        self._shown = _PeerQueries(self._query_sets)
        self._boots = _PeerQueries(partial(self._query_boot, self._admin))
        # Those that hang take no place of known masters.
        self._candidates = _PeerQueries(partial(self._query_boot, AdminClient(parts.client, LIMITS)))
        self._turns = CandidateTurns()
        #: When a NameServer has answered last, monotonic ms; None before.
        self.answered_ms: int | None = None

    def is_fresh(self) -> bool:
        """Return whether a NameServer has answered within FRESH_MS."""
        return is_fresh(self.answered_ms, self._clock)

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set; false without an answer of the last FRESH_MS."""
        return self.is_fresh() and self.masters.is_master(master)

    async def run(self) -> None:
        """Follow for ever."""
        try:
            while True:
                began_ms = self._clock.now_ms()
                await self.look()
                await asyncio.sleep(max(0.0, PERIOD_S - (self._clock.now_ms() - began_ms) / 1000))
        finally:
            self._shown.cancel()
            self._boots.cancel()
            self._candidates.cancel()

    async def look(self) -> None:
        """Query all once, and report what has changed."""
        answered = await self._shown.of(self._name_servers)
        shown = [sets for sets in answered.values() if sets is not None]
        boots = await self._boot_times(shown)
        if shown:
            self.answered_ms = self._clock.now_ms()
        found = ShownRound(shown, boots, self._clock.now_ms(), self._clock.unix_ms())
        if changes := self.masters.take(found):
            self._listener.masters_changed(changes)

    async def _boot_times(self, shown: Sequence[ShownSets]) -> BootTimes:
        candidates = self._turns.next(self.masters.candidates(shown), self._candidates.under_way, CANDIDATES_MAX)
        known = self.masters.known_addresses()
        of_known, of_candidates = await all_results([self._boots.of(known), self._candidates.of(candidates)])
        answers = of_candidates | of_known
        return {address: answer.boot_unix_ms for address, answer in answers.items() if answer is not None}

    async def _query_sets(self, address: str) -> ShownSets | None:
        """Return what a NameServer shows, with sets that are away, without brokers; None if it does not answer."""
        odd_rows: list[str] = []
        try:
            found = await self._admin.call(address, registered_and_away(), odd_rows=odd_rows)
            if odd_rows:
                self._report(address, left_out(odd_rows))
            gone = (found.away or {}).values()
            away = (RoutedBrokerSet(cluster=e.cluster, broker_name=e.broker_name, addresses={}) for e in gone)
            return {each.broker_name: each for each in (*away, *found.broker_sets.values())}
        except RemotingError as error:
            self._report(address, str(error))
            return None

    def _report(self, address: str, problem: str) -> None:
        if self._reports.is_due(address, self._clock.now_ms()):
            self._observer.name_server_unusable(address, problem)

    async def _query_boot(self, admin: AdminClient, address: str) -> "_BootTime | None":
        """Return when a broker has started; None if it does not answer."""
        try:
            return _BootTime((await admin.call(address, broker_runtime())).boot_unix_ms)
        except (Refused, BodyError):
            # It lives: 4.9 refuses in its first second, others where access control keeps us out.
            return _BootTime(None)
        except RemotingError:
            return None


class _BootTime(NamedTuple):
    boot_unix_ms: int | None
