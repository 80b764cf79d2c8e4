"""Requests to NameServers: routes, clusters, and the order configuration of topics. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, reading
from remoting.admin.name_servers import delete_kv, kv_value, put_kv
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_sets import AwayBrokerSet, LostTopics, StaleReplica
from remoting.protocol.shapes.namesrv import (
    ORDER_TOPIC_CONFIG,
    ClusterInfo,
    ClusterInfoHeader,
    GetRouteInfoRequestHeader,
    TopicList,
)
from remoting.protocol.shapes.route import MASTER_ID, BrokerData, QueueData, TopicRouteData


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedBrokerSet:
    """The living members of a broker set."""

    cluster: str
    broker_name: str
    #: By broker id.
    addresses: Mapping[int, str]

    @property
    def master_address(self) -> str | None:
        """The address of the master, or of the slave that acts for it; None while there is none."""
        return self.addresses.get(MASTER_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoute:
    """Where a topic is, as one NameServer knows it."""

    #: By broker name; a set can be here without being in `broker_sets`, and the other way round.
    queues: Mapping[str, QueueData]
    #: By broker name.
    broker_sets: Mapping[str, RoutedBrokerSet]
    #: `broker-a:4;broker-b:4` of an order topic.
    order_conf: str | None
    #: Names of sets with logical queues: those of a static topic.
    static_broker_names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaySet:
    """A broker set of which no broker is registered now."""

    cluster: str
    broker_name: str
    #: None: nobody knows.
    away_since_unix_ms: int | None
    #: It was registered before the NameServer started, a minute ago at most.
    is_starting: bool = False
    #: Its last broker unregistered itself, as it does when it is stopped.
    was_unregistered: bool = False
    #: By broker id: where they were last.
    broker_addrs: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBrokers:
    """All broker sets that one NameServer knows."""

    #: By broker name.
    broker_sets: Mapping[str, RoutedBrokerSet]
    #: Cluster -> names of its broker sets.
    clusters: Mapping[str, frozenset[str]]
    #: Sets that it had, and of which no broker is registered now, by broker name; Java's remembers none.
    #: NameServers that agree differ in the moments.
    away: Mapping[str, AwaySet] = field(default_factory=dict, compare=False)
    #: Of NameServers of ours, by broker name: topics that routes have and the master does not.
    lost_topics: Mapping[str, LostTopics] = field(default_factory=dict, compare=False)
    #: As above, by address: slaves that have not copied the newest topics of their master.
    stale_replicas: Mapping[str, StaleReplica] = field(default_factory=dict, compare=False)

    @property
    def topic_owners(self) -> frozenset[str]:
        """Names of clusters and broker sets, which system topics have too."""
        return frozenset((*self.clusters, *self.broker_sets))


def route_of(topic: str) -> AdminRequest[TopicRoute]:
    """Request the route of a topic (105); raises Refused with code 17 if no broker has it.

    Source: docs/protocol/namesrv.md 2.10.
    """
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    return AdminRequest(command(RequestCode.GET_ROUTEINFO_BY_TOPIC, header), _read_route)


def cluster_brokers() -> AdminRequest[ClusterBrokers]:
    """Request all broker sets (106). Source: docs/protocol/namesrv.md 2.11."""
    return AdminRequest(command(RequestCode.GET_BROKER_CLUSTER_INFO), _read_cluster)


def registered_and_away() -> AdminRequest[ClusterBrokers]:
    """Request the same with the sets that are away, which NameServers of ours remember."""
    request = command(RequestCode.GET_BROKER_CLUSTER_INFO, ClusterInfoHeader(with_away_broker_sets=True))
    return AdminRequest(request, _read_cluster)


def all_topics() -> AdminRequest[frozenset[str]]:
    """Request the names of all topics (206); raises Refused with code 1 where `enableAllTopicList` is false.

    Source: docs/protocol/namesrv.md 2.14.
    """
    request = command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return AdminRequest(request, lambda answer: frozenset(decode_broker_body(TopicList, answer.body).topic_list))


def topic_owners() -> AdminRequest[frozenset[str]]:
    """Request the names of clusters and broker sets (304), which system topics have too.

    Source: docs/protocol/namesrv.md 2.18.
    """
    request = command(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    return AdminRequest(request, lambda answer: frozenset(decode_broker_body(TopicList, answer.body).topic_list))


def order_conf(topic: str) -> AdminRequest[str | None]:
    """Request the order configuration of a topic (101), `broker-a:4;broker-b:4`; None if it has none."""
    return kv_value(ORDER_TOPIC_CONFIG, topic)


def put_order_conf(topic: str, text: str) -> AdminRequest[None]:
    """Set the order configuration of a topic (100), at one NameServer: each has its own."""
    return put_kv(ORDER_TOPIC_CONFIG, topic, text)


def delete_order_conf(topic: str) -> AdminRequest[None]:
    """Remove the order configuration of a topic (102), at one NameServer; it may have none."""
    return delete_kv(ORDER_TOPIC_CONFIG, topic)


def _read_route(answer: RemotingCommand) -> TopicRoute:
    route = decode_broker_body(TopicRouteData, answer.body)
    mappings = route.topic_queue_mapping_by_broker
    return TopicRoute(
        queues={each.broker_name: each for each in route.queue_datas},
        broker_sets={each.broker_name: _broker_set(each) for each in route.broker_datas},
        order_conf=None if route.order_topic_conf is UNSET else route.order_topic_conf,
        static_broker_names=frozenset() if mappings is UNSET else frozenset(mappings),
    )


def _read_cluster(answer: RemotingCommand) -> ClusterBrokers:
    body = decode_broker_body(ClusterInfo, answer.body)
    return ClusterBrokers(
        broker_sets={name: _broker_set(each) for name, each in body.broker_addr_table.items()},
        clusters={cluster: frozenset(names) for cluster, names in body.cluster_addr_table.items()},
        away={e.broker_name: _away_set(e) for e in body.away_broker_sets or ()},
        lost_topics={e.broker_name: e for e in body.lost_topics or ()},
        stale_replicas={e.broker_addr: e for e in body.stale_replicas or ()},
    )


def _away_set(body: AwayBrokerSet) -> AwaySet:
    return AwaySet(**msgspec.structs.asdict(body), is_starting=body.away_since_unix_ms is None)


def _broker_set(body: BrokerData) -> RoutedBrokerSet:
    return RoutedBrokerSet(cluster=body.cluster, broker_name=body.broker_name, addresses=body.broker_addrs)


def route_view(topic: str) -> AdminRequest[TopicRouteData]:
    """Request the route of a topic (105); raises Refused with code 17. Source: docs/protocol/namesrv.md 2.6."""
    request = command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic))
    return AdminRequest(request, reading(TopicRouteData))


def registered_route(topic: str) -> AdminRequest[TopicRouteData | None]:
    """Request the route of a topic (105) without what the NameServer learned from others; None for no such topic."""
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True, registered_only=True)
    request = command(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    return AdminRequest(request, reading(TopicRouteData), {ResponseCode.TOPIC_NOT_EXIST: None})


def cluster_view() -> AdminRequest[ClusterInfo]:
    """Request all brokers (106). Source: docs/protocol/namesrv.md 2.7."""
    return AdminRequest(command(RequestCode.GET_BROKER_CLUSTER_INFO), reading(ClusterInfo))


def digested_cluster_view() -> AdminRequest[ClusterInfo]:
    """Request the same with digests of the topics, which NameServers of ours that have peers know."""
    header = ClusterInfoHeader(with_topic_digests=True)
    return AdminRequest(command(RequestCode.GET_BROKER_CLUSTER_INFO, header), reading(ClusterInfo))


def topics_view() -> AdminRequest[list[str]]:
    """Request the names of all topics (206). Source: docs/protocol/namesrv.md 2.14."""
    request = command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return AdminRequest(request, reading(TopicList)).mapped(lambda found: found.topic_list)
