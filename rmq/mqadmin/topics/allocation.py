"""allocateMQ: how queues are shared out among clients."""

from collections.abc import Sequence
from typing import Final

from remoting.admin.message_queues import MessageQueue
from remoting.protocol.shapes.route import PERM_READ
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.json_text import JsonValue, json_text
from rmq.mqadmin.java.options import options_of, value
from rmq.site.queue_ids import queue_ids

_BITS: Final = 0xFFFFFFFF
_CAPACITY_MIN: Final = 16


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


def as_allocate_mq(queues: Sequence[MessageQueue], addresses: Sequence[str]) -> dict[str, list[MessageQueue]]:
    """Return what `mqadmin allocateMQ` prints, which is no client's assignment: AVG of what it does not sort.

    `queues` are in the order of the route. Up to 8 queues in a bucket of Java's hash set are in the right order. An
    address that is listed twice counts twice; what falls to its second place belongs to nobody.
    """
    capacity = _CAPACITY_MIN
    while 4 * len(queues) > 3 * capacity:
        capacity *= 2
    ordered = sorted(queues, key=lambda queue: _bucket(queue, capacity))
    size, more = divmod(len(ordered), len(addresses)) if addresses else (0, 0)
    shares: dict[str, list[MessageQueue]] = {}
    for index, address in enumerate(addresses):
        start = index * size + min(index, more)
        shares.setdefault(address, ordered[start : start + size + (index < more)])
    return shares


def _bucket(queue: MessageQueue, capacity: int) -> int:
    hashed = 31 * (31 * (31 + _java_hash(queue.broker_name)) + queue.queue_id) + _java_hash(queue.topic) & _BITS
    return (hashed ^ hashed >> 16) & capacity - 1


def _java_hash(text: str) -> int:
    hashed = 0
    for character in text:
        hashed = 31 * hashed + ord(character) & _BITS
    return hashed


ALLOCATE_MQ: Final = MqadminCommand(
    options_of(value("t", "topic", "topic name", required=True), value("i", "ipList", "ipList", required=True)), _show
)
