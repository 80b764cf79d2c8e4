"""clusterList: clusters, brokers and their load."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from remoting.admin.brokers import broker_facts
from remoting.clock import SystemClock
from remoting.protocol.shapes.namesrv import ClusterInfo
from rmq.failures import failure_of
from rmq.mqadmin.admin import Admin, MqadminCommand, long_integer, set_names
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import hash_map_order, long_hash
from rmq.mqadmin.java.options import options_of, switch, value
from rmq.mqadmin.java.texts import java_format
from rmq.site.site import at_once

_TOTALS: Final = "%-16s  %-32s %14s %14s %14s %14s%n"
_HEADS: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s%n"
_ROWS: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s%n"
_HOUR_MS: Final = 1000.0 * 60.0 * 60.0
_TEN_THOUSAND: Final = 10_000

Facts = Mapping[str, str]


class _ListedBroker(NamedTuple):
    cluster: str
    broker_name: str
    broker_id: int
    address: str


async def _list(admin: Admin, line: CommandLine) -> None:
    interval_s = long_integer(line, "i", 0)
    await _print(admin, line)
    while line.has("i"):
        sys.stdout.flush()
        await asyncio.sleep(interval_s)
        await _print(admin, line)


async def _print(admin: Admin, line: CommandLine) -> None:
    info = await admin.cluster()
    admin.note_answer()
    cluster = line.text("c")
    members = list(_members(info, [cluster] if cluster else set_names(info.cluster_addr_table)))
    shows_totals = line.has("m")
    _print_heads(admin, shows_totals=shows_totals)
    # The brokers are read at once, and printed in their order.
    reads = [admin.site.answer_of(each.address, broker_facts()) for each in members]
    for member, answer in zip(members, await at_once(reads), strict=True):
        facts = answer.result if answer.error is None else {}
        if answer.error is not None and not shows_totals:
            admin.note_failure(failure_of(answer.error, member.address))
        (_print_totals if shows_totals else _print_load)(admin, member, facts)


def _members(info: ClusterInfo, clusters: Sequence[str]) -> Iterator[_ListedBroker]:
    for cluster in clusters:
        for name in sorted(set(info.cluster_addr_table.get(cluster, ()))):
            addresses = info.broker_addr_table[name].broker_addrs if name in info.broker_addr_table else {}
            for broker_id in hash_map_order(addresses, long_hash):
                yield _ListedBroker(cluster, name, broker_id, addresses[broker_id])


def _print_heads(admin: Admin, *, shows_totals: bool) -> None:
    if shows_totals:
        titles = ("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
        admin.printf(_TOTALS, "#Cluster Name", "#Broker Name", *titles)
        return
    admin.printf(
        _HEADS,
        "#Cluster Name",
        "#Broker Name",
        "#BID",
        "#Addr",
        "#Version",
        "#InTPS(LOAD)",
        "#OutTPS(LOAD)",
        "#Timer(Progress)",
        "#PCWait(ms)",
        "#Hour",
        "#SPACE",
        "#ACTIVATED",
    )


def _print_totals(admin: Admin, member: _ListedBroker, facts: Facts) -> None:
    totals = [0, 0, 0, 0]
    # As mqadmin does, a broker whose counters cannot be read is shown with 0.
    with suppress(KeyError, ValueError):
        for at, (later, earlier) in enumerate((("TodayMorning", "YesterdayMorning"), ("TodayNow", "TodayMorning"))):
            for side, verb in enumerate(("Put", "Get")):
                difference = int(facts[f"msg{verb}Total{later}"]) - int(facts[f"msg{verb}Total{earlier}"])
                totals[2 * at + side] = difference
    admin.printf(_TOTALS, member.cluster, member.broker_name, *totals)


def _print_load(admin: Admin, member: _ListedBroker, facts: Facts) -> None:
    def text(name: str) -> str | None:
        return facts.get(name) if facts else ""

    def threads(kind: str, missing: str | None = None) -> tuple[str | None, str | None]:
        names = (f"{kind}ThreadPoolQueueSize", f"{kind}ThreadPoolQueueHeadWaitTimeMills")
        size, wait = (facts.get(name, missing) if facts else "" for name in names)
        return size, wait

    admin.printf(
        _ROWS,
        member.cluster,
        member.broker_name,
        member.broker_id,
        member.address,
        text("brokerVersionDesc"),
        java_format("%9.2f(%s,%sms)", _first_number(facts.get("putTps")), *threads("send")),
        java_format(
            "%9.2f(%s,%sms|%s,%sms)",
            _first_number(facts.get("getTransferredTps")),
            *threads("pull"),
            *threads("ack", "N"),
        ),
        _timer(facts),
        text("pageCacheLockTimeMills"),
        java_format("%.2f", _hours_since(facts.get("earliestMessageTimeStamp"))),
        java_format("%.4f", _number(facts.get("commitLogDiskRatio"), float)),
        facts.get("brokerActive", "").lower() == "true",
    )


def _timer(facts: Facts) -> str:
    names = ("timerReadBehind", "timerOffsetBehind", "timerCongestNum", "timerEnqueueTps", "timerDequeueTps")
    numbers = [0.0] * len(names)
    # mqadmin reads them one after the other, up to the first that is missing.
    with suppress(KeyError, ValueError):
        for at, name in enumerate(names):
            numbers[at] = float(facts[name])
    read, offset, waiting, enqueued, dequeued = numbers
    return java_format("%d-%d(%.1fw, %.1f, %.1f)", int(read), int(offset), waiting / _TEN_THOUSAND, enqueued, dequeued)


def _first_number(text: str | None) -> float:
    return _number((text or "").split(" ")[0], float)


def _hours_since(unix_ms: str | None) -> float:
    return (SystemClock().unix_ms() - _number(unix_ms, int)) / _HOUR_MS if unix_ms else 0.0


def _number(text: str | None, kind: Callable[[str], float]) -> float:
    try:
        return kind(text or "0")
    except ValueError:
        return 0.0


CLUSTER_LIST: Final = MqadminCommand(
    options_of(
        switch("m", "moreStats", "Print more stats"),
        value("i", "interval", "specify intervals numbers, it is in seconds"),
        value("c", "clusterName", "which cluster"),
    ),
    _list,
)
