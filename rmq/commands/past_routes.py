"""Routes of the past as rows. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from history.past.moments import Seen
from remoting.protocol.shapes.route import BrokerData, QueueData, TopicRouteData


class PastRouteRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker set in the route of a topic, as one NameServer served it."""

    ns_id: str
    topic: str
    #: Only with --diff: what `removed` shows was so at --at, what `added` shows at --diff.
    change: Literal["removed", "added"] | None = None
    #: `no_route`: no broker had the topic. `not_known`: the history does not reach back to what was served.
    state: Literal["served", "no_route", "not_known"] = "served"
    broker_name: str | None = None
    cluster: str | None = None
    read_queue_nums: int | None = None
    write_queue_nums: int | None = None
    #: Bits: 4 read, 2 write, 1 inherit.
    perm: int | None = None
    topic_sys_flag: int | None = None
    #: By broker id.
    broker_addrs: dict[str, str] | None = None
    zone_name: str | None = None
    enable_acting_master: bool | None = None
    filter_servers: list[str] | None = None
    order_topic_conf: str | None = None
    #: Of a static topic: logical queue id -> queue id on the broker.
    queue_mapping: dict[str, str] | None = None
    #: Why it may have been otherwise.
    doubt: str | None = None


def differences(topic: str, before: Sequence[Seen], after: Sequence[Seen]) -> list[PastRouteRow]:
    """Return the rows that only one of two moments has, by NameServer; doubts make no difference."""
    rows: list[PastRouteRow] = []
    tables = [{each.ns_id: _without_doubt(past_route_rows(topic, each)) for each in known} for known in (before, after)]
    for ns_id in sorted({*tables[0], *tables[1]}):
        former, later = (table.get(ns_id, []) for table in tables)
        rows += [msgspec.structs.replace(row, change="removed") for row in former if row not in later]
        rows += [msgspec.structs.replace(row, change="added") for row in later if row not in former]
    return rows


def past_route_rows(topic: str, seen: Seen) -> list[PastRouteRow]:
    """Return the route that one NameServer served; a row without a broker set if there was none."""
    doubt = seen.doubt or None
    if seen.route is None:
        return [PastRouteRow(ns_id=seen.ns_id, topic=topic, state="not_known" if doubt else "no_route", doubt=doubt)]
    route = seen.route
    sets = {each.broker_name: each for each in route.broker_datas}
    queues = {each.broker_name: each for each in route.queue_datas}
    return [_row(topic, seen, name, sets.get(name), queues.get(name)) for name in dict.fromkeys([*sets, *queues])]


def _without_doubt(rows: Sequence[PastRouteRow]) -> list[PastRouteRow]:
    return [msgspec.structs.replace(row, doubt=None) for row in rows]


def _row(topic: str, seen: Seen, name: str, members: BrokerData | None, queues: QueueData | None) -> PastRouteRow:
    route = seen.route
    assert route is not None, "only a route has broker sets"
    order_conf = route.order_topic_conf
    row = PastRouteRow(
        ns_id=seen.ns_id,
        topic=topic,
        broker_name=name,
        order_topic_conf=order_conf if isinstance(order_conf, str) else None,
        queue_mapping=_mapping(route, name),
        doubt=seen.doubt or None,
    )
    if members is not None:
        row = msgspec.structs.replace(row, **_of_members(route, members))
    if queues is not None:
        row = msgspec.structs.replace(
            row,
            read_queue_nums=queues.read_queue_nums,
            write_queue_nums=queues.write_queue_nums,
            perm=queues.perm,
            topic_sys_flag=queues.topic_sys_flag or None,
        )
    return row


def _of_members(route: TopicRouteData, members: BrokerData) -> Mapping[str, object]:
    addresses = members.broker_addrs
    servers = [each for address in addresses.values() for each in route.filter_server_table.get(address, ())]
    return {
        "cluster": members.cluster,
        "broker_addrs": {str(key): each for key, each in addresses.items()},
        "zone_name": members.zone_name if isinstance(members.zone_name, str) else None,
        "enable_acting_master": members.enable_acting_master or None,
        "filter_servers": servers or None,
    }


def _mapping(route: TopicRouteData, name: str) -> dict[str, str] | None:
    mappings = route.topic_queue_mapping_by_broker
    found = mappings.get(name) if isinstance(mappings, dict) else None
    if found is None or not isinstance(found.curr_id_map, dict):
        return None
    return {str(logical): str(queue_id) for logical, queue_id in found.curr_id_map.items()}
