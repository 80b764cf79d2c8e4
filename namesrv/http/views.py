"""The response of each HTTP path, as values: views read the state, change nothing, and know no web server.

No view walks topics or queues beyond one page: the loop that runs them serves brokers and clients.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from msgspec import structs

from namesrv.core import cluster_summary
from namesrv.core.cluster_gaps import lacks_topics, lost_topics
from namesrv.core.cluster_summary import BrokerRole, ClusterSummary, SetLeadership
from namesrv.core.role_addresses.checks import AddressCheck
from namesrv.core.role_addresses.rules import RoleAddressRule
from namesrv.core.role_addresses.state import RoleAddresses
from namesrv.core.route_fetches import version_after
from namesrv.core.route_state import RouteState
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.tables.topic_table import TopicTable
from namesrv.http.watch_streams import WatchStream
from namesrv.http.watches import Watches, plain_route, plain_route_text
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.clock import Clock
from remoting.protocol.addresses import host_and_port
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.route import MASTER_ID, TopicRouteData
from remoting.protocol.topic_kinds import kind_of
from serving.http.history_views import HistoryReader, PastLifeViews, PastRouteViews
from serving.http.pages import PageRequest, page_of, sorted_in_turns, with_prefix
from serving.http.paths import EVENT_STREAM_TYPE, TEXT_TYPE, Parameter, delete, get
from serving.http.server_views import ConfigViews, ProbeViews, check_serving
from serving.http.views import HttpRefused, NotFound, ViewRequest, requested_page, view_of
from serving.metrics.health import Health, Serving
from serving.metrics.label_values import release_of
from serving.shapes import namesrv as shapes

if TYPE_CHECKING:
    from namesrv.core.peer_views import PeerViews

#: A page of KV entries ends when their values have this many characters.
KV_PAGE_CHARS_MAX: Final = 1024 * 1024

_NAME: Final = Parameter("name", "The brokerName.")
_PREFIX: Final = Parameter("prefix", "Only topics that begin with this.")
_TOPIC: Final = Parameter("topic", "Name of the topic, percent-encoded: %25RETRY%25group for a retry topic.")
_WATCHED_TOPIC: Final = Parameter(
    "topic",
    "Name of a topic, known or unknown; repeat it for each topic.",
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
    is_repeated=True,
)
_AFTER: Final = Parameter("after", "Id of the last event read; later ones follow. Same as Last-Event-ID.")

_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


def views_of(
    state: RouteState,
    settings: DurableSettings,
    health: Health,
    clock: Clock,
    watches: Watches,
    served_at: tuple[str, int],
    metrics: Callable[[], Awaitable[bytes]],
    routes: RouteRequestHandler,
    peers: "PeerViews | None" = None,
) -> tuple[object, ...]:
    """Return what answers all paths, in the order in which they are described; peers are served at `served_at`."""

    def config() -> NameServerConfig:
        return settings.config

    history = HistoryReader()
    return (
        ProbeViews(lambda: check_serving(NAMESRV.name, health), metrics),
        NameServerViews(state, settings, health, clock, watches, routes),
        PeersViews(peers, clock),
        PastRouteViews(history, config),
        PastLifeViews(history, config),
        ConfigViews(NAMESRV, config),
        LookupViews(config, health, served_at),
    )


class NameServerViews:
    """What is registered."""

    def __init__(
        self,
        state: RouteState,
        settings: DurableSettings,
        health: Health,
        clock: Clock,
        watches: Watches,
        routes: RouteRequestHandler,
    ) -> None:
        self._state = state
        self._settings = settings
        self._health = health
        self._clock = clock
        self._watches = watches
        self._routes = routes
        self._tables = state.tables
        self._topic_names = TopicNames(self._tables.topics)
        self._runner = CooperativeRunner()

    @get("/v1/clusters", paged=True, refusals=(400,))
    async def clusters(self, request: ViewRequest) -> shapes.ClusterListing:
        """Clusters with their numbers of broker sets, brokers, topics and queues."""
        numbers = await self._runner.run(cluster_summary.clusters(self._state), 0, 0)
        away = self._state.away_sets.counts()
        page = requested_page(sorted(numbers.keys() | away), request, str)
        items = [_listed_cluster(name, numbers.get(name) or ClusterSummary(), away[name]) for name in page.keys]
        return shapes.ClusterListing(total=page.total, next_cursor=page.next_cursor, items=items)

    @get("/v1/brokers", parameters=(Parameter("brokerName", "Only brokers of this set."),), paged=True, refusals=(400,))
    async def brokers(self, request: ViewRequest) -> shapes.BrokerListing:
        """Live brokers."""
        brokers, wanted = self._tables.brokers, request.query.get("brokerName")
        members = [
            (member.cluster, broker_set.broker_name, broker_id)
            for broker_set in (brokers.sets() if wanted is None else filter(None, [brokers.get(wanted)]))
            for broker_id, member in broker_set.members.items()
        ]
        page = requested_page(await sorted_in_turns(members), request, tuple[str, str, int])
        # Brokers come and go while others are served in between.
        present = [(broker_set, i) for _, name, i in page.keys if (broker_set := brokers.get(name))]
        items = [self._listed_broker(broker_set, i) for broker_set, i in present if i in broker_set.members]
        return shapes.BrokerListing(total=page.total, next_cursor=page.next_cursor, items=items)

    @get("/v1/brokers/{name}", parts=(_NAME,), refusals=(400, 404))
    def broker_set(self, request: ViewRequest) -> shapes.BrokerSetDetails:
        """One broker set."""
        name = request.path["name"]
        broker_set = self._tables.brokers.get(name)
        if broker_set is None:
            is_away = name in self._state.away_sets
            raise NotFound(
                f"No broker named {name} is registered{' now: see /v1/broker-sets/away' if is_away else ''}."
            )
        topics = self._tables.topics
        sums, clock = topics.queue_sum(name), self._clock
        return shapes.BrokerSetDetails(
            broker_name=name,
            cluster=broker_set.cluster,
            state=cluster_summary.state_of(broker_set).value,
            enable_acting_master=broker_set.enable_acting_master,
            zone_name=broker_set.zone_name,
            topics=len(topics.of_broker(name)),
            read_queues=sums.read,
            write_queues=sums.write,
            lost_topics=lost_topics(self._state, name, clock.unix_ms() - clock.now_ms()),
            brokers=[self._listed_broker(broker_set, broker_id) for broker_id in sorted(broker_set.members)],
        )

    @get("/v1/broker-sets/away", paged=True, refusals=(400,))
    def away_sets(self, request: ViewRequest) -> shapes.AwaySetListing:
        """Broker sets whose brokers have all gone; at most 1,000."""
        away = {each.broker_name: each for each in self._state.away_sets.away()}
        page = requested_page(list(away), request, str)
        items = [away[name] for name in page.keys]
        return shapes.AwaySetListing(total=page.total, next_cursor=page.next_cursor, items=items)

    @delete("/v1/broker-sets/away/{name}", parts=(_NAME,), refusals=(404,))
    def forget_away_set(self, request: ViewRequest) -> shapes.DroppedAwaySet:
        """Forget a broker set that will not return."""
        name = request.path["name"]
        if not self._state.away_sets.forget(name):
            raise NotFound(f"No broker set named {name} is away.")
        return shapes.DroppedAwaySet(broker_name=name)

    @get("/v1/topics", parameters=(_PREFIX,), paged=True, refusals=(400,))
    async def topics(self, request: ViewRequest) -> shapes.TopicListing:
        """Topics."""
        names = with_prefix(await self._topic_names.names(), request.prefix)
        page = requested_page(names, request, str)
        owners = set(self._tables.brokers.topic_owners())
        items = [
            shapes.ListedTopic(
                topic=topic, kind=kind_of(topic, owners).value, broker_sets=len(self._tables.topics.holders_of(topic))
            )
            for topic in page.keys
        ]
        return shapes.TopicListing(total=page.total, next_cursor=page.next_cursor, items=items)

    @get("/v1/topics/{topic}/route", answer=shapes.TopicRouteView, parts=(_TOPIC,), refusals=(400, 404))
    async def route(self, request: ViewRequest) -> bytes:
        """The route of a topic for a client without a zone, always with the brokers' own addresses."""
        topic = request.path["topic"]
        learned = await self._routes.learn(topic, self._route_of) if self._routes.learn is not None else None
        if learned is not None and learned.route is not None and learned.learned_from:
            parts = structs.asdict(learned.route)
            return encode(shapes.TopicRouteView(**parts, learned_from=dict(learned.learned_from)), Dialect.STANDARD)
        route = plain_route_text(self._state, self._settings, topic)
        if route is None:
            may_be_away = "; sets that are away may have it, see /v1/broker-sets/away"
            raise NotFound(f"No registered broker has the topic {topic}{may_be_away if self._state.away_sets else ''}.")
        return route

    @get(
        "/v1/routes/watch",
        content_type=EVENT_STREAM_TYPE,
        parameters=(_WATCHED_TOPIC, _AFTER),
        refusals=(400, 503),
        streams=True,
    )
    def watch_routes(self, request: ViewRequest) -> WatchStream:
        """Server-sent events: the routes of topics, now and at each change."""
        check_serving(NAMESRV.name, self._health)
        topics = tuple(request.repeated["topic"])
        return self._watches.routes.watch(topics, _event_id_before(request), request.client)

    @get("/v1/cluster/watch", content_type=EVENT_STREAM_TYPE, parameters=(_AFTER,), refusals=(400, 503), streams=True)
    def watch_cluster(self, request: ViewRequest) -> WatchStream:
        """Server-sent events: registrations, departures and new masters; /v1/brokers lists the present brokers."""
        check_serving(NAMESRV.name, self._health)
        return self._watches.cluster.watch(_event_id_before(request), request.client)

    @get("/v1/topics/{topic}/route-fetches", parts=(_TOPIC,), paged=True, refusals=(400, 404))
    def route_fetches(self, request: ViewRequest) -> shapes.RouteFetchListing:
        """Clients that fetched the route of a watched topic (20105), and whether it was the present route."""
        topic, now_ms = request.path["topic"], self._clock.now_ms()
        watched = self._state.route_fetches.get(topic)
        if watched is None or watched.ends_ms < now_ms:
            raise NotFound(
                f"The route fetches of {topic} are not watched; start with request 20105 (WATCH_ROUTE_FETCHES)."
            )
        keys = sorted((fetch.client_address, "", number) for number, fetch in watched.fetches.items())
        page = requested_page(keys, request, tuple[str, str, int])
        return shapes.RouteFetchListing(
            total=page.total,
            next_cursor=page.next_cursor,
            topic=topic,
            watch_id=watched.watch_id,
            watched_since_unix_ms=watched.since_unix_ms,
            ends_in_ms=watched.ends_ms - now_ms,
            present=version_after(watched.present, self._route_of(topic), self._clock.unix_ms()),
            is_complete=watched.is_complete,
            items=[watched.fetch(key[2], now_ms) for key in page.keys],
        )

    @get("/v1/role-addresses", refusals=(400,))
    def role_addresses(self) -> shapes.RoleAddressListing:
        """Role address rules in force (roleAddressFile), their digest, and the problem of the newest file, if any."""
        found = self._state.role_addresses
        return shapes.RoleAddressListing(
            digest=found.rules.digest if found.source else None,
            source=found.source or None,
            problem=found.problem or None,
            rules=[_listed_role_address(rule, found) for rule in found.rules.rules],
        )

    @get("/v1/kv", paged=True, refusals=(400,))
    def kv_namespaces(self, request: ViewRequest) -> shapes.KvNamespaceListing:
        """KV namespaces."""
        table = self._settings.kv.table
        page = requested_page(sorted(table), request, str)
        items = [shapes.ListedKvNamespace(namespace=name, entries=len(table[name])) for name in page.keys]
        return shapes.KvNamespaceListing(total=page.total, next_cursor=page.next_cursor, items=items)

    @get(
        "/v1/kv/{namespace}", parts=(Parameter("namespace", "Name of the namespace."),), paged=True, refusals=(400, 404)
    )
    async def kv_entries(self, request: ViewRequest) -> shapes.KvListing:
        """Entries of a KV namespace."""
        namespace = request.path["namespace"]
        entries = self._settings.kv.namespace(namespace)
        if entries is None:
            raise NotFound(f"There is no KV namespace {namespace}.")
        entries = dict(entries)
        keys = await sorted_in_turns(entries)
        page = requested_page(keys, request, str)
        sizes = accumulate(len(key) + len(entries[key]) for key in page.keys)
        fitting = sum(size <= KV_PAGE_CHARS_MAX for size in sizes)
        if fitting < len(page.keys):
            shorter = PageRequest(max(fitting, 1), request.page.cursor)
            page = page_of(keys, shorter, str)
        items = [shapes.ListedKvEntry(key=key, value=entries[key]) for key in page.keys]
        return shapes.KvListing(total=page.total, next_cursor=page.next_cursor, items=items)

    def _route_of(self, topic: str) -> TopicRouteData | None:
        return plain_route(self._state, self._settings, topic)

    def _listed_broker(self, broker_set: RegisteredSet, broker_id: int) -> shapes.ListedBroker:
        member = broker_set.members[broker_id]
        row = self._tables.live.get(LiveKey(broker_set.broker_name, member.address))
        assert row is not None, "every member has a live row"
        lost = self._state.lost_topics.of(broker_set.broker_name)
        return shapes.ListedBroker(
            cluster=member.cluster,
            broker_name=broker_set.broker_name,
            broker_id=broker_id,
            role=cluster_summary.role_of(broker_id).value,
            acting_master=broker_set.has_acting_master and broker_id == broker_set.min_broker_id,
            zone_name=broker_set.zone_name,
            address=member.address,
            ha_server_address=row.ha_server_addr,
            last_heartbeat_age_ms=self._clock.now_ms() - row.last_heartbeat_ms,
            heartbeat_timeout_ms=row.timeout_ms,
            version=release_of(row.version),
            data_version=row.data_version,
            lacks_topics=lacks_topics(self._tables, broker_set, member),
            lost_topics=len(lost.topics) if lost is not None and broker_id == MASTER_ID else 0,
        )


