"""statsAll: what goes in and out of topics."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from remoting.admin.brokers import broker_stats
from remoting.protocol.shapes.broker_views import BrokerStatsView
from remoting.protocol.shapes.route import MASTER_ID
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand, addresses_in
from rmq.mqadmin.consume_stats import consume_stats
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, switch, value
from rmq.mqadmin.java.texts import front, java_format
from rmq.site.site import at_once

_RETRY_AND_DLQ: Final = ("%RETRY%", "%DLQ%")
_PUT: Final = "TOPIC_PUT_NUMS"
_GET: Final = "GROUP_GET_NUMS"


class _Traffic(NamedTuple):
    tps: float
    messages: int


async def _show(admin: Admin, line: CommandLine) -> None:
    wanted, only_active = line.text("t"), line.has("a")
    topics = await admin.topics()
    admin.printf(
        "%-64s  %-64s %12s %11s %11s %14s %14s%n",
        "#Topic",
        "#Consumer Group",
        "#Accumulation",
        "#InTPS",
        "#OutTPS",
        "#InMsg24Hour",
        "#OutMsg24Hour",
    )
    shown = [each for each in topics if not each.startswith(_RETRY_AND_DLQ) and wanted in (None, "", each)]
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


STATS_ALL: Final = MqadminCommand(
    options_of(switch("a", "activeTopic", "print active topic only"), value("t", "topic", "print select topic only")),
    _show,
)
