"""cloneGroupOffset: a group goes on where another one is."""

from typing import Final

from remoting.admin.offsets import commit_offset
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand, address_in
from rmq.mqadmin.consume_stats import consume_stats
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import hash_map_order, queue_hash
from rmq.mqadmin.java.options import options_of, value


async def _clone(admin: Admin, line: CommandLine) -> None:
    source, target, topic = line.needed("s"), line.needed("d"), line.needed("t")
    queues = (await consume_stats(admin, source)).queues
    addresses = {}
    if queues:
        addresses = {each.broker_name: address_in(each) for each in (await admin.route(topic)).broker_datas}
    # As in mqadmin the queues of all topics of the group, at the brokers of this one.
    for queue in hash_map_order(queues, queue_hash):
        offset, address = queues[queue].consumer_offset, addresses.get(queue.broker_name)
        if offset < 0:
            continue
        if address is None:
            raise CommandFailed(f"{queue.broker_name} has queues of {queue.topic}, and none of {topic}")
        await admin.change(address, commit_offset(target, queue.topic, queue.queue_id, offset))
    admin.printf("clone group offset success. srcGroup[%s], destGroup=[%s], topic[%s]", source, target, topic)


CLONE_GROUP_OFFSET: Final = MqadminCommand(
    options_of(
        value("s", "srcGroup", "set source consumer group", required=True),
        value("d", "destGroup", "set destination consumer group", required=True),
        value("t", "topic", "set the topic", required=True),
        value("o", "offline", "the group or the topic is offline"),
    ),
    _clone,
)
