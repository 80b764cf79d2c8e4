"""updateTopic and deleteTopic."""

from typing import Final

from remoting.admin.name_servers import delete_topic_route
from remoting.admin.routes import cluster_view, order_conf, put_order_conf
from remoting.admin.topics import TopicDefinition, delete_topic
from remoting.protocol.shapes.route import SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUB
from rmq.failures import UnknownName, WrongUse
from rmq.mqadmin.admin import Admin, MqadminCommand, integer, switch_value
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.options import ExclusiveOptions, options_of, value
from rmq.mqadmin.topics.definitions import ChangedTopic, attributes_in

_QUEUES: Final = 8
_READ_AND_WRITE: Final = 6


async def _update(admin: Admin, line: CommandLine) -> None:
    topic = _topic_in(line)
    address = line.text("b")
    if address is not None:
        await _update_at(admin, topic, address)
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


async def _update_at(admin: Admin, topic: ChangedTopic, address: str) -> None:
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
        raise UnknownName(f"no NameServer lists a broker at {address}: its order configuration is not set")
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


async def _delete(admin: Admin, line: CommandLine) -> None:
    topic, cluster = line.needed("t"), line.needed("c")
    if not cluster:
        # Request 216 takes it for all clusters.
        raise WrongUse("-c: the name of the cluster is blank: NameServers would forget the topic of all clusters")
    await admin.at_all(await admin.masters_of(cluster), delete_topic(topic))
    admin.printf("delete topic [%s] from cluster [%s] success.%n", topic, cluster)
    await admin.at_all(admin.settings.namesrv, delete_topic_route(topic, cluster))
    admin.printf("delete topic [%s] from NameServer success.%n", topic)


UPDATE_TOPIC: Final = MqadminCommand(
    options_of(
        ExclusiveOptions(
            (
                value("b", "brokerAddr", "create topic to which broker"),
                value("c", "clusterName", "create topic to which cluster"),
            )
        ),
        value("a", "attributes", "attribute(+a=b,+c=d,-e)"),
        value("t", "topic", "topic name", required=True),
        value("r", "readQueueNums", "set read queue nums"),
        value("w", "writeQueueNums", "set write queue nums"),
        value("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
        value("o", "order", "set topic's order(true|false)"),
        value("u", "unit", "is unit topic (true|false)"),
        value("s", "hasUnitSub", "has unit sub (true|false)"),
    ),
    _update,
)
DELETE_TOPIC: Final = MqadminCommand(
    options_of(
        value("t", "topic", "topic name", required=True),
        value("c", "clusterName", "delete topic from which cluster", required=True),
    ),
    _delete,
)
