"""Resets by the offsets of the group itself, for groups of which nobody is online."""

from collections.abc import Mapping
from typing import NamedTuple

from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.admin.offsets import commit_offset, max_offset
from remoting.admin.operator_views import group_stats_view, search_offset, topic_stats_view
from remoting.protocol.shapes.operator_views import GroupQueueView
from rmq.mqadmin.admin import Admin, address_in
from rmq.mqadmin.java.hash_order import hash_map_order, queue_hash
from rmq.mqadmin.java.texts import front

_ROW = "%-20s  %-20d  %-20d  %-20d  %-20d  %-20d%n"
_HEAD = "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s%n"


class QueueReset(NamedTuple):
    """What became of one queue."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    #: That of the time.
    timestamp_offset: int
    #: Where the group goes on.
    new_offset: int


async def reset_offline(
    admin: Admin, group: str, topic: str, unix_ms: int, *, is_forced: bool, route_topic: str
) -> list[QueueReset]:
    """Set the offsets of a group back or, if it is forced, ahead to a time; -1 is the end. Raises CommandFailed."""
    route = await admin.route(route_topic)
    read_queues = {each.broker_name: each.read_queue_nums for each in route.queue_datas}
    resets = []
    for broker in route.broker_datas:
        address = address_in(broker)
        if address is None:
            continue
        queues = await _queues(admin, address, group, topic, read_queues.get(broker.broker_name, 0))
        for queue in hash_map_order(queues, queue_hash) if queues else ():
            resets.append(await _reset(admin, address, group, queue, queues[queue], unix_ms, is_forced=is_forced))
    return resets


def print_resets(admin: Admin, resets: list[QueueReset], last_title: str) -> None:
    """Print what became of each queue."""
    admin.printf(_HEAD, "#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset", last_title)
    for each in resets:
        admin.printf(
            _ROW,
            front(each.queue.broker_name, 32),
            each.queue.queue_id,
            each.broker_offset,
            each.consumer_offset,
            each.timestamp_offset,
            each.new_offset,
        )


async def _queues(
    admin: Admin, address: str, group: str, topic: str, read_queue_nums: int
) -> Mapping[MessageQueue, GroupQueueView]:
    """Return how far the group is in the queues of the topic; one that never committed is at their beginnings."""
    stats = by_queue((await admin.call(address, group_stats_view(group))).offset_table)
    found = {queue: each for queue, each in stats.items() if queue.topic == topic}
    if found:
        return {queue: found[queue] for queue in hash_map_order(stats, queue_hash) if queue in found}
    ends = by_queue((await admin.call(address, topic_stats_view(topic))).offset_table)
    queues = sorted(queue for queue in ends if queue.queue_id < read_queue_nums)
    return {
        queue: GroupQueueView(broker_offset=ends[queue].max_offset, consumer_offset=ends[queue].min_offset)
        for queue in queues
    }


async def _reset(
    admin: Admin,
    address: str,
    group: str,
    queue: MessageQueue,
    now: GroupQueueView,
    unix_ms: int,
    *,
    is_forced: bool,
) -> QueueReset:
    if unix_ms == -1:
        wanted = await admin.call(address, max_offset(queue.topic, queue.queue_id))
    else:
        wanted = await admin.call(address, search_offset(queue.topic, queue.queue_id, unix_ms))
    new = now.consumer_offset
    if is_forced or wanted <= now.consumer_offset:
        new = wanted
        await admin.call(address, commit_offset(group, queue.topic, queue.queue_id, new))
    return QueueReset(queue, now.broker_offset, now.consumer_offset, wanted, new)