class PeersViews:
    """What other NameServers know otherwise."""

    def __init__(self, peers: "PeerViews | None", clock: Clock) -> None:
        self._peers = peers
        self._clock = clock

    @get("/v1/peers", refusals=(400,))
    def peers(self) -> shapes.PeerListing:
        """Other NameServers (`peers`), what they have known otherwise for a minute, and digests of our own view."""
        if self._peers is None:
            return shapes.PeerListing(is_cold=False, missing_brokers=None, clusters=[], peers=[])
        cold, now_ms = self._peers.cold, self._clock.now_ms()
        lasting = defaultdict[str, list[shapes.PeerDifference]](list)
        for difference in self._peers.differences.lasting(now_ms):
            lasting[difference.peer].append(view_of(shapes.PeerDifference, difference))
        return shapes.PeerListing(
            is_cold=not cold.is_over,
            missing_brokers=cold.missing() if cold.usable else None,
            clusters=[
                shapes.ClusterView(cluster=name, digest=f"{view.digest:012x}", age_ms=now_ms - view.since_ms)
                for name, view in sorted(self._peers.digests.clusters.items())
            ],
            peers=[
                shapes.ListedPeer(
                    address=peer,
                    problem=(problem := cold.problems.get(peer)),
                    differences=None if problem else lasting[peer],
                )
                for peer in cold.peers
            ],
        )


