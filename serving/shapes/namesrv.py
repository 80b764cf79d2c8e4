"""Bodies of the HTTP answers of a NameServer, and the data of the events that watchers get (docs/route-watch.md)."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from remoting.protocol.shapes.broker_sets import AwayBrokerSet, LostTopics
from remoting.protocol.shapes.route import BrokerData, DataVersion, TopicRouteData
from remoting.protocol.shapes.route_fetches import RouteFetch, RouteVersion


class TopicCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Topics by kind."""

    normal: int
    system: int
    retry: int
    dlq: int


class ListedCluster(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One cluster with its numbers."""

    cluster: str
    broker_sets: int
    #: Sets that have no master, whether or not a slave acts for it.
    broker_sets_without_master: int
    #: Sets that were registered before, and of which no broker is now; in none of the other numbers.
    away_broker_sets: int
    masters: int
    slaves: int
    topics: TopicCounts
    #: Summed over all topics and broker sets.
    read_queues: int
    write_queues: int


class ListedBroker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One live broker."""

    cluster: str
    broker_name: str
    broker_id: int
    role: Literal["master", "slave"]
    #: It acts for a missing master.
    acting_master: bool
    zone_name: str | None
    address: str
    ha_server_address: str
    #: Since its last registration or heartbeat.
    last_heartbeat_age_ms: int
    #: It expires after so long without a heartbeat.
    heartbeat_timeout_ms: int
    #: Release, `unknown` for one before 4.0.0 or after 5.9.9.
    version: str
    data_version: DataVersion
    #: A slave that still lacks topics of its master, though it should have copied them: it would become master without.
    lacks_topics: bool
    #: How many topics its set's routes have and this master does not since it is the master; see /v1/brokers/{name}.
    lost_topics: int


class BrokerSetDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A master and its slaves under one broker name."""

    broker_name: str
    cluster: str
    state: Literal["master", "no_master", "acting_master"]
    enable_acting_master: bool
    zone_name: str | None
    topics: int
    read_queues: int
    write_queues: int
    #: Topics in routes that its master does not have since it is the master; null if there are none.
    lost_topics: LostTopics | None
    brokers: list[ListedBroker]


class ListedTopic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One topic; its queues are in its route."""

    topic: str
    kind: Literal["normal", "system", "retry", "dlq"]
    #: How many broker sets have it.
    broker_sets: int


class ListedKvNamespace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One KV namespace."""

    namespace: str
    entries: int


class ListedKvEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One KV entry."""

    key: str
    value: str


class Listing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of a list, sorted."""

    #: Items there are, on this page or not.
    total: int
    #: Pass it as `cursor` for the next page; null on the last one.
    next_cursor: str | None


class ClusterListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """Clusters by name."""

    items: list[ListedCluster]


class BrokerListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """Brokers by cluster, name and id."""

    items: list[ListedBroker]


class AwaySetListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """Sets without a registered broker, by name. It is unknown which topics only they have."""

    items: list[AwayBrokerSet]


class DroppedAwaySet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An away broker set that was forgotten."""

    broker_name: str


class TopicListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """Topics by name."""

    items: list[ListedTopic]


class RouteFetchListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """Clients that fetched the route of a watched topic, by address; one item per connection."""

    topic: str
    #: Of this watch in this process: another one means that fetches in between are not known.
    watch_id: str
    watched_since_unix_ms: int
    ends_in_ms: int
    present: RouteVersion
    #: False if fetches were left out because there were too many connections.
    is_complete: bool
    items: list[RouteFetch]


class ListedAddressCheck(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Results of the checks of one role address."""

    #: For which it stands; 0 for the master.
    broker_id: int
    address: str
    #: waiting: no broker is registered for which it stands. refused: it did not lead there. Peers get neither.
    #: in_force: it led there. failing: it has not for 15 s or more. Peers get both.
    state: Literal["waiting", "refused", "in_force", "failing"]
    #: What the last check found wrong; null if nothing was, and before the first one.
    problem: str | None
    #: When the last check ended; null before the first one.
    checked_unix_ms: int | None


class ListedRoleAddress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One rule of role addresses, as the file gives it."""

    #: Name of a broker set, or a pattern of names.
    set: str
    #: Peers of these networks get it; an empty list for everybody.
    networks: list[str]
    #: What stands for broker id 0; null for the master's own address.
    master: str | None
    #: Broker id -> what stands for it.
    slaves: dict[int, str]
    slaves_omitted: bool
    controller_mode: bool
    hold_ms: int
    #: Its addresses are given to peers only once they led to their brokers.
    verify: bool
    #: In the file, from 1.
    line: int | None
    #: Why it is not applied, or not with all of its addresses; null if it is.
    problem: str | None
    #: Of its addresses; none with `verify = false`.
    checks: list[ListedAddressCheck]


class RoleAddressListing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rules of role addresses that are in force."""

    #: The same for rules that say the same; null without a file.
    digest: str | None
    #: Path of the file (roleAddressFile); null without one.
    source: str | None
    #: What is wrong with the newest text of the file, so that the rules before it are in force; null if nothing is.
    problem: str | None
    rules: list[ListedRoleAddress]


class KvNamespaceListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """KV namespaces by name."""

    items: list[ListedKvNamespace]


class KvListing(Listing, frozen=True, kw_only=True, rename="camel"):
    """Entries of one KV namespace by key; a page ends early at 1 MiB."""

    items: list[ListedKvEntry]


class RouteWatchEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `route`: the route of a watched topic."""

    topic: str
    #: As /v1/topics/{topic}/route has it; null if no broker has the topic.
    route: msgspec.Raw
    #: When it became so; null if that was before the server followed the topic.
    changed_unix_ms: int | None
    #: The id of the event; null while more of the present routes follow.
    id: str | None


class WatchGapEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `gap`: changes may be missing, and the present routes follow."""

    reason: str
    topics: list[str]


class ClusterWatchEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `broker`: what happened to a broker, and its set afterwards."""

    #: registered, masterChanged, or why it left: request, timeout, channel_closed, superseded, conflict.
    change: str
    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    #: The set as it is now; null if no broker of it is left.
    broker_set: BrokerData | None
    changed_unix_ms: int
    id: str


class ClusterWatchStart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `cluster`: changes after this one follow; /v1/brokers has what there is."""

    brokers: int
    broker_sets: int
    id: str | None


class ClusterWatchGap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `gap`: changes may be missing; read /v1/brokers again."""

    reason: str


class TopicRouteView(TopicRouteData, frozen=True, kw_only=True, rename="camel"):
    """The route of a topic; after a start, with what was learned from peers."""

    #: Broker name -> the peer of whom brokers of the set were learned that have not registered here since the start.
    learned_from: dict[str, str] | UnsetType = UNSET


class PeerDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker set of which a peer has known something else than this server for a minute."""

    cluster: str
    broker_name: str
    kind: Literal["brokers", "topics"]


class ListedPeer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Another NameServer."""

    address: str
    #: Why it is ignored; null if it is not.
    problem: str | None
    #: Null while it is ignored: nobody knows.
    differences: list[PeerDifference] | None


class ClusterView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What this server knows of a cluster, in a number: the same at servers that know the same."""

    cluster: str
    digest: str
    #: Since when it is this one.
    age_ms: int


class PeerListing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The other NameServers, and our own view."""

    #: Clients get brokers that peers know and that have not registered here since the start.
    is_cold: bool
    #: How many those are; null if no peer says.
    missing_brokers: int | None
    #: Empty without peers.
    clusters: list[ClusterView]
    peers: list[ListedPeer]
