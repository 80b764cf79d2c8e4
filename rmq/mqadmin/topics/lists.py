"""topicList and topicClusterList."""

from typing import Final, NamedTuple

from remoting.protocol.shapes.namesrv import ClusterInfo
from rmq.failures import CommandFailed, UnknownName
from rmq.mqadmin.admin import Admin, MqadminCommand, addresses_in, set_names
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.options import options_of, switch, value
from rmq.mqadmin.java.texts import front
from rmq.site.site import at_once

_RETRY_AND_DLQ: Final = ("%RETRY%", "%DLQ%")


class _ListedTopic(NamedTuple):
    cluster: str | None
    groups: list[str]


async def _list(admin: Admin, line: CommandLine) -> None:
    if not line.has("c"):
        for topic in await admin.topics():
            admin.printf("%s%n", topic)
        return
    info = await admin.cluster()
    admin.printf("%-20s  %-48s  %-48s%n", "#Cluster Name", "#Topic", "#Consumer Group")
    topics = [each for each in await admin.topics() if not each.startswith(_RETRY_AND_DLQ)]
    for topic, found in zip(topics, await at_once(_listed(admin, info, each) for each in topics), strict=True):
        for group in found.groups or [""]:
            admin.printf("%-20s  %-64s  %-64s%n", front(found.cluster, 20), front(topic, 64), front(group, 64))


async def _listed(admin: Admin, info: ClusterInfo, topic: str) -> _ListedTopic:
    """Return the cluster and the groups of a topic; as in mqadmin nothing of one that fails."""
    cluster: str | None = ""
    groups: list[str] = []
    try:
        route = await admin.route(topic)
        if route.broker_datas:
            cluster = _cluster_of(info, route.broker_datas[0].broker_name)
        address = next(iter(addresses_in(route.broker_datas)), None)
        if address is not None:
            groups = await admin.groups_of(address, topic)
    except CommandFailed:
        pass
    return _ListedTopic(cluster, groups)


def _cluster_of(info: ClusterInfo, broker_name: str) -> str | None:
    table = info.cluster_addr_table
    return next((cluster for cluster in set_names(table) if broker_name in table[cluster]), None)


async def _list_clusters(admin: Admin, line: CommandLine) -> None:
    topic = line.needed("t")
    table = (await admin.cluster()).cluster_addr_table
    brokers = (await admin.route(topic)).broker_datas
    if not brokers:
        raise UnknownName(f"no broker has the topic {topic}")
    for cluster in string_order([each for each in set_names(table) if brokers[0].broker_name in table[each]]):
        admin.printf("%s%n", cluster)


TOPIC_LIST: Final = MqadminCommand(options_of(switch("c", "clusterModel", "clusterModel")), _list)
TOPIC_CLUSTER_LIST: Final = MqadminCommand(options_of(value("t", "topic", "topic name", required=True)), _list_clusters)
