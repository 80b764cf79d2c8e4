"""Asks other NameServers, ours and Java's alike, what they know of brokers that have not registered here yet.

The rules are in `namesrv/core/cold_start.py`; here are the requests, their limits, and what is told of them.
"""

import asyncio
from collections.abc import Callable, Iterable
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import UNSET

from namesrv.core.cold_start import ColdStart, LearnedRoute
from namesrv.core.peer_views import Difference, Differences, PeerViews, ViewDigests, differences
from namesrv.core.route_state import RouteState
from namesrv.core.values.effects import BrokerRegistered, BrokerRemoved, Event, RegistrationResult, TopicsChangedByAdmin
from namesrv.observability.event_log import NameServerEventLog
from namesrv.observability.log_events import COLD_START_BEGAN, COLD_START_ENDED, PEER_DIFFERS, PEER_IGNORED
from namesrv.refusals import TooManyWaiting
from namesrv.settings.durable_settings import DurableSettings
from namesrv.wire.cooperative_runner import CooperativeRunner
from remoting.admin.admin_request import AdminRequest, Found, check_body_bytes
from remoting.admin.routes import digested_cluster_view, registered_route
from remoting.background_tasks import BackgroundTasks, all_results, start_task
from remoting.client import RemotingClient
from remoting.clock import Clock
from remoting.protocol.addresses import NAME_CHARS_MAX
from remoting.protocol.codes import RequestCode
from remoting.protocol.errors import BodyError, ConnectionRefused, InvokeError, InvokeTimeout, Refused
from remoting.protocol.shapes.route import TopicRouteData

if TYPE_CHECKING:
    from remoting.protocol.shapes.namesrv import ClusterInfo

#: How often the peers are asked which brokers they have.
LOOK_S: Final = 1.0
#: How often it is compared afterwards.
COMPARE_S: Final = 10.0
#: Differences that a line of the log names.
_NAMED_MAX: Final = 5
#: How long a peer may take to answer; clients wait 3 s for theirs.
PEER_TIMEOUT_MS: Final = 1_000
#: A peer's route of a topic is used for so long; a peer that was too late with one is not asked for any for so long.
ROUTE_MS: Final = 1_000
#: One in so many places of the request queue may be taken by queries that wait for peers: the others are for brokers.
WAITING_SHARE: Final = 10
#: Routes that are kept, all bytes of them, and those that are requested at a time; other queries wait for their turn.
ROUTES_MAX: Final = 4_096
ROUTES_BYTES_MAX: Final = 32 * 1024 * 1024
REQUESTS_MAX: Final = 256
#: Longer answers of a peer are not read. A listing of 5,000 broker sets is half a MB.
ROUTE_BYTES_MAX: Final = 1024 * 1024
LISTING_BYTES_MAX: Final = 4 * 1024 * 1024

_FAILURES: Final = (InvokeError, Refused, BodyError)
_LOOK: Final = "look_at_peer"


class _KeptRoutes(NamedTuple):
    """The answers of all peers to a query for one topic, shared by all who ask at the same time."""

    began_ms: int
    task: "asyncio.Task[list[TopicRouteData]]"

    def is_fresh(self, now_ms: int) -> bool:
        return not self.task.done() or now_ms - self.began_ms < ROUTE_MS


