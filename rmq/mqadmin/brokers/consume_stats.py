"""brokerConsumeStats: how far all groups of a broker are."""

from collections.abc import Sequence
from typing import Final

from remoting.admin.group_views import broker_group_stats
from remoting.admin.message_queues import by_queue
from remoting.protocol.shapes.group_views import GroupStatsView
from rmq.mqadmin.admin import Admin, MqadminCommand, long_integer, switch_value, with_timeout
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.java.texts import date_text, front
from rmq.site.site import Site

_TIMEOUT_MS: Final = 50_000
_MS: Final = 1000


async def _get(admin: Admin, line: CommandLine) -> None:
    timeout_s = max(long_integer(line, "t", _TIMEOUT_MS) / _MS, 0.001)
    least = long_integer(line, "l", 0)
    # A broker with many groups takes longer than other requests may take.
    patient = Site(with_timeout(admin.settings, timeout_s))
    patient.odd = admin.site.odd
    try:
        found = await patient.call(
            line.needed("b"), broker_group_stats(only_orderly=switch_value(line, "o", default=False))
        )
    finally:
        await patient.close()
    admin.printf(
        "%-64s  %-64s  %-32s  %-4s  %-20s  %-20s  %-20s  %s%n",
        "#Topic",
        "#Group",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        "#Diff",
        "#LastTime",
    )
    for table in found.consume_stats_list:
        for group, stats in table.items():
            _print(admin, group, stats, least)
    admin.printf("%nDiff Total: %d%n", found.total_diff)


def _print(admin: Admin, group: str, stats: Sequence[GroupStatsView], least: int) -> None:
    for each in stats:
        queues = by_queue(each.offset_table)
        for queue in sorted(queues):
            found = queues[queue]
            diff = found.broker_offset - found.consumer_offset
            if diff < least or found.last_timestamp <= 0:
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
                date_text(found.last_timestamp),
            )


BROKER_CONSUME_STATS: Final = MqadminCommand(
    options_of(
        value("b", "brokerAddr", "Broker address", required=True),
        value("t", "timeoutMillis", "request timeout Millis"),
        value("l", "level", "threshold of print diff"),
        value("o", "order", "order topic"),
    ),
    _get,
)
