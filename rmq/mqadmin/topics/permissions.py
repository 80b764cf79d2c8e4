"""updateTopicPerm: what may be done with a topic."""

from typing import Final

from remoting.admin.topics import TopicDefinition
from remoting.protocol.shapes.route import MASTER_ID, TopicRouteData
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand, integer
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.topics.definitions import ChangedTopic


async def _update(admin: Admin, line: CommandLine) -> None:
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
        await _update_at(admin, topic, route, address)
        return
    if cluster is None:
        admin.print_usage()
        return
    for master in await admin.masters_of(cluster):
        await admin.change(master, topic.request)
        admin.printf("update topic perm from %s to %s in %s success.%n", queues.perm, perm, master)


async def _update_at(admin: Admin, topic: ChangedTopic, route: TopicRouteData, address: str) -> None:
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


UPDATE_TOPIC_PERM: Final = MqadminCommand(
    options_of(
        value("b", "brokerAddr", "create topic to which broker"),
        value("c", "clusterName", "create topic to which cluster"),
        value("t", "topic", "topic name", required=True),
        value("p", "perm", "set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW]", required=True),
    ),
    _update,
)
