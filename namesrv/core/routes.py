"""The route of a topic: who has its queues, who acts for a missing master, what a zone may see.

Answers to `RouteInfoManager.pickupTopicRouteData` and `ZoneRouteRPCHook` (docs/protocol/namesrv.md 3.8 and 3.9). Pure:
reads the tables, returns a value that is encoded once.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from namesrv.core import fitting
from namesrv.core.tables.broker_table import Addition, RegisteredSet, additions
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.cooperative import run_to_completion
from remoting.protocol.shapes.route import (
    MASTER_ID,
    PERM_WRITE,
    BrokerData,
    QueueData,
    TopicQueueMappingInfo,
    TopicRouteData,
)

#: Slaves ask for this topic to learn their set's real members, so nobody acts as master in its route.
SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
#: A mapping of more queues than any topic has counts as this for each: to encode thousands of them takes too long.
_COUNTED_QUEUES_MAX: Final = 128
_QUEUE_BYTES: Final = 25


def route_of(
    tables: RouteTables,
    topic: str,
    *,
    support_acting_master: bool,
    order_topic_conf: str | None,
    host_bytes_max: int = fitting.ANSWER_BYTES_MAX,
) -> TopicRouteData | None:
    """Return the route of `topic`, with what fits of each host; None if no broker has it."""
    queues = tables.topics.of_topic(topic)
    if queues is None:
        return None
    sets = [broker_set for name in queues if (broker_set := tables.brokers.get(name))]
    may_act = support_acting_master and not topic.startswith(SYNC_BROKER_MEMBER_PREFIX)
    mappings = tables.mappings.of_topic(topic)
    filter_servers = _filter_servers(tables, sets)
    if mappings or filter_servers or tables.brokers.part_bytes(queues) > min(host_bytes_max, fitting.ANSWER_BYTES_MAX):

        def additions_of(broker_set: RegisteredSet) -> Iterable[Addition]:
            mapping_bytes = _mapping_bytes(mappings, broker_set.broker_name)
            return additions(broker_set, filter_servers, mapping_bytes)

        fits = run_to_completion(fitting.fitting(sets, additions_of, host_bytes_max))
        if fits is not sets:
            sets = list(fits)
            queues = {each.broker_name: queues[each.broker_name] for each in sets}
            filter_servers = _filter_servers(tables, sets)
    # Without the topic itself a set adds no mapping of it: what it may add would have no limit.
    mapped = {name: mapping for name, mapping in (mappings or {}).items() if name in queues}
    return TopicRouteData(
        broker_datas=[
            broker_data(broker_set, acting=may_act and acts_for_master(broker_set, queues[broker_set.broker_name]))
            for broker_set in sets
        ],
        filter_server_table=filter_servers,
        order_topic_conf=msgspec.UNSET if order_topic_conf is None else order_topic_conf,
        queue_datas=list(queues.values()),
        topic_queue_mapping_by_broker=mapped or msgspec.UNSET,
    )


def in_zone(route: TopicRouteData, zone_name: str) -> TopicRouteData:
    """Return the part of `route` that a requester in `zone_name` may use; it can be empty.

    Sets of other zones go with their queues and filter servers; a set without a master is seen from everywhere.
    """
    seen = [data for data in route.broker_datas if MASTER_ID not in data.broker_addrs or _is_in(data, zone_name)]
    hidden = [data for data in route.broker_datas if data not in seen]
    names = {data.broker_name for data in hidden}
    addresses = {address for data in hidden for address in data.broker_addrs.values()}
    return msgspec.structs.replace(
        route,
        broker_datas=seen,
        queue_datas=[queue_data for queue_data in route.queue_datas if queue_data.broker_name not in names],
        filter_server_table={
            address: servers for address, servers in route.filter_server_table.items() if address not in addresses
        },
    )


def broker_data(broker_set: RegisteredSet, *, acting: bool = False) -> BrokerData:
    """Return the set as peers see it, ids ascending; with `acting` the smallest id stands in for the master.

    Clients send lock and offset requests to broker id 0 only. While the master is away, the slave with the smallest
    id answers under it; write permission went when the master left.
    """
    addresses = {broker_id: broker_set.members[broker_id].address for broker_id in sorted(broker_set.members)}
    if acting:
        addresses = {MASTER_ID: addresses.pop(min(addresses)), **addresses}
    return BrokerData(
        broker_addrs=addresses,
        broker_name=broker_set.broker_name,
        cluster=broker_set.cluster,
        enable_acting_master=broker_set.enable_acting_master,
        zone_name=msgspec.UNSET if broker_set.zone_name is None else broker_set.zone_name,
    )


def acts_for_master(broker_set: RegisteredSet, queue_data: QueueData) -> bool:
    """Return whether a slave acts for the master; never while the queues still count as writable."""
    return broker_set.has_acting_master and not queue_data.perm & PERM_WRITE


def _is_in(data: BrokerData, zone_name: str) -> bool:
    return isinstance(data.zone_name, str) and data.zone_name.lower() == zone_name.lower()


def _mapping_bytes(mappings: Mapping[str, TopicQueueMappingInfo] | None, broker_name: str) -> int:
    if not mappings or (mapping := mappings.get(broker_name)) is None:
        return 0
    queues = len(mapping.curr_id_map or ())
    return _QUEUE_BYTES * queues if queues > _COUNTED_QUEUES_MAX else len(msgspec.json.encode(mapping))


def _filter_servers(tables: RouteTables, sets: list[RegisteredSet]) -> dict[str, list[str]]:
    found = {}
    for broker_set in sets:
        for member in broker_set.members.values():
            row = tables.live.get(LiveKey(broker_set.broker_name, member.address))
            if row and row.filter_servers:
                found[member.address] = list(row.filter_servers)
    return found


def topics_of_cluster(tables: RouteTables, cluster: str) -> list[str]:
    """Return the topics that at least one broker set of the cluster has, each once."""
    names = tables.brokers.names_in(cluster)
    return list(dict.fromkeys(topic for name in names for topic in tables.topics.of_broker(name)))