class LookupViews:
    """What Java clients look up."""

    def __init__(self, config: Callable[[], NameServerConfig], health: Health, served_at: tuple[str, int]) -> None:
        self._config = config
        self._health = health
        self._served_at = served_at

    @get("/rocketmq/nsaddr", content_type=TEXT_TYPE, parameters=None, refusals=(400, 503), is_lookup=True)
    def nsaddr(self, request: ViewRequest) -> str:
        """NameServers for clients that look them up: namesrvAddrList, or this server under the requested host.

        Refused while starting or draining, and never with an empty list: a Java client (DefaultTopAddressing) keeps
        the addresses it has after an error as well as after a blank answer, but a load balancer turns to another member
        only after an error. The error needs a body, without one that client fails with a NullPointerException.
        """
        if self._health.serving is not Serving.WAITING:
            check_serving(NAMESRV.name, self._health)
        if addresses := self._config().namesrv_addr_list:
            return addresses
        bound, port = self._served_at
        host = _host_of(request.host) if bound in _ANY_ADDRESS else bound
        return host_and_port(host, port)

    @get(
        "/rocketmq/nsaddr-{unit}",
        content_type=TEXT_TYPE,
        parameters=None,
        parts=(Parameter("unit", "The unitName of the client."),),
        refusals=(400, 503),
        is_lookup=True,
    )
    def nsaddr_of_unit(self, request: ViewRequest) -> str:
        """The same for clients with a unit name; every unit gets the same NameServers."""
        return self.nsaddr(request)


