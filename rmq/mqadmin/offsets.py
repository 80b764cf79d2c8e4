"""cloneGroupOffset, resetOffsetByTime and skipAccumulatedMessage."""

import re
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from remoting.admin.group_views import reset_by_time
from remoting.admin.groups import QueueLag, progress_of_group
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offsets import commit_offset, max_offset, offset_at, reset_offset
from remoting.admin.topics import queue_offsets
from remoting.clock import SystemClock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import Refused
from rmq.failures import CommandFailed, WrongUse, failure_of
from rmq.mqadmin.admin import Admin, address_in, command, integer, long_integer, switch_value
from rmq.mqadmin.java.hash_order import copied_capacity, hash_map_order, queue_hash
from rmq.mqadmin.java.options import CommandLine, value
from rmq.mqadmin.java.texts import front
from rmq.mqadmin.progress import consume_stats

END: Final = -1
_ROW: Final = "%-20s  %-20d  %-20d  %-20d  %-20d  %-20d%n"
_HEAD: Final = "%-20s  %-20s  %-20s  %-20s  %-20s  %-20s%n"
_NOW: Final = "now"
_DATE: Final = "%Y-%m-%d#%H:%M:%S"
_LIGHT: Final = "%LMQ%"
_TIMER: Final = "rmq_sys_wheel_timer"
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_RESET: Final = "[%s], topic[%s], force[%s], timestamp(string)[%s], timestamp(long)[%s]%n"


@command(
    "cloneGroupOffset",
    value("s", "srcGroup", "set source consumer group", required=True),
    value("d", "destGroup", "set destination consumer group", required=True),
    value("t", "topic", "set the topic", required=True),
    value("o", "offline", "the group or the topic is offline"),
)
async def _clone_group_offset(admin: Admin, line: CommandLine) -> None:
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
            raise CommandFailed(f"{queue.broker_name} has queues of {queue.topic}, but none of {topic}")
        await admin.change(address, commit_offset(target, queue.topic, queue.queue_id, offset))
    admin.printf("clone group offset success. srcGroup[%s], destGroup=[%s], topic[%s]", source, target, topic)


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
) -> Mapping[MessageQueue, QueueLag]:
    """Return how far the group is in the queues of the topic; one that never committed is at their beginnings."""
    stats = (await admin.call(address, progress_of_group(wanted.group))).queues
    found = [queue for queue in hash_map_order(stats, queue_hash) if queue.topic == wanted.topic]
    if found:
        return {queue: stats[queue] for queue in found}
    ends = await admin.call(address, queue_offsets(wanted.topic))
    return {
        queue: QueueLag(broker_offset=ends[queue].max_offset, consumer_offset=ends[queue].min_offset or 0)
        for queue in sorted(ends)
        if queue.queue_id < read_queue_nums
    }


async def _reset(admin: Admin, address: str, wanted: TimeReset, queue: MessageQueue, now: QueueLag) -> QueueReset:
    topic, queue_id = queue.topic, queue.queue_id
    at_end = wanted.unix_ms == END
    request = max_offset(topic, queue_id) if at_end else offset_at(topic, queue_id, wanted.unix_ms)
    at_time = await admin.call(address, request)
    is_set = wanted.is_forced or at_time <= now.consumer_offset
    if is_set:
        await admin.change(address, commit_offset(wanted.group, topic, queue_id, at_time))
    new = at_time if is_set else now.consumer_offset
    return QueueReset(queue, now.broker_offset, now.consumer_offset, at_time, new)


class _NobodyOnlineError(Exception):
    """No member of the group is online, and the broker does not reset on its own."""


