"""resetOffsetByTime and skipAccumulatedMessage."""

import re
import time
from collections.abc import Mapping
from typing import Final

from remoting.admin.group_views import reset_by_time
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offsets import commit_offset, offset_at, reset_offset
from remoting.clock import SystemClock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import Refused
from rmq.failures import WrongUse, failure_of
from rmq.mqadmin.admin import Admin, MqadminCommand, address_in, integer, long_integer, switch_value
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import copied_capacity, hash_map_order, queue_hash
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.java.texts import front
from rmq.mqadmin.offsets.offline_resets import END, TimeReset, print_resets, reset_offline

_NOW: Final = "now"
_DATE: Final = "%Y-%m-%d#%H:%M:%S"
_LIGHT: Final = "%LMQ%"
_TIMER: Final = "rmq_sys_wheel_timer"
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_RESET: Final = "[%s], topic[%s], force[%s], timestamp(string)[%s], timestamp(long)[%s]%n"


class _NobodyOnlineError(Exception):
    """No member of the group is online, and the broker does not reset on its own."""


async def _reset(admin: Admin, line: CommandLine) -> None:
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


async def _skip(admin: Admin, line: CommandLine) -> None:
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
        raise WrongUse(f"-s: {text} is no time: now, Unix ms, or yyyy-MM-dd#HH:mm:ss:SSS") from None


RESET_OFFSET_BY_TIME: Final = MqadminCommand(
    options_of(
        value("g", "group", "set the consumer group", required=True),
        value("t", "topic", "set the topic", required=True),
        value("s", "timestamp", "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]", required=True),
        value("f", "force", "set the force rollback by timestamp switch[true|false]. Deprecated."),
        value("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
        value("b", "broker", "broker addr"),
        value("q", "queue", "queue id"),
        value("o", "offset", "Expect queue offset, not support old version broker"),
    ),
    _reset,
)
SKIP_ACCUMULATED_MESSAGE: Final = MqadminCommand(
    options_of(
        value("g", "group", "set the consumer group", required=True),
        value("t", "topic", "set the topic", required=True),
        value("f", "force", "set the force rollback by timestamp switch[true|false]"),
        value("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
    ),
    _skip,
)