class TopicNames:
    """The sorted names of a topic table; sorted again only after a topic was added or removed."""

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self._names: list[str] = []
        self._version = -1
        self._sorting = asyncio.Lock()

    async def names(self) -> Sequence[str]:
        """Return the sorted names; not to be changed."""
        async with self._sorting:
            if self._version != self._topics.names_version:
                version = self._topics.names_version
                self._names = await sorted_in_turns(self._topics.topics())
                self._version = version
            return self._names


def _listed_cluster(name: str, numbers: ClusterSummary, away: int) -> shapes.ListedCluster:
    return shapes.ListedCluster(
        cluster=name,
        broker_sets=sum(numbers.sets.values()),
        broker_sets_without_master=numbers.sets[SetLeadership.NO_MASTER] + numbers.sets[SetLeadership.ACTING_MASTER],
        away_broker_sets=away,
        masters=numbers.brokers[BrokerRole.MASTER],
        slaves=numbers.brokers[BrokerRole.SLAVE],
        topics=shapes.TopicCounts(**{kind.value: count for kind, count in numbers.topics.items()}),
        read_queues=numbers.read_queues,
        write_queues=numbers.write_queues,
    )


def _listed_role_address(rule: RoleAddressRule, state: RoleAddresses) -> shapes.ListedRoleAddress:
    return shapes.ListedRoleAddress(
        set=rule.set_name,
        networks=[str(network) for network in rule.networks],
        master=rule.master,
        slaves=dict(rule.slaves.by_id),
        slaves_omitted=rule.slaves.are_omitted,
        controller_mode=rule.controller_mode,
        hold_ms=rule.hold_ms,
        verify=rule.is_verified,
        line=rule.line,
        problem=state.why_not_applied(rule) or None,
        checks=[_listed_address_check(check) for check in state.checks.of_rule(rule)],
    )


def _listed_address_check(check: AddressCheck) -> shapes.ListedAddressCheck:
    return view_of(
        shapes.ListedAddressCheck,
        check,
        broker_id=check.use.broker_id,
        address=check.use.address,
        problem=check.problem or None,
    )


def _event_id_before(request: ViewRequest) -> str:
    """Return the id after which events are wanted; a client that connects again by itself sends the later one."""
    return request.last_event_id or request.query.get("after", "")


def _host_of(header: str) -> str:
    """Return the host of a Host header without its port; refuses what could not stand in a list of addresses."""
    match = _HOST.fullmatch(header)
    if match is None:
        raise HttpRefused("The Host header must be a name or an address, with or without a port.")
    return match[1].strip("[]")