class Peers:
    """What the other NameServers know; `begin` runs once, before there are queries, and then `learn`."""

    def __init__(
        self,
        addresses: Iterable[str],
        state: RouteState,
        settings: DurableSettings,
        client: RemotingClient,
        clock: Clock,
        event_log: NameServerEventLog,
        tasks: BackgroundTasks,
    ) -> None:
        self._state = state
        self._settings = settings
        self.client = client
        self._clock = clock
        self._event_log = event_log
        self._tasks = tasks
        #: Our answers have it: an address that leads back here is recognised by it.
        self.start_id = token_hex(8)
        self.cold = ColdStart(state.tables, addresses, clock.now_ms())
        self.views = PeerViews(self.cold, ViewDigests(state.tables), Differences())
        self._runner = CooperativeRunner()
        self._has_begun = False
        #: Lasting differences that were logged.
        self._logged: list[Difference] = []
        self._routes: dict[str, _KeptRoutes] = {}
        self._routes_bytes = 0
        self._places = asyncio.Semaphore(REQUESTS_MAX)
        #: Queries that wait for peers.
        self._waiting = 0
        self._waiting_max = max(1, settings.config.default_thread_pool_queue_capacity // WAITING_SHARE)
        #: Problems that were logged.
        self._told: dict[str, str] = {}
        #: Until when a peer is not asked for routes.
        self._late_until_ms: dict[str, int] = {}

    def record(self, events: Iterable[Event]) -> None:
        """Note which brokers have registered here, and which sets may have changed."""
        for event in events:
            if isinstance(event, BrokerRegistered):
                self.cold.registered(event.broker_name, event.broker_id, self._clock.now_ms())
                if event.result is RegistrationResult.UNCHANGED and not event.master_changed:
                    continue
            if isinstance(event, BrokerRegistered | BrokerRemoved | TopicsChangedByAdmin):
                self.views.digests.changed(event.broker_name)

    async def begin(self) -> None:
        """Take the first look, which lasts until every peer has answered or failed to."""
        away = self._state.away_sets.away()
        self.cold.known = frozenset((known.broker_name, at) for known in away for at in known.broker_addrs.values())
        await self._look()
        self._has_begun = True
        self._event_log.cold_start(COLD_START_BEGAN, peers=self.cold.usable, brokers=self.cold.missing())

    async def learn(self) -> None:
        """Look on until every broker that peers list has registered here, or the time is over."""
        began_ms, why = self._clock.now_ms(), ""
        try:
            while not (why := self.cold.why_over(self._clock.now_ms())):
                await asyncio.sleep(LOOK_S)
                await self._look()
        finally:
            brokers = self.cold.missing()
            self.cold.end()
            self._routes.clear()
            self._event_log.cold_start(
                COLD_START_ENDED,
                reason=why or "stopped",
                brokers=brokers,
                learned_answers=self._state.route_cache.counts.learned,
                duration_ms=self._clock.now_ms() - began_ms,
            )

    async def compare_peers(self) -> None:
        """Follow our own view and, once the start is over, what peers know otherwise, for ever."""
        while True:
            await asyncio.sleep(COMPARE_S)
            await self._runner.run(self.views.digests.update(self._clock.now_ms()), 0, 0)
            if self.cold.is_over:
                await self._look()
                lasting = self.views.differences.lasting(self._clock.now_ms())
                if new := [found for found in lasting if found not in self._logged]:
                    named = [f"{found.peer}: {found.kind} of {found.broker_name}" for found in new[:_NAMED_MAX]]
                    self._event_log.write(PEER_DIFFERS, differences=len(lasting), sample=named)
                self._logged = lasting

    async def route(self, topic: str, own: Callable[[str], TopicRouteData | None]) -> LearnedRoute:
        """Return our route of a topic, as `own` reads it, with what the peers know of missing brokers."""
        answers: list[TopicRouteData] = []
        # No topic has a longer name: those of groups' retries have the longest.
        if self.cold.usable and len(topic) <= NAME_CHARS_MAX:
            if self._waiting >= self._waiting_max:
                raise TooManyWaiting
            self._waiting += 1
            try:
                answers = await self._answers(topic)
            finally:
                self._waiting -= 1
        # Read only now: brokers may have registered meanwhile.
        config, kv = self._settings.config, self._settings.kv
        order_conf = kv.order_conf(topic) if config.order_message_enable else None
        acts = config.support_acting_master
        return self.cold.merged(own(topic), answers, support_acting_master=acts, order_topic_conf=order_conf)

    async def _look(self) -> None:
        await all_results(self._look_at(peer) for peer in list(self.cold.peers))

    async def _look_at(self, peer: str) -> None:
        """Take what a peer lists; a fault of ours is reported, and the next look tries again."""
        await self._tasks.attempt(self._take_listing(peer), _LOOK)

    async def _take_listing(self, peer: str) -> None:
        answer: ClusterInfo | None = None
        try:
            answer = await self._ask(peer, digested_cluster_view())
        except _FAILURES as error:
            self.cold.ignore(peer, str(error))
            if isinstance(error, ConnectionRefused) and not self._has_begun:
                # Perhaps it is this server, whose port is not open yet.
                return
        else:
            if answer.start_id == self.start_id:
                self.cold.drop(peer)
                return
            connection = self.client.connection_number(peer)
            self.cold.take(peer, answer.broker_addr_table, connection, self._clock.now_ms())
        now_ms, problem = self._clock.now_ms(), self.cold.problems.get(peer, "")
        if problem and problem != self._told.get(peer):
            self._event_log.write(PEER_IGNORED, peer=peer, error=problem)
        self._told[peer] = problem
        if not self.cold.is_over:
            return
        if answer is None or peer not in self.cold.usable:
            self.views.differences.put(peer, (), now_ms)
            return
        theirs = {} if answer.topic_digests is UNSET else answer.topic_digests
        found = differences(self._state.tables, self.views.digests.topics(), answer.broker_addr_table, theirs)
        self.views.differences.put(peer, found, now_ms)

    async def _answers(self, topic: str) -> list[TopicRouteData]:
        now_ms = self._clock.now_ms()
        kept = self._routes.get(topic)
        if kept is None or not kept.is_fresh(now_ms):
            if len(self._routes) >= ROUTES_MAX or self._routes_bytes > ROUTES_BYTES_MAX:
                self._routes.clear()
                self._routes_bytes = 0
            kept = self._routes[topic] = _KeptRoutes(now_ms, start_task(self._routes_at_peers(topic)))
        return await asyncio.shield(kept.task)

    async def _routes_at_peers(self, topic: str) -> list[TopicRouteData]:
        async with self._places:
            found = await all_results(self._route_at(peer, topic) for peer in self.cold.usable)
        return [route for route in found if route is not None]

    async def _route_at(self, peer: str, topic: str) -> TopicRouteData | None:
        """Return a peer's route of a topic; None if it has none or fails to answer, which costs no more than that."""
        if self._clock.now_ms() < self._late_until_ms.get(peer, 0):
            return None
        try:
            return await self._ask(peer, registered_route(topic))
        except InvokeTimeout:
            self._late_until_ms[peer] = self._clock.now_ms() + ROUTE_MS
        except _FAILURES:
            # Its listing shows whether it is to be believed, and the log says why not.
            pass
        return None

    async def _ask(self, peer: str, request: AdminRequest[Found]) -> Found:
        answer = await self.client.invoke(peer, request.request, PEER_TIMEOUT_MS)
        if request.request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            check_body_bytes(answer.body, ROUTE_BYTES_MAX)
            self._routes_bytes += len(answer.body)
        else:
            check_body_bytes(answer.body, LISTING_BYTES_MAX)
        return request.read_response(answer)
