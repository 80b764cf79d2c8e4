"""Commands of mqadmin about brokers and clusters."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import (
    broker_facts,
    clean_expired_queues,
    clean_unused_topics,
    delete_expired_commit_logs,
    epochs_view,
    ha_status,
)
from remoting.admin.configuration import update_config
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.broker_views import HaClientView, HaStatusView
from remoting.protocol.shapes.namesrv import ClusterInfo
from remoting.protocol.shapes.route import MASTER_ID, BrokerData
from rmq.failures import CommandFailed, WrongUse, failure_of
from rmq.mqadmin.admin import Admin, command, configuration, long_integer, members_in, print_configuration
from rmq.mqadmin.java.hash_order import hash_map_order, long_hash, string_order
from rmq.mqadmin.java.options import CommandLine, either, switch, value
from rmq.mqadmin.java.texts import java_format, time_text
from rmq.site.site import at_once

_TOTALS: Final = "%-16s  %-32s %14s %14s %14s %14s%n"
_HEADS: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %-11s  %-12s  %-8s  %-10s%n"
_ROWS: Final = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s%n"
_HOUR_MS: Final = 1000.0 * 60.0 * 60.0
_TEN_THOUSAND: Final = 10_000
Facts = Mapping[str, str]
#: Where mqadmin lists slaves whose master is away.
_NO_MASTER: Final = "NO_MASTER"
_MASTERS_CAPACITY: Final = 4
#: Brokers register again with another permission; it has two bits.
_PERMISSION: Final = "brokerPermission"
_PERMISSIONS: Final = frozenset("01234567")
_BYTES: Final = 1024.0


class _ListedBroker(NamedTuple):
    cluster: str
    broker_name: str
    broker_id: int
    address: str


@command(
    "clusterList",
    switch("m", "moreStats", "Print more stats"),
    value("i", "interval", "specify intervals numbers, it is in seconds"),
    value("c", "clusterName", "which cluster"),
)
async def _cluster_list(admin: Admin, line: CommandLine) -> None:
    interval_s = long_integer(line, "i", 0)
    await _print_clusters(admin, line)
    while line.has("i"):
        sys.stdout.flush()
        await asyncio.sleep(interval_s)
        await _print_clusters(admin, line)


async def _print_clusters(admin: Admin, line: CommandLine) -> None:
    info = await admin.cluster()
    admin.note_answer()
    cluster = line.text("c")
    members = list(_listed(info, [cluster] if cluster else string_order(info.cluster_addr_table)))
    shows_totals = line.has("m")
    _print_heads(admin, shows_totals=shows_totals)
    # The brokers are read at once, and printed in their order.
    reads = [admin.site.answer_of(each.address, broker_facts()) for each in members]
    for member, answer in zip(members, await at_once(reads), strict=True):
        facts = answer.result if answer.error is None else {}
        if answer.error is not None and not shows_totals:
            admin.note_failure(failure_of(answer.error, member.address))
        (_print_totals if shows_totals else _print_load)(admin, member, facts)


def _listed(info: ClusterInfo, clusters: Sequence[str]) -> Iterator[_ListedBroker]:
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
    admin.print_heads(
        _HEADS,
        "#Cluster Name|#Broker Name|#BID|#Addr|#Version|#InTPS(LOAD)|"
        "#OutTPS(LOAD)|#Timer(Progress)|#PCWait(ms)|#Hour|#SPACE|#ACTIVATED",
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


@command("brokerStatus", either(value("b", "brokerAddr", "Broker address"), value("c", "clusterName", "which cluster")))
async def _broker_status(admin: Admin, line: CommandLine) -> None:
    address = line.text("b")
    if address is not None:
        await _print_facts(admin, address, "")
        return
    for each in await admin.members_of(line.needed("c")):
        try:
            await _print_facts(admin, each, f"{each:<24} ")
        except CommandFailed as failure:
            admin.note_failure(failure)


async def _print_facts(admin: Admin, address: str, prefix: str) -> None:
    facts = await admin.call(address, broker_facts())
    for name in sorted(facts):
        admin.printf("%s%-32s: %s%n", prefix, name, facts[name])


@command(
    "getBrokerConfig",
    either(value("b", "brokerAddr", "get which broker"), value("c", "clusterName", "get which cluster")),
)
async def _get_broker_config(admin: Admin, line: CommandLine) -> None:
    address = line.text("b")
    if address is not None:
        await _print_options(admin, f"============{address}============", address)
        return
    slaves = _slaves_by_master(await admin.sets_of(line.needed("c")))
    for master in string_order(slaves, _MASTERS_CAPACITY):
        await _print_options(admin, f"============Master: {master}============", master)
        for slave in slaves[master]:
            await _print_options(admin, f"============My Master: {master}=====Slave: {slave}============", slave)


def _slaves_by_master(broker_sets: Sequence[BrokerData]) -> Mapping[str, list[str]]:
    slaves: dict[str, list[str]] = {}
    for each in broker_sets:
        master = each.broker_addrs.get(MASTER_ID)
        found = [address for address in members_in(each) if address != master]
        if master is None:
            slaves.setdefault(_NO_MASTER, []).extend(found)
        else:
            slaves[master] = found
    return slaves


async def _print_options(admin: Admin, title: str, address: str) -> None:
    admin.printf("%s%n", title)
    if address != _NO_MASTER:
        print_configuration(admin, await admin.call(address, configuration(RequestCode.GET_BROKER_CONFIG)))
        admin.printf("%n")


@command(
    "updateBrokerConfig",
    value("b", "brokerAddr", "update which broker"),
    value("c", "clusterName", "update which cluster"),
    value("a", "updateAllBroker", "update all brokers include slave"),
    value("k", "key", "config key", required=True),
    value("v", "value", "config value", required=True),
)
async def _update_broker_config(admin: Admin, line: CommandLine) -> None:
    key, text = line.needed("k"), line.needed("v")
    if key == _PERMISSION and text not in _PERMISSIONS:
        raise WrongUse(f"{_PERMISSION} value: {text} is invalid.")
    request = update_config("broker", {key: text})
    done = "update broker config success, %s%n"
    if not await admin.at_broker_or_cluster(line, request, done, slaves_too=line.has("a")):
        admin.print_usage()


@command(
    "getBrokerEpoch",
    either(value("c", "clusterName", "which cluster"), value("b", "brokerName", "which broker to fetch")),
    value("i", "interval", "the interval(second) of get info"),
)
async def _get_broker_epoch(admin: Admin, line: CommandLine) -> None:
    async def once() -> None:
        broker = line.text("b")
        if broker is None:
            await _print_epochs(admin, await admin.members_of(line.needed("c")))
            return
        found = (await admin.cluster()).broker_addr_table.get(broker)
        await _print_epochs(admin, string_order(members_in(found)) if found else [])

    await admin.repeatedly(line, once)


async def _print_epochs(admin: Admin, addresses: Sequence[str]) -> None:
    for address in addresses:
        found = await admin.call(address, epochs_view())
        admin.printf(
            "%n#clusterName\t%s%n#brokerName\t%s%n#brokerAddr\t%s%n#brokerId\t%d",
            found.cluster_name,
            found.broker_name,
            address,
            found.broker_id,
        )
        for number, each in enumerate(found.epoch_list, start=1):
            end = found.max_offset if number == len(found.epoch_list) else each.end_offset
            admin.printf(
                "%n#Epoch: EpochEntry{epoch=%d, startOffset=%d, endOffset=%d}", each.epoch, each.start_offset, end
            )
        admin.printf("%n")


@command(
    "haStatus",
    value("c", "clusterName", "which cluster"),
    value("b", "brokerAddr", "which broker to fetch"),
    value("i", "interval", "the interval(second) of get info"),
)
async def _ha_status(admin: Admin, line: CommandLine) -> None:
    async def once() -> None:
        address, cluster = line.text("b"), line.text("c")
        if address is None and cluster is None:
            admin.print_usage()
            return
        for each in [address] if address is not None else await admin.masters_of(cluster or ""):
            _print_replication(admin, each, await admin.call(each, ha_status()))

    await admin.repeatedly(line, once)


def _print_replication(admin: Admin, address: str, found: HaStatusView) -> None:
    if not found.is_master:
        _print_slave(admin, found.ha_client_runtime_info)
        return
    admin.printf(
        "%n#MasterAddr\t%s%n#MasterCommitLogMaxOffset\t%d%n#SlaveNum\t%d%n#InSyncSlaveNum\t%d%n",
        address,
        found.max_offset or 0,
        len(found.ha_connection_info),
        found.in_sync_slave_nums,
    )
    admin.print_heads(
        "%-32s  %-16s %16s %16s %16s %16s%n",
        "#SlaveAddr|#SlaveAckOffset|#Diff|#TransferSpeed(KB/s)|#Status|#TransferFromWhere",
    )
    for each in found.ha_connection_info:
        admin.printf(
            "%-32s  %-16d %16d %16.2f %16s %16d%n",
            each.addr,
            each.slave_ack_offset,
            each.diff,
            each.transferred_byte_in_second / _BYTES,
            "OK" if each.in_sync else "Fall Behind",
            each.transfer_from_where,
        )


def _print_slave(admin: Admin, found: HaClientView) -> None:
    admin.printf("%n#MasterAddr\t%s%n", found.master_addr)
    admin.printf("#CommitLogMaxOffset\t%d%n", found.max_offset)
    admin.printf("#TransferSpeed(KB/s)\t%.2f%n", found.transferred_byte_in_second / _BYTES)
    admin.printf("#LastReadTime\t%s%n", time_text(found.last_read_timestamp))
    admin.printf("#LastWriteTime\t%s%n", time_text(found.last_write_timestamp))
    admin.printf("#MasterFlushOffset\t%s%n", found.master_flush_offset)


@command("cleanExpiredCQ", value("b", "brokerAddr", "Broker address"), value("c", "cluster", "clustername"))
async def _clean_expired_cq(admin: Admin, line: CommandLine) -> None:
    await _clean(admin, line, clean_expired_queues())


@command("cleanUnusedTopic", value("b", "brokerAddr", "Broker address"), value("c", "cluster", "cluster name"))
async def _clean_unused_topic(admin: Admin, line: CommandLine) -> None:
    await _clean(admin, line, clean_unused_topics())


@command(
    "deleteExpiredCommitLog",
    value("n", "namesrvAddr", "Name server address"),
    value("b", "brokerAddr", "Broker address"),
    value("c", "cluster", "clustername"),
)
async def _delete_expired_commit_log(admin: Admin, line: CommandLine) -> None:
    await _clean(admin, line, delete_expired_commit_logs())


async def _clean(admin: Admin, line: CommandLine, request: AdminRequest[None]) -> None:
    address = line.text("b")
    addresses = [address] if address is not None else await _members(admin, line.text("c"))
    await admin.at_all(addresses, request)
    # mqadmin prints no line end.
    admin.printf("success" if addresses else "false")


async def _members(admin: Admin, cluster: str | None) -> list[str]:
    """Return the brokers of a cluster, or of all; of an unknown one none. Raises WrongUse for a blank name."""
    if cluster == "":
        # An unset variable of a script: mqadmin goes to all clusters then.
        raise WrongUse("-c: the name of the cluster is blank; without -c it is all clusters")
    info = await admin.cluster()
    clusters = [cluster] if cluster is not None else list(info.cluster_addr_table)
    names = [name for each in clusters for name in info.cluster_addr_table.get(each, ())]
    found = [info.broker_addr_table.get(name) for name in names]
    return [address for each in found if each is not None for address in members_in(each)]
