"""Routes of topics (105, the busiest request), who fetched them (20105), and the list of all clusters (106).

Answers to `ClientRequestProcessor` (docs/protocol/namesrv.md 2).
"""

from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING

from namesrv.core.cluster_gaps import gaps_of
from namesrv.core.role_addresses.rules import PLAIN
from namesrv.core.route_fetches import KEEP_MS_MAX, KEEP_MS_MIN, WatchedTopic, first_version
from namesrv.core.route_state import RouteState
from namesrv.core.routes import SYNC_BROKER_MEMBER_PREFIX, in_zone
from namesrv.core.values.cooperative import CooperativeTask, run_to_completion
from namesrv.refusals import FieldMissing, KeepInvalid, NotReady, TopicNotExist
from namesrv.settings.durable_settings import DurableSettings
from namesrv.wire.cooperative_runner import CooperativeRunner
from remoting.clock import Clock
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import VERSION_4_9_4
from remoting.protocol.command import RemotingCommand
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.namesrv import ClusterInfoHeader, GetRouteInfoRequestHeader
from remoting.protocol.shapes.route import TopicRouteData
from remoting.protocol.shapes.route_fetches import RouteFetch, WatchedRoute, WatchRouteFetchesHeader
from remoting.server.observer import ConnectionKind, Peer
from remoting.server.response_cache import PreparedResponse

if TYPE_CHECKING:
    from namesrv.core.cold_start import LearnedRoute

    #: Returns the route of a topic with what peers know; takes what returns our own.
    Learn = Callable[[str, Callable[[str], TopicRouteData | None]], Awaitable[LearnedRoute]]


