"""consumerProgress: how far groups are."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from remoting.admin.group_views import running_view
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.shapes.group_views import ConsumersView, GroupQueueView
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand, addresses_in, switch_value
from rmq.mqadmin.consume_stats import GroupStats, consume_stats, consumers_of
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.java.texts import date_text, front
from rmq.mqadmin.java.versions import version_text
from rmq.site.site import at_once

_RETRY: Final = "%RETRY%"
_UNKNOWN: Final = "N/A"
_PULL: Final = "CONSUME_ACTIVELY"
_PUSH: Final = "CONSUME_PASSIVELY"
_HEAD: Final = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s%n"
_ROW: Final = "%-64s  %-32s  %-4d  %-20d  %-20d  %-20d %-20s %s%n"
_HEAD_WITH_IP: Final = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s%n"
_ROW_WITH_IP: Final = "%-64s  %-32s  %-4d  %-20d  %-20d  %-20s %-20d %-20s %s%n"


async def _show(admin: Admin, line: CommandLine) -> None:
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


def _in_flight(queue: GroupQueueView) -> int | None:
    """Return how many messages clients have and did not commit; None of a broker that does not tell."""
    return None if queue.pull_offset is None else queue.pull_offset - queue.consumer_offset


async def _holders(admin: Admin, group: str) -> dict[MessageQueue, str]:
    """Return which client holds each queue, by its IP; as in mqadmin those that were found before a failure."""
    holders: dict[MessageQueue, str] = {}
    try:
        consumers = await consumers_of(admin, group)
        brokers = (await admin.route(f"{_RETRY}{group}")).broker_datas
        address = next(iter(addresses_in(brokers)), "")
        for client in consumers.connection_set:
            client_id = client.client_id or ""
            running = await admin.call(address, running_view(group, client_id, with_stacks=False))
            holders |= dict.fromkeys(by_queue(running.mq_table), client_id.split("@")[0])
    except CommandFailed:
        pass
    return holders


async def _list(admin: Admin) -> None:
    heads = ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    admin.printf("%-64s  %-6s  %-24s %-5s  %-14s  %-7s  %s%n", *heads)
    topics = await admin.topics()
    groups = [each.removeprefix(_RETRY) for each in topics if each.startswith(_RETRY)]
    found = await at_once(_group(admin, each) for each in groups)
    for group, (stats, consumers) in zip(groups, found, strict=True):
        _print_group(admin, group, stats, consumers)


async def _group(admin: Admin, group: str) -> tuple[GroupStats, ConsumersView]:
    """Return what there is of a group; as in mqadmin what fails is left blank."""
    stats, consumers = GroupStats({}, 0.0), ConsumersView()
    with suppress(CommandFailed):
        stats = await consume_stats(admin, group)
    with suppress(CommandFailed):
        consumers = await consumers_of(admin, group)
    return stats, consumers


def _print_group(admin: Admin, group: str, stats: GroupStats, consumers: ConsumersView) -> None:
    count = len(consumers.connection_set)
    kind = "PULL" if consumers.consume_type == _PULL else "PUSH"
    admin.printf(
        "%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d%n",
        front(group, 64),
        count,
        version_text(min(each.version for each in consumers.connection_set)) if count else "OFFLINE",
        kind if count else "",
        consumers.message_model if count and consumers.consume_type == _PUSH else "",
        int(stats.tps),
        stats.total_diff,
    )


CONSUMER_PROGRESS: Final = MqadminCommand(
    options_of(
        value("g", "groupName", "consumer group name"),
        value("t", "topicName", "topic name"),
        value("s", "showClientIP", "Show Client IP per Queue"),
        value("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
    ),
    _show,
)
