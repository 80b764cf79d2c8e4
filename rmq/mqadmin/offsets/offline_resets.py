"""Resets by the offsets of the group itself, for groups of which nobody is online."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from remoting.admin.brokers import topic_stats_view
from remoting.admin.group_views import group_stats_view
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.admin.offsets import commit_offset, max_offset, offset_at
from remoting.protocol.shapes.group_views import GroupQueueView
from rmq.mqadmin.admin import Admin, address_in
from rmq.mqadmin.java.hash_order import hash_map_order, queue_hash
from rmq.mqadmin.java.texts import front

END: Final = -1
_ROW: Final = "%-20s  %-20d  %-20d  %-20d  %-20d  %-20d%n"
_HEAD: Final = "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s%n"


class TimeReset(NamedTuple):
    """Where a group is to go on in a topic."""

    group: str
    topic: str
    #: Unix ms; -1 for the end of each queue.
    unix_ms: int
    #: Also ahead of where the group is.
    is_forced: bool
    #: The topic whose brokers have the queues: of light queues and the timer that of the cluster.
    route_topic: str
    #: Its clients are in C++.
    is_for_cpp: bool = False


class QueueReset(NamedTuple):
    """What became of one queue."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    #: That of the time.
    timestamp_offset: int
    #: Where the group goes on.
    new_offset: int


async def reset_offline(admin: Admin, wanted: TimeReset) -> list[QueueReset]:
    """Set the offsets of a group; raises CommandFailed, also when some of them are set."""
    route = await admin.route(wanted.route_topic)
    read_queues = {each.broker_name: each.read_queue_nums for each in route.queue_datas}
    resets: list[QueueReset] = []
    for broker in route.broker_datas:
        address = address_in(broker)
        if address is not None:
            queues = await _queues(admin, address, wanted, read_queues.get(broker.broker_name, 0))
            resets.extend([await _reset(admin, address, wanted, queue, now) for queue, now in queues.items()])
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
    admin: Admin, address: str, wanted: TimeReset, read_queue_nums: int
) -> Mapping[MessageQueue, GroupQueueView]:
    """Return how far the group is in the queues of the topic; one that never committed is at their beginnings."""
    stats = by_queue((await admin.call(address, group_stats_view(wanted.group))).offset_table)
    found = [queue for queue in hash_map_order(stats, queue_hash) if queue.topic == wanted.topic]
    if found:
        return {queue: stats[queue] for queue in found}
    ends = by_queue((await admin.call(address, topic_stats_view(wanted.topic))).offset_table)
    return {
        queue: GroupQueueView(broker_offset=ends[queue].max_offset, consumer_offset=ends[queue].min_offset)
        for queue in sorted(ends)
        if queue.queue_id < read_queue_nums
    }


async def _reset(admin: Admin, address: str, wanted: TimeReset, queue: MessageQueue, now: GroupQueueView) -> QueueReset:
    topic, queue_id = queue.topic, queue.queue_id
    at_end = wanted.unix_ms == END
    request = max_offset(topic, queue_id) if at_end else offset_at(topic, queue_id, wanted.unix_ms)
    at_time = await admin.call(address, request)
    is_set = wanted.is_forced or at_time <= now.consumer_offset
    if is_set:
        await admin.change(address, commit_offset(wanted.group, topic, queue_id, at_time))
    new = at_time if is_set else now.consumer_offset
    return QueueReset(queue, now.broker_offset, now.consumer_offset, at_time, new)