class RouteRequestHandler:
    """Answers from the routes; changes nothing but which topics are watched."""

    def __init__(self, state: RouteState, settings: DurableSettings, clock: Clock, runner: CooperativeRunner) -> None:
        self._state = state
        self._fetches = state.route_fetches
        self._settings = settings
        self._clock = clock
        self._runner = runner
        self._counters = state.route_cache.counts
        self._started_ms = clock.now_ms()
        #: None unless brokers may be missing that peers know; then queries must not be urgent, as answers take a while.
        self.learn: Learn | None = None
        #: Peers listed brokers at the start, so that nobody has to wait until these have registered.
        self.has_learned = False
        #: Returns the digests of all sets' topics; None without peers.
        self.topic_digests: Callable[[], Mapping[str, int]] | None = None
        #: Goes with these digests: a random text of this start.
        self.start_id = ""

    def topic_route(
        self, request: RemotingCommand, peer: Peer
    ) -> RemotingCommand | PreparedResponse | Awaitable[RemotingCommand]:
        """Answer the route of a topic, from the cache if it was queried before; raises NotReady or TopicNotExist."""
        header = decode_fields(GetRouteInfoRequestHeader, request.ext_fields)
        if self._waits_for_brokers():
            self._counters.error += 1
            raise NotReady
        standard = header.accept_standard_json_only or request.version >= VERSION_4_9_4
        dialect = Dialect.STANDARD if standard else Dialect.BARE_INTEGER_KEYS
        topic = header.topic
        zone = (header.zone_name or "").strip() if header.zone_mode else ""
        answer: RemotingCommand | PreparedResponse | None = None
        if topic is not None:
            # A slave that looks for the members of its set needs their own addresses.
            is_of_broker = topic.startswith(SYNC_BROKER_MEMBER_PREFIX)
            audience = PLAIN if is_of_broker else peer.audience
            if self.learn is not None and not (
                is_of_broker or header.registered_only or peer.kind is ConnectionKind.BROKER
            ):
                return self._learned_route(request, peer, self.learn, topic, dialect, zone)
            if zone:
                answer = self._zone_route(request, topic, zone, audience)
            else:
                answer = self._prepared_route(topic, dialect, audience)
        if topic is None or answer is None:
            self._counters.not_found += 1
            raise TopicNotExist(topic)
        watched = self._fetches.get(topic)
        return answer if watched is None else self._watched_answer(request, peer, watched, answer)

    def watch_fetches(self, request: RemotingCommand, peer: Peer) -> RemotingCommand:
        """Watch who fetches a topic's route, or go on; answer who did.

        Raises KeepInvalid, FieldMissing, TooManyWatchedTopics, and TopicNotExist for a topic that is not watched yet.
        """
        header = decode_fields(WatchRouteFetchesHeader, request.ext_fields)
        keep_ms, topic = header.keep_ms, header.topic
        if keep_ms is None or not KEEP_MS_MIN <= keep_ms <= KEEP_MS_MAX:
            raise KeepInvalid(keep_ms, KEEP_MS_MIN, KEEP_MS_MAX)
        if topic is None:
            raise FieldMissing("WATCH_ROUTE_FETCHES", "topic")
        now_ms = self._clock.now_ms()
        self._fetches.end_overdue(now_ms)
        route = self._route_of(topic)
        watched = self._fetches.get(topic) or self._begin_watch(topic, route, now_ms, keep_ms, peer)
        watched.ends_ms = max(watched.ends_ms, now_ms + keep_ms)
        body = WatchedRoute(
            topic=topic,
            watch_id=watched.watch_id,
            watched_since_unix_ms=watched.since_unix_ms,
            watched_before_ms=watched.before_ms,
            ends_in_ms=watched.ends_ms - now_ms,
            present=watched.present,
            is_complete=watched.is_complete,
            fetches=[watched.fetch(each, now_ms) for each in watched.fetches],
        )
        return request.reply(body=encode(body, Dialect.STANDARD))

    def cluster_info(self, request: RemotingCommand, peer: Peer) -> RemotingCommand | Awaitable[RemotingCommand]:
        """Answer all clusters and broker sets with every change up to now, however late the answer leaves."""
        header = decode_fields(ClusterInfoHeader, request.ext_fields)
        steps = self._cluster_info_since(request, self._state.cluster_info.changes, header)
        if header.with_away_broker_sets or self._state.cluster_info.is_long:
            return self._runner.run(steps, peer.id, 0)
        return run_to_completion(steps)

    def _prepared_route(self, topic: str, dialect: Dialect, audience: int) -> PreparedResponse | None:
        cache = self._state.route_cache
        form = dialect if audience == PLAIN else (dialect, audience)
        prepared = cache.get(topic, form)
        if prepared is None and (route := self._route_of(topic)):
            route = self._state.role_addresses.for_audience(route, audience)
            prepared = PreparedResponse(encode(route, dialect), self._counters.found)
            cache.keep(topic, form, prepared)
            cache.misses += 1
        return prepared

    def _begin_watch(
        self, topic: str, route: TopicRouteData | None, now_ms: int, keep_ms: int, peer: Peer
    ) -> WatchedTopic:
        if route is None:
            raise TopicNotExist(topic)
        version = first_version(route, self._clock.unix_ms())
        watched = WatchedTopic(token_hex(8), version, now_ms, keep_ms, peer.network)
        self._fetches.begin(topic, watched)
        # From now on no query for it is answered by its bytes alone.
        self._state.route_cache.drop((topic,))
        return watched

    def _watched_answer(
        self, request: RemotingCommand, peer: Peer, watched: WatchedTopic, answer: RemotingCommand | PreparedResponse
    ) -> RemotingCommand:
        """Note who fetches the route; return the answer as a command, which is not cached by the request's bytes."""
        if not (request.is_oneway or peer.is_lost):
            fetch = RouteFetch(
                client_address=peer.peer,
                proxy_address=peer.socket_peer if peer.socket_peer != peer.peer else None,
                version=watched.present.number,
                fetched_unix_ms=self._clock.unix_ms(),
            )
            self._fetches.note(watched, peer.id, fetch)
        if isinstance(answer, RemotingCommand):
            return answer
        body = answer.body
        self._counters.found.observe(len(body))
        return request.reply(body=body)

    def _zone_route(self, request: RemotingCommand, topic: str, zone: str, audience: int) -> RemotingCommand | None:
        route = self._route_of(topic)
        if route is None:
            return None
        # Java's zone hook encodes the filtered route anew, in its default dialect for everybody.
        route = self._state.role_addresses.for_audience(in_zone(route, zone), audience)
        body = encode(route, Dialect.BARE_INTEGER_KEYS)
        self._counters.found.observe(len(body))
        self._counters.zoned += 1
        return request.reply(body=body)

    async def _learned_route(
        self, request: RemotingCommand, peer: Peer, learn: "Learn", topic: str, dialect: Dialect, zone: str
    ) -> RemotingCommand:
        """Answer a route with what peers know, which is kept nowhere; nor does it count as a fetch of ours."""
        route, _, sets = await learn(topic, self._route_of)
        if route is None:
            self._counters.not_found += 1
            raise TopicNotExist(topic)
        if zone:
            route, dialect = in_zone(route, zone), Dialect.BARE_INTEGER_KEYS
        # Its audience may be another one by now.
        body = encode(self._state.role_addresses.for_audience(route, peer.audience, sets), dialect)
        self._counters.found.observe(len(body))
        self._counters.cold += 1
        self._counters.learned += bool(sets)
        return request.reply(body=body)

    def _route_of(self, topic: str) -> TopicRouteData | None:
        ordered = self._settings.config.order_message_enable
        route = self._state.route_of(topic, self._settings.kv.order_conf(topic) if ordered else None)
        if (watched := self._fetches.get(topic)) is not None:
            watched.observe(route, self._clock.now_ms(), self._clock.unix_ms())
        return route

    def _waits_for_brokers(self) -> bool:
        config = self._settings.config
        if not config.need_wait_for_service or self.has_learned:
            return False
        waited_ms = self._clock.now_ms() - self._started_ms
        return waited_ms < config.wait_for_service_seconds * 1000

    def _cluster_info_since(
        self, request: RemotingCommand, changes: int, header: ClusterInfoHeader
    ) -> CooperativeTask[RemotingCommand]:
        text = yield from self._state.cluster_info.since(changes)
        if header.with_topic_digests and self.topic_digests is not None:
            digests = encode({"startId": self.start_id, "topicDigests": self.topic_digests()}, Dialect.STANDARD)
            text = text[:-1] + b"," + digests[1:]
        if header.with_away_broker_sets:
            to_unix_ms = self._clock.unix_ms() - self._clock.now_ms()
            gaps = yield from gaps_of(self._state, to_unix_ms)
            text = text[:-1] + b"," + encode(gaps, Dialect.STANDARD)[1:]
        return request.reply(body=text)
