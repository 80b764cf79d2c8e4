"""allocateMQ: how queues are shared out among clients."""

from typing import Final

from remoting.admin.allocation import as_allocate_mq
from remoting.admin.message_queues import MessageQueue
from remoting.protocol.shapes.route import PERM_READ
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.json_text import JsonValue, json_text
from rmq.mqadmin.java.options import options_of, value
from rmq.site.queue_ids import queue_ids


async def _show(admin: Admin, line: CommandLine) -> None:
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
    result: JsonValue = {address: [_queue(each) for each in shares[address]] for address in string_order(shares)}
    admin.write(json_text({"result": result}) + "\n")


def _queue(queue: MessageQueue) -> JsonValue:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


ALLOCATE_MQ: Final = MqadminCommand(
    options_of(value("t", "topic", "topic name", required=True), value("i", "ipList", "ipList", required=True)), _show
)