@command(
    "resetOffsetByTime",
    value("g", "group", "set the consumer group", required=True),
    value("t", "topic", "set the topic", required=True),
    value("s", "timestamp", "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]", required=True),
    value("f", "force", "set the force rollback by timestamp switch[true|false]. Deprecated."),
    value("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
    value("b", "broker", "broker addr"),
    value("q", "queue", "queue id"),
    value("o", "offset", "Expect queue offset, not support old version broker"),
)
async def _reset_offset_by_time(admin: Admin, line: CommandLine) -> None:
    text = line.needed("s")
    unix_ms = _unix_ms(text)
    address, queue_id = line.text("b"), integer(line, "q", -1)
    if address is not None and queue_id >= 0:
        await _reset_queue(admin, line, address, queue_id, unix_ms)
        return
    # With -c the clients are taken to be in C++.
    wanted = _wanted(line, unix_ms, is_for_cpp=line.has("c"))
    values = (wanted.group, wanted.topic, wanted.is_forced, text, unix_ms)
    try:
        found = await _reset_online(admin, wanted)
    except _NobodyOnlineError:
        resets = await reset_offline(admin, wanted)
        admin.printf(f"reset consumer offset by specified consumerGroup{_RESET}", *values)
        print_resets(admin, resets, "#resetOffset")
    else:
        admin.printf(f"start reset consumer offset by specified, group{_RESET}", *values)
        _print_offsets(admin, found)


@command(
    "skipAccumulatedMessage",
    value("g", "group", "set the consumer group", required=True),
    value("t", "topic", "set the topic", required=True),
    value("f", "force", "set the force rollback by timestamp switch[true|false]"),
    value("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
)
async def _skip_accumulated_message(admin: Admin, line: CommandLine) -> None:
    wanted = _wanted(line, END)
    try:
        found = await _reset_online(admin, wanted)
    except _NobodyOnlineError:
        resets = await reset_offline(admin, wanted._replace(route_topic=wanted.topic))
        print_resets(admin, resets, "#rollbackOffset")
    else:
        _print_offsets(admin, found)


def _print_offsets(admin: Admin, offsets: Mapping[MessageQueue, int]) -> None:
    admin.printf("%-40s  %-40s  %-40s%n", "#brokerName", "#queueId", "#offset")
    for queue, offset in offsets.items():
        admin.printf("%-40s  %-40d  %-40d%n", front(queue.broker_name, 32), queue.queue_id, offset)


def _wanted(line: CommandLine, unix_ms: int, *, is_for_cpp: bool = False) -> TimeReset:
    topic, cluster = line.needed("t"), line.text("c")
    is_of_cluster = cluster and (topic.startswith(_LIGHT) or topic == _TIMER)
    return TimeReset(
        group=line.needed("g"),
        topic=topic,
        unix_ms=unix_ms,
        is_forced=switch_value(line, "f", default=True),
        route_topic=cluster if cluster and is_of_cluster else topic,
        is_for_cpp=is_for_cpp,
    )


async def _reset_online(admin: Admin, wanted: TimeReset) -> Mapping[MessageQueue, int]:
    """Reset at the brokers, one after the other; returns the offsets in the order of Java's map."""
    request = reset_by_time(
        wanted.group, wanted.topic, wanted.unix_ms, is_forced=wanted.is_forced, is_for_cpp=wanted.is_for_cpp
    )
    found: dict[MessageQueue, int] = {}
    capacity = 1
    for broker in (await admin.route(wanted.route_topic)).broker_datas:
        address = address_in(broker)
        if address is None:
            continue
        answer = await admin.site.answer_of(address, request)
        if isinstance(answer.error, Refused) and answer.error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            raise _NobodyOnlineError
        if answer.error is not None:
            raise failure_of(answer.error, address)
        admin.note_change(address)
        offsets = answer.result
        if offsets:
            capacity = max(capacity, copied_capacity(len(offsets)))
        found |= {queue: offsets[queue] for queue in hash_map_order(offsets, queue_hash)}
    return {queue: found[queue] for queue in hash_map_order(found, queue_hash, capacity)}


async def _reset_queue(admin: Admin, line: CommandLine, address: str, queue_id: int, unix_ms: int) -> None:
    group, topic = line.needed("g"), line.needed("t")
    admin.printf(
        "start reset consumer offset by specified, group[%s], topic[%s], queueId[%s], broker[%s], "
        "timestamp(string)[%s], timestamp(long)[%s]%n",
        group,
        topic,
        queue_id,
        address,
        line.needed("s"),
        unix_ms,
    )
    if line.has("o"):
        offset = long_integer(line, "o", 0)
    else:
        offset = await admin.call(address, offset_at(topic, queue_id, unix_ms))
    admin.printf("reset consumer offset to %d%n", offset)
    # As mqadmin does, which never resets a queue to its very first offset.
    if offset > 0:
        await admin.change(address, commit_offset(group, topic, queue_id, offset))
        await admin.change(address, reset_offset(group, topic, queue_id, offset))


def _unix_ms(text: str) -> int:
    """Return a time: `now`, Unix ms, or `yyyy-MM-dd#HH:mm:ss:SSS` in local time; raises WrongUse."""
    if text == _NOW:
        return SystemClock().unix_ms()
    if _NUMBER.fullmatch(text):
        return int(text)
    seconds, _, ms = text.rpartition(":")
    try:
        return round(time.mktime(time.strptime(seconds, _DATE))) * 1000 + int(ms)
    except (ValueError, OverflowError):
        raise WrongUse(f"-s: {text} is not a time: now, Unix ms, or yyyy-MM-dd#HH:mm:ss:SSS") from None
