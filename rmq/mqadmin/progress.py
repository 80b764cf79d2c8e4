"""How far groups are, and what goes in and out of topics, as mqadmin finds it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec.structs import replace

from remoting.admin.brokers import broker_stats
from remoting.admin.group_views import broker_group_stats, consumers_view, running_view
from remoting.admin.groups import ConsumeStatsBody, GroupConnections, QueueLag, progress_of_group
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.shapes.broker_views import BrokerStatsView
from remoting.protocol.shapes.route import MASTER_ID, TopicRouteData
from rmq.failures import CommandFailed, UnknownName
from rmq.mqadmin.admin import DLQ, RETRY, Admin, addresses_in, command, long_integer, switch_value
from rmq.mqadmin.java.options import CommandLine, switch, value
from rmq.mqadmin.java.texts import date_text, front, java_format, version_text
from rmq.site.site import Site, at_once

_LIGHT: Final = "%LMQ%"
_TIMER: Final = "rmq_sys_wheel_timer"
_NOTHING_FOUND: Final = "Not found the consumer group consume stats, because return offset table is empty, {}"
_UNKNOWN: Final = "N/A"
_PULL: Final = "CONSUME_ACTIVELY"
_PUSH: Final = "CONSUME_PASSIVELY"
_HEAD: Final = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s%n"
_ROW: Final = "%-64s  %-32s  %-4d  %-20d  %-20d  %-20d %-20s %s%n"
_HEAD_WITH_IP: Final = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s%n"
_ROW_WITH_IP: Final = "%-64s  %-32s  %-4d  %-20d  %-20d  %-20s %-20d %-20s %s%n"
_TIMEOUT_MS: Final = 50_000
_MS: Final = 1000
_PUT: Final = "TOPIC_PUT_NUMS"
_GET: Final = "GROUP_GET_NUMS"


class GroupStats(NamedTuple):
    queues: Mapping[MessageQueue, QueueLag]
    tps: float

    @property
    def total_diff(self) -> int:
        return sum(each.broker_offset - each.consumer_offset for each in self.queues.values())


async def consume_stats(admin: Admin, group: str, topic: str | None = None, cluster: str | None = None) -> GroupStats:
    """Return how far a group is in a topic, or in all that it has offsets of; raises CommandFailed.

    With a cluster the route may be that of the cluster's own topic, for light queues and the timer.
    """
    route = await _route_of(admin, group, topic, cluster)
    queues: dict[MessageQueue, QueueLag] = {}
    tps = 0.0
    for address in addresses_in(route.broker_datas):
        stats = await admin.call(address, progress_of_group(group, topic))
        queues |= stats.queues
        tps += stats.consume_tps or 0
    if not cluster:
        # mqadmin reads the route of every topic, and fails for one that has none.
        for each in {queue.topic for queue in queues}:
            await admin.route(each)
    if not queues:
        await _check_found(admin, group)
    return GroupStats(queues, tps)


async def consumers_of(admin: Admin, group: str, address: str | None = None) -> GroupConnections:
    """Return the consumers of a group that are connected to a broker; raises CommandFailed if there are none."""
    if address is None:
        address = await retry_address(admin, group)
    found = GroupConnections() if address is None else await admin.call(address, consumers_view(group))
    if not found.clients:
        raise UnknownName("Not found the consumer group connection")
    return found


async def retry_address(admin: Admin, group: str) -> str | None:
    """Return the address of a broker that has a group's retry topic; mqadmin takes any of them."""
    return next(iter(addresses_in((await admin.route(f"{RETRY}{group}")).broker_datas)), None)


async def _route_of(admin: Admin, group: str, topic: str | None, cluster: str | None) -> TopicRouteData:
    topics = [f"{RETRY}{group}"]
    if topic is not None:
        topics += [topic, f"{RETRY}{group}_{topic}"]
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
    if found.is_broadcasting:
        raise CommandFailed(_NOTHING_FOUND.format("the consumer is under the broadcast mode"))


