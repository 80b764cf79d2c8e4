"""Commands of mqadmin about topics."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from remoting.admin.admin_request import AdminRequest
from remoting.admin.message_queues import MessageQueue
from remoting.admin.name_servers import delete_topic_route
from remoting.admin.routes import cluster_view, delete_order_conf, order_conf, put_order_conf
from remoting.admin.topics import TopicDefinition, delete_topic, queue_offsets, update_topic
from remoting.protocol.shapes.namesrv import ClusterInfo
from remoting.protocol.shapes.route import (
    MASTER_ID,
    PERM_READ,
    SYS_FLAG_UNIT,
    SYS_FLAG_UNIT_SUB,
    BrokerData,
    QueueData,
    TopicQueueMappingInfo,
    TopicRouteData,
)
from rmq.failures import CommandFailed, UnknownName, WrongUse
from rmq.mqadmin.admin import DLQ, RETRY, Admin, addresses_in, command, integer, switch_value
from rmq.mqadmin.java.hash_order import hash_map_order, long_hash, queue_hash, string_order
from rmq.mqadmin.java.options import CommandLine, either, switch, value
from rmq.mqadmin.java.texts import JsonValue, front, java_format, json_text, map_text, perm_text, pretty_json, time_text
from rmq.site.brokers import queue_ids
from rmq.site.site import at_once

#: Below it a permission is valid: bits for reading, writing and inheriting.
_PERMS: Final = 8
_QUEUES: Final = 8
_READ_AND_WRITE: Final = 6
_ROW: Final = "%-45s %-32s %-50s %-10s %-11s %-5s%n"
_LINE: Final = "-" * 158


class ChangedTopic(NamedTuple):
    """A topic as it is to be, with its attributes as they were written: `+name` and `-name`."""

    definition: TopicDefinition
    attributes: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return `TopicConfig.toString`."""
        found = self.definition
        ordered = {name: self.attributes[name] for name in string_order(self.attributes)}
        return java_format(
            "TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=%s, "
            "topicSysFlag=%d, order=%s, attributes=%s]",
            found.topic,
            found.read_queue_nums,
            found.write_queue_nums,
            perm_text(found.perm),
            found.filter_type,
            found.sys_flag,
            found.is_order,
            map_text(ordered),
        )

    @property
    def request(self) -> AdminRequest[None]:
        """The request that makes it so; raises WrongUse for a permission that does not exist."""
        if not 0 <= self.definition.perm < _PERMS:
            raise WrongUse(f"topicPermission value: {self.definition.perm} is invalid.")
        changes = {name[1:]: text if name.startswith("+") else None for name, text in self.attributes.items()}
        return update_topic(self.definition, changes)


def attributes_in(text: str | None) -> dict[str, str]:
    """Return what an option says of attributes, `+a=b,-c`; raises WrongUse."""
    attributes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if equals and not name.startswith("+"):
            raise WrongUse(f"add/alter attribute format is wrong: {name}; write +name=value")
        if not equals and not name.startswith("-"):
            raise WrongUse(f"delete attribute format is wrong: {name}; write -name")
        if name in attributes:
            raise WrongUse(f"key duplication: {name}")
        attributes[name] = value.partition("=")[0]
    return attributes


