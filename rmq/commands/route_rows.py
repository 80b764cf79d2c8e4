"""The route of a topic as rows, from the answers of all NameServers. Pure."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from remoting.admin.routes import TopicRoute
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import Refused
from rmq.output.rows import RowKey
from rmq.site.site import Answered


class RouteRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where the queues of a topic are on one broker set, and which NameServers tell clients so."""

    row_key: ClassVar[RowKey] = ("topic", "broker_name")

    topic: str
    broker_name: str
    cluster: str | None
    read_queue_nums: int
    write_queue_nums: int
    #: Bits: 4 read, 2 write, 1 inherit.
    perm: int
    #: By broker id; none while no broker of the set is alive.
    broker_addrs: dict[str, str] | None
    order_topic_conf: str | None
    #: None where all that answer agree.
    only_at: list[str] | None = None


def route_rows(topic: str, answers: Sequence[Answered[TopicRoute]]) -> list[RouteRow]:
    """Return the rows that NameServers answer, by broker names; `only_at` where not all that answer have one."""
    routes = {each.address: _rows_of(topic, each.result) for each in answers if each.error is None}
    rows = _merged(routes, len(routes) + sum(map(is_unknown_topic, answers)))
    rows.sort(key=lambda row: (row.broker_name, row.only_at or []))
    return rows


def is_unknown_topic(answer: Answered[TopicRoute]) -> bool:
    """Return whether a NameServer has no route of the topic."""
    return isinstance(answer.error, Refused) and answer.error.code == ResponseCode.TOPIC_NOT_EXIST


def _merged(routes: Mapping[str, list[RouteRow]], whole: int) -> list[RouteRow]:
    """Return each row once; one that not all of the NameServers have names those that do."""
    rows: list[RouteRow] = []
    for each in (row for found in routes.values() for row in found):
        if each not in rows:
            rows.append(each)
    owners = [[address for address, found in routes.items() if row in found] for row in rows]
    return [
        row if len(addresses) == whole else _only_at(row, addresses)
        for row, addresses in zip(rows, owners, strict=True)
    ]


def _only_at(row: RouteRow, addresses: list[str]) -> RouteRow:
    return msgspec.structs.replace(row, only_at=addresses)


def _rows_of(topic: str, route: TopicRoute) -> list[RouteRow]:
    rows = []
    for name, queues in sorted(route.queues.items()):
        broker_set = route.broker_sets.get(name)
        row = RouteRow(
            topic=topic,
            broker_name=name,
            cluster=broker_set.cluster if broker_set else None,
            read_queue_nums=queues.read_queue_nums,
            write_queue_nums=queues.write_queue_nums,
            perm=queues.perm,
            broker_addrs={str(key): each for key, each in broker_set.addresses.items()} if broker_set else None,
            order_topic_conf=route.order_conf or None,
        )
        rows.append(row)
    return rows