@command(
    "consumerProgress",
    value("g", "groupName", "consumer group name"),
    value("t", "topicName", "topic name"),
    value("s", "showClientIP", "Show Client IP per Queue"),
    value("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
)
async def _consumer_progress(admin: Admin, line: CommandLine) -> None:
    group = line.text("g")
    if group is None:
        await _list(admin)
        return
    topic = line.text("t")
    stats = await consume_stats(admin, group, topic, line.text("c") if topic is not None else None)
    holders = await _holders(admin, group) if switch_value(line, "s", default=False) else None
    _print_queues(admin, stats, holders)


def _print_queues(admin: Admin, stats: GroupStats, holders: Mapping[MessageQueue, str] | None) -> None:
    columns = ["#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset"]
    ip_column = [] if holders is None else ["#Client IP"]
    head = _HEAD if holders is None else _HEAD_WITH_IP
    admin.printf(head, *columns, *ip_column, "#Diff", "#Inflight", "#LastTime")
    for queue in sorted(stats.queues):
        found = stats.queues[queue]
        in_flight = _in_flight(found)
        admin.printf(
            _ROW if holders is None else _ROW_WITH_IP,
            front(queue.topic, 64),
            front(queue.broker_name, 32),
            queue.queue_id,
            found.broker_offset,
            found.consumer_offset,
            *([] if holders is None else [holders.get(queue, _UNKNOWN)]),
            found.broker_offset - found.consumer_offset,
            _UNKNOWN if in_flight is None else in_flight,
            date_text(found.last_timestamp) if found.last_timestamp else _UNKNOWN,
        )
    admin.printf("%nConsume TPS: %.2f%n", stats.tps)
    admin.printf("Consume Diff Total: %d%n", stats.total_diff)
    known = [each for each in map(_in_flight, stats.queues.values()) if each is not None]
    admin.printf("Consume Inflight Total: %s%n", sum(known) if len(known) == len(stats.queues) else _UNKNOWN)


def _in_flight(queue: QueueLag) -> int | None:
    """Return how many messages clients have and did not commit; None of a broker that does not tell."""
    return None if queue.pull_offset is None else queue.pull_offset - queue.consumer_offset


async def _holders(admin: Admin, group: str) -> dict[MessageQueue, str]:
    """Return which client holds each queue, by its IP; as in mqadmin those that were found before a failure."""
    holders: dict[MessageQueue, str] = {}
    try:
        consumers = await consumers_of(admin, group)
        address = await retry_address(admin, group) or ""
        for client in consumers.clients:
            running = await admin.call(address, running_view(group, client.client_id, with_stacks=False))
            holders |= dict.fromkeys(by_queue(running.mq_table), client.client_id.split("@")[0])
    except CommandFailed:
        pass
    return holders


async def _list(admin: Admin) -> None:
    heads = ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    admin.printf("%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s%n", *heads)
    topics = await admin.topics()
    groups = [each.removeprefix(RETRY) for each in topics if each.startswith(RETRY)]
    found = await at_once(_stats_and_consumers(admin, each) for each in groups)
    for group, (stats, consumers) in zip(groups, found, strict=True):
        _print_group(admin, group, stats, consumers)


async def _stats_and_consumers(admin: Admin, group: str) -> tuple[GroupStats, GroupConnections]:
    """Return what there is of a group; as in mqadmin what fails is left blank."""
    stats, consumers = GroupStats({}, 0.0), GroupConnections()
    with suppress(CommandFailed):
        stats = await consume_stats(admin, group)
    with suppress(CommandFailed):
        consumers = await consumers_of(admin, group)
    return stats, consumers


def _print_group(admin: Admin, group: str, stats: GroupStats, consumers: GroupConnections) -> None:
    count = len(consumers.clients)
    kind = "PULL" if consumers.consume_type == _PULL else "PUSH"
    admin.printf(
        "%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d%n",
        front(group, 64),
        count,
        version_text(min(each.version or 0 for each in consumers.clients)) if count else "OFFLINE",
        kind if count else "",
        consumers.message_model if count and consumers.consume_type == _PUSH else "",
        int(stats.tps),
        stats.total_diff,
    )


@command(
    "brokerConsumeStats",
    value("b", "brokerAddr", "Broker address", required=True),
    value("t", "timeoutMillis", "request timeout Millis"),
    value("l", "level", "threshold of print diff"),
    value("o", "order", "order topic"),
)
async def _broker_consume_stats(admin: Admin, line: CommandLine) -> None:
    timeout_s = max(long_integer(line, "t", _TIMEOUT_MS) / _MS, 0.001)
    least = long_integer(line, "l", 0)
    # A broker with many groups takes longer than other requests may take.
    patient = Site(replace(admin.settings, timeout_s=timeout_s))
    patient.odd = admin.site.odd
    try:
        found = await patient.call(
            line.needed("b"), broker_group_stats(only_orderly=switch_value(line, "o", default=False))
        )
    finally:
        await patient.close()
    admin.print_heads(
        "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s%n",
        "#Topic|#Group|#Broker Name|#QID|#Broker Offset|#Consumer Offset|#Diff|#LastTime",
    )
    for table in found.consume_stats_list:
        for group, stats in table.items():
            _print_stats(admin, group, stats, least)
    admin.printf("%nDiff Total: %d%n", found.total_diff)


def _print_stats(admin: Admin, group: str, stats: Sequence[ConsumeStatsBody], least: int) -> None:
    for each in stats:
        queues = by_queue(each.offset_table)
        for queue in sorted(queues):
            found = queues[queue]
            diff = found.broker_offset - found.consumer_offset
            if diff < least or (found.last_timestamp or 0) <= 0:
                continue
            admin.printf(
                "%-64s  %-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s%n",
                front(queue.topic, 64),
                group,
                front(queue.broker_name, 32),
                queue.queue_id,
                found.broker_offset,
                found.consumer_offset,
                diff,
                date_text(found.last_timestamp or 0),
            )


class _Traffic(NamedTuple):
    tps: float
    messages: int


@command(
    "statsAll", switch("a", "activeTopic", "print active topic only"), value("t", "topic", "print select topic only")
)
async def _stats_all(admin: Admin, line: CommandLine) -> None:
    wanted, only_active = line.text("t"), line.has("a")
    topics = await admin.topics()
    admin.print_heads(
        "%-64s  %-64s %12s %11s %11s %14s %14s%n",
        "#Topic|#Consumer Group|#Accumulation|#InTPS|#OutTPS|#InMsg24Hour|#OutMsg24Hour",
    )
    shown = [each for each in topics if not each.startswith((RETRY, DLQ)) and wanted in (None, "", each)]
    for text in await at_once(_lines(admin, each, only_active=only_active) for each in shown):
        admin.write(text)


async def _lines(admin: Admin, topic: str, *, only_active: bool) -> str:
    """Return the lines of a topic; as in mqadmin none of one that fails."""
    try:
        route = await admin.route(topic)
        addresses = addresses_in(route.broker_datas)
        groups = await admin.groups_of(addresses[0], topic) if addresses else []
    except CommandFailed:
        return ""
    masters = [each.broker_addrs[MASTER_ID] for each in route.broker_datas if MASTER_ID in each.broker_addrs]
    put = await _traffic(admin, masters, _PUT, topic)
    if groups:
        return "".join(
            [await _group_line(admin, topic, each, masters, put, only_active=only_active) for each in groups]
        )
    if only_active and put.messages <= 0:
        return ""
    return java_format(
        "%-64s  %-64s %12d %11.2f %11s %14d %14s%n", front(topic, 64), "", 0, put.tps, "", put.messages, "NO_CONSUMER"
    )


async def _group_line(
    admin: Admin, topic: str, group: str, masters: Sequence[str], put: _Traffic, *, only_active: bool
) -> str:
    got = await _traffic(admin, masters, _GET, f"{topic}@{group}")
    if only_active and put.messages <= 0 and got.messages <= 0:
        return ""
    try:
        behind = max((await consume_stats(admin, group, topic)).total_diff, 0)
    except CommandFailed:
        behind = 0
    return java_format(
        "%-64s  %-64s %12d %11.2f %11.2f %14d %14d%n",
        front(topic, 64),
        front(group, 64),
        behind,
        put.tps,
        got.tps,
        put.messages,
        got.messages,
    )


async def _traffic(admin: Admin, masters: Sequence[str], name: str, key: str) -> _Traffic:
    """Return what masters count together; those that do not answer or have counted nothing count as 0."""
    tps, messages = 0.0, 0
    for address in masters:
        answer = await admin.site.answer_of(address, broker_stats(name, key))
        if answer.error is None:
            tps += answer.result.stats_minute.tps
            messages += _messages_of_a_day(answer.result)
    return _Traffic(tps, messages)


def _messages_of_a_day(found: BrokerStatsView) -> int:
    return found.stats_day.sum or found.stats_hour.sum or found.stats_minute.sum