@command(
    "updateTopic",
    either(
        value("b", "brokerAddr", "create topic to which broker"),
        value("c", "clusterName", "create topic to which cluster"),
    ),
    value("a", "attributes", "attribute(+a=b,+c=d,-e)"),
    value("t", "topic", "topic name", required=True),
    value("r", "readQueueNums", "set read queue nums"),
    value("w", "writeQueueNums", "set write queue nums"),
    value("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
    value("o", "order", "set topic's order(true|false)"),
    value("u", "unit", "is unit topic (true|false)"),
    value("s", "hasUnitSub", "has unit sub (true|false)"),
)
async def _update_topic(admin: Admin, line: CommandLine) -> None:
    topic = _topic_in(line)
    address = line.text("b")
    if address is not None:
        await _update_at_broker(admin, topic, address)
    else:
        await _update_in(admin, topic, line.needed("c"))
    admin.printf("%s%n", topic.text)


def _topic_in(line: CommandLine) -> ChangedTopic:
    is_unit, has_unit_sub = switch_value(line, "u", default=False), switch_value(line, "s", default=False)
    definition = TopicDefinition(
        topic=line.needed("t"),
        read_queue_nums=integer(line, "r", _QUEUES),
        write_queue_nums=integer(line, "w", _QUEUES),
        perm=integer(line, "p", _READ_AND_WRITE),
        sys_flag=SYS_FLAG_UNIT * is_unit | SYS_FLAG_UNIT_SUB * has_unit_sub,
        is_order=switch_value(line, "o", default=False),
    )
    return ChangedTopic(definition, attributes_in(line.text("a")))


async def _update_at_broker(admin: Admin, topic: ChangedTopic, address: str) -> None:
    await admin.change(address, topic.request)
    if topic.definition.is_order:
        conf = f"{await _name_at(admin, address)}:{topic.definition.write_queue_nums}"
        await _add_order(admin, topic.definition.topic, conf)
        admin.printf("set broker orderConf. isOrder=%s, orderConf=[%s]%n", topic.definition.is_order, conf)
    admin.printf("create topic to %s success.%n", address)


async def _name_at(admin: Admin, address: str) -> str:
    table = (await admin.at_name_server(cluster_view())).broker_addr_table
    names = [name for name in string_order(table) if address in table[name].broker_addrs.values()]
    if not names:
        raise UnknownName(f"no NameServer lists a broker at {address}: its order configuration was not set")
    return names[0]


async def _add_order(admin: Admin, topic: str, conf: str) -> None:
    """Put the entry of one broker into the order configuration of a topic."""
    before = await admin.at_name_server(order_conf(topic)) or ""
    entries = {each.split(":")[0]: each for each in [*filter(None, before.split(";")), conf]}
    text = ";".join(entries[name] for name in string_order(entries))
    await admin.at_each(admin.settings.namesrv, put_order_conf(topic, text))


async def _update_in(admin: Admin, topic: ChangedTopic, cluster: str) -> None:
    found = await admin.masters_of(cluster)
    await admin.at_all(found, topic.request, lambda address: admin.printf("create topic to %s success.%n", address))
    if topic.definition.is_order:
        names = await admin.names_of(cluster)
        conf = ";".join(f"{name}:{topic.definition.write_queue_nums}" for name in names)
        await admin.at_each(admin.settings.namesrv, put_order_conf(topic.definition.topic, conf))
        admin.printf("set cluster orderConf. isOrder=%s, orderConf=[%s]%n", topic.definition.is_order, conf)


@command(
    "deleteTopic",
    value("t", "topic", "topic name", required=True),
    value("c", "clusterName", "delete topic from which cluster", required=True),
)
async def _delete_topic(admin: Admin, line: CommandLine) -> None:
    topic, cluster = line.needed("t"), line.needed("c")
    if not cluster:
        # Request 216 takes it for all clusters.
        raise WrongUse("-c: the name of the cluster is blank: NameServers would forget the topic of all clusters")
    await admin.at_all(await admin.masters_of(cluster), delete_topic(topic))
    admin.printf("delete topic [%s] from cluster [%s] success.%n", topic, cluster)
    await admin.at_all(admin.settings.namesrv, delete_topic_route(topic, cluster))
    admin.printf("delete topic [%s] from NameServer success.%n", topic)


@command(
    "updateTopicPerm",
    value("b", "brokerAddr", "create topic to which broker"),
    value("c", "clusterName", "create topic to which cluster"),
    value("t", "topic", "topic name", required=True),
    value("p", "perm", "set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW]", required=True),
)
async def _update_topic_perm(admin: Admin, line: CommandLine) -> None:
    route, perm = await admin.route(line.needed("t")), integer(line, "p", 0)
    if not route.queue_datas:
        raise CommandFailed(f"the route of {line.needed('t')} has no queues")
    queues = route.queue_datas[0]
    definition = TopicDefinition(
        topic=line.needed("t"),
        read_queue_nums=queues.read_queue_nums,
        write_queue_nums=queues.write_queue_nums,
        perm=perm,
        sys_flag=queues.topic_sys_flag,
    )
    topic, address, cluster = ChangedTopic(definition, {}), line.text("b"), line.text("c")
    if address is not None:
        await _change_perm(admin, topic, route, address)
        return
    if cluster is None:
        admin.print_usage()
        return
    for master in await admin.masters_of(cluster):
        await admin.change(master, topic.request)
        admin.printf("update topic perm from %s to %s in %s success.%n", queues.perm, perm, master)


async def _change_perm(admin: Admin, topic: ChangedTopic, route: TopicRouteData, address: str) -> None:
    names = [each.broker_name for each in route.broker_datas if each.broker_addrs.get(MASTER_ID) == address]
    if not names:
        admin.printf("updateTopicPerm error broker not exit or broker is not master!.%n")
        return
    before = next((each.perm for each in route.queue_datas if each.broker_name == names[0]), 0)
    if before == topic.definition.perm:
        admin.printf("new perm equals to the old one!%n")
        return
    await admin.call(address, topic.request)
    admin.printf("update topic perm from %s to %s in %s success.%n", before, topic.definition.perm, address)
    admin.printf("%s.%n", topic.text)


@command(
    "updateOrderConf",
    value("t", "topic", "topic name", required=True),
    value("v", "orderConf", "set order conf [eg. brokerName1:num;brokerName2:num]"),
    value("m", "method", "option type [eg. put|get|delete", required=True),
)
async def _update_order_conf(admin: Admin, line: CommandLine) -> None:
    topic, method = line.needed("t"), line.needed("m")
    # mqadmin prints no line ends.
    if method == "get":
        found = await admin.at_name_server(order_conf(topic))
        if found is None:
            raise UnknownName(f"{topic} has no order configuration")
        admin.printf("get orderConf success. topic=[%s], orderConf=[%s] ", topic, found)
    elif method == "put":
        conf = line.text("v")
        if not conf:
            raise WrongUse("please set orderConf with option -v.")
        await admin.at_each(admin.settings.namesrv, put_order_conf(topic, conf))
        admin.printf("update orderConf success. topic=[%s], orderConf=[%s]", topic, conf)
    elif method == "delete":
        await admin.at_each(admin.settings.namesrv, delete_order_conf(topic))
        admin.printf("delete orderConf success. topic=[%s]", topic)
    else:
        admin.print_usage()


@command(
    "topicRoute", value("t", "topic", "topic name", required=True), switch("l", "list", "Use list format to print data")
)
async def _topic_route(admin: Admin, line: CommandLine) -> None:
    route = await admin.route(line.needed("t"))
    if line.has("l"):
        _print_list(admin, route)
    else:
        admin.write(f"{pretty_json(_as_json(route))}\n")


def _print_list(admin: Admin, route: TopicRouteData) -> None:
    queues = {each.broker_name: each for each in route.queue_datas}
    admin.print_heads(_ROW, "#ClusterName|#BrokerName|#BrokerAddrs|#ReadQueue|#WriteQueue|#Perm")
    reads = writes = 0
    for each in sorted(route.broker_datas, key=lambda broker: broker.broker_name):
        found = queues.get(each.broker_name, QueueData())
        reads, writes = reads + found.read_queue_nums, writes + found.write_queue_nums
        addresses = map_text({key: each.broker_addrs[key] for key in hash_map_order(each.broker_addrs, long_hash)})
        admin.printf(
            _ROW,
            each.cluster,
            each.broker_name,
            addresses,
            found.read_queue_nums,
            found.write_queue_nums,
            found.perm,
        )
    admin.printf("%s%n", _LINE)
    admin.printf(_ROW, "Total:", len(queues), "", reads, writes, "")


def _as_json(route: TopicRouteData) -> JsonValue:
    fields: dict[str, JsonValue] = {"brokerDatas": [_broker(each) for each in route.broker_datas]}
    fields["filterServerTable"] = {address: list(servers) for address, servers in route.filter_server_table.items()}
    if route.order_topic_conf is not UNSET:
        fields["orderTopicConf"] = route.order_topic_conf
    fields["queueDatas"] = [_queues(each) for each in route.queue_datas]
    mappings = route.topic_queue_mapping_by_broker
    if mappings is not UNSET:
        fields["topicQueueMappingByBroker"] = {name: _mapping(each) for name, each in mappings.items()}
    return fields


def _broker(broker: BrokerData) -> JsonValue:
    addresses: dict[Any, JsonValue] = {
        key: broker.broker_addrs[key] for key in hash_map_order(broker.broker_addrs, long_hash)
    }
    fields: dict[Any, JsonValue] = {
        "brokerAddrs": addresses,
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
    }
    return fields if broker.zone_name is UNSET else fields | {"zoneName": broker.zone_name}


def _queues(queues: QueueData) -> JsonValue:
    return {
        "brokerName": queues.broker_name,
        "perm": queues.perm,
        "readQueueNums": queues.read_queue_nums,
        "topicSysFlag": queues.topic_sys_flag,
        "writeQueueNums": queues.write_queue_nums,
    }


def _mapping(mapping: TopicQueueMappingInfo) -> JsonValue:
    ids = mapping.curr_id_map
    fields: dict[str, Any] = {
        "bname": mapping.bname,
        "currIdMap": ids if ids is UNSET else {key: ids[key] for key in sorted(ids)},
        "dirty": mapping.dirty,
        "epoch": mapping.epoch,
        "scope": mapping.scope,
        "topic": mapping.topic,
        "totalQueues": mapping.total_queues,
    }
    return {name: each for name, each in fields.items() if each is not UNSET}


class _ListedTopic(NamedTuple):
    cluster: str | None
    groups: list[str]


@command("topicList", switch("c", "clusterModel", "clusterModel"))
async def _topic_list(admin: Admin, line: CommandLine) -> None:
    if not line.has("c"):
        for topic in await admin.topics():
            admin.printf("%s%n", topic)
        return
    info = await admin.cluster()
    admin.printf("%-20s  %-48s  %-48s%n", "#Cluster Name", "#Topic", "#Consumer Group")
    topics = [each for each in await admin.topics() if not each.startswith((RETRY, DLQ))]
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
    return next((cluster for cluster in string_order(table) if broker_name in table[cluster]), None)


@command("topicClusterList", value("t", "topic", "topic name", required=True))
async def _topic_cluster_list(admin: Admin, line: CommandLine) -> None:
    topic = line.needed("t")
    table = (await admin.cluster()).cluster_addr_table
    brokers = (await admin.route(topic)).broker_datas
    if not brokers:
        raise UnknownName(f"no broker has the topic {topic}")
    for cluster in string_order([each for each in string_order(table) if brokers[0].broker_name in table[each]]):
        admin.printf("%s%n", cluster)


@command(
    "topicStatus",
    value("t", "topic", "topic name", required=True),
    value("c", "cluster", "cluster name or lmq parent topic, lmq is used to find the route."),
)
async def _topic_status(admin: Admin, line: CommandLine) -> None:
    topic, cluster = line.needed("t"), line.text("c")
    # With -c the route is that of the topic which every broker of a cluster has under the cluster's name.
    route = await admin.route(topic if cluster is None else cluster)
    addresses = addresses_in(route.broker_datas)
    stats = [await admin.call(address, queue_offsets(topic)) for address in addresses]
    queues = {queue: each for found in stats for queue, each in found.items()}
    if not queues and cluster is None:
        raise CommandFailed("Not found the topic stats info")
    admin.print_heads("%-32s  %-4s  %-20s  %-20s    %s%n", "#Broker Name|#QID|#Min Offset|#Max Offset|#Last Updated")
    for queue in sorted(queues):
        found = queues[queue]
        admin.printf(
            "%-32s  %-4d  %-20d  %-20d    %s%n",
            front(queue.broker_name, 32),
            queue.queue_id,
            found.min_offset or 0,
            found.max_offset,
            "" if found.last_stored_unix_ms is None else time_text(found.last_stored_unix_ms),
        )
    # mqadmin never adds up what brokers report here.
    admin.printf("%nTopic Put TPS: %s%n", 0.0)


@command("allocateMQ", value("t", "topic", "topic name", required=True), value("i", "ipList", "ipList", required=True))
async def _allocate_mq(admin: Admin, line: CommandLine) -> None:
    topic = line.needed("t")
    # Java's split leaves out what is blank at the end.
    addresses = line.needed("i").rstrip(",").split(",")
    route = await admin.route(topic)
    queues = [
        MessageQueue(topic=topic, broker_name=each.broker_name, queue_id=number)
        for each in route.queue_datas
        if each.perm & PERM_READ
        for number in queue_ids(each.broker_name, each.read_queue_nums)
    ]
    shares = as_allocate_mq(queues, addresses)
    result: JsonValue = {address: [_as_queue(each) for each in shares[address]] for address in string_order(shares)}
    admin.write(json_text({"result": result}) + "\n")


def _as_queue(queue: MessageQueue) -> JsonValue:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def as_allocate_mq(queues: Sequence[MessageQueue], addresses: Sequence[str]) -> dict[str, list[MessageQueue]]:
    """Return what `mqadmin allocateMQ` prints, which is no client's assignment: AVG of what it does not sort.

    `queues` are in the order of the route. An address that is listed twice counts twice; what falls to its second place
    belongs to nobody.
    """
    ordered = hash_map_order(queues, queue_hash)
    size, more = divmod(len(ordered), len(addresses)) if addresses else (0, 0)
    shares: dict[str, list[MessageQueue]] = {}
    for index, address in enumerate(addresses):
        start = index * size + min(index, more)
        shares.setdefault(address, ordered[start : start + size + (index < more)])
    return shares
