"""How far a group is, over all brokers of its topics, as mqadmin's commands of groups find it."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from remoting.admin.group_views import consumers_view, group_stats_view
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.shapes.broker_clients import BROADCASTING
from remoting.protocol.shapes.group_views import ConsumersView, GroupQueueView
from remoting.protocol.shapes.route import TopicRouteData
from rmq.failures import CommandFailed, UnknownName
from rmq.mqadmin.admin import Admin, addresses_in

_RETRY: Final = "%RETRY%"
_LIGHT: Final = "%LMQ%"
_TIMER: Final = "rmq_sys_wheel_timer"
_NOTHING_FOUND: Final = "Not found the consumer group consume stats, because return offset table is empty, {}"


class GroupStats(NamedTuple):
    """How far a group is in each queue."""

    queues: Mapping[MessageQueue, GroupQueueView]
    tps: float

    @property
    def total_diff(self) -> int:
        """How many messages the group has before it."""
        return sum(each.broker_offset - each.consumer_offset for each in self.queues.values())


async def consume_stats(admin: Admin, group: str, topic: str | None = None, cluster: str | None = None) -> GroupStats:
    """Return how far a group is in a topic, or in all that it has offsets of; raises CommandFailed.

    With a cluster the route may be that of the cluster's own topic, for light queues and the timer.
    """
    route = await _route(admin, group, topic, cluster)
    queues: dict[MessageQueue, GroupQueueView] = {}
    tps = 0.0
    for address in addresses_in(route.broker_datas):
        stats = await admin.call(address, group_stats_view(group, topic))
        queues |= by_queue(stats.offset_table)
        tps += stats.consume_tps
    if not cluster:
        # mqadmin reads the route of every topic, and fails for one that has none.
        for each in {queue.topic for queue in queues}:
            await admin.route(each)
    if not queues:
        await _check_found(admin, group)
    return GroupStats(queues, tps)


async def consumers_of(admin: Admin, group: str, address: str | None = None) -> ConsumersView:
    """Return the consumers of a group that are connected to a broker; raises CommandFailed if there are none."""
    if address is None:
        brokers = (await admin.route(f"{_RETRY}{group}")).broker_datas
        # mqadmin takes any of them.
        address = next(iter(addresses_in(brokers)), None)
    found = ConsumersView() if address is None else await admin.call(address, consumers_view(group))
    if not found.connection_set:
        raise UnknownName("Not found the consumer group connection")
    return found


async def _route(admin: Admin, group: str, topic: str | None, cluster: str | None) -> TopicRouteData:
    topics = [f"{_RETRY}{group}"]
    if topic is not None:
        topics += [topic, f"{_RETRY}{group}_{topic}"]
        if cluster and (topic.startswith(_LIGHT) or topic == _TIMER):
            topics.append(cluster)
    for each in topics[:-1]:
        try:
            return await admin.route(each)
        except CommandFailed:
            continue
    return await admin.route(topics[-1])


async def _check_found(admin: Admin, group: str) -> None:
    try:
        found = await consumers_of(admin, group)
    except CommandFailed:
        raise UnknownName(_NOTHING_FOUND.format("maybe the consumer not online")) from None
    if found.message_model == BROADCASTING:
        raise CommandFailed(_NOTHING_FOUND.format("the consumer is under the broadcast mode"))
