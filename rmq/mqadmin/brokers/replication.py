"""haStatus: how far slaves are behind their masters."""

from typing import Final

from remoting.admin.brokers import ha_view
from remoting.protocol.shapes.broker_views import HaClientView, HaStatusView
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.java.texts import time_text

_BYTES: Final = 1024.0


async def _get(admin: Admin, line: CommandLine) -> None:
    async def once() -> None:
        address, cluster = line.text("b"), line.text("c")
        if address is None and cluster is None:
            admin.print_usage()
            return
        for each in [address] if address is not None else await admin.masters_of(cluster or ""):
            _print(admin, each, await admin.call(each, ha_view()))

    await admin.repeatedly(line, once)


def _print(admin: Admin, address: str, found: HaStatusView) -> None:
    if not found.master:
        _print_slave(admin, found.ha_client_runtime_info)
        return
    admin.printf(
        "%n#MasterAddr\t%s%n#MasterCommitLogMaxOffset\t%d%n#SlaveNum\t%d%n#InSyncSlaveNum\t%d%n",
        address,
        found.master_commit_log_max_offset,
        len(found.ha_connection_info),
        found.in_sync_slave_nums,
    )
    admin.printf(
        "%-32s  %-16s %16s %16s %16s %16s%n",
        "#SlaveAddr",
        "#SlaveAckOffset",
        "#Diff",
        "#TransferSpeed(KB/s)",
        "#Status",
        "#TransferFromWhere",
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


HA_STATUS: Final = MqadminCommand(
    options_of(
        value("c", "clusterName", "which cluster"),
        value("b", "brokerAddr", "which broker to fetch"),
        value("i", "interval", "the interval(second) of get info"),
    ),
    _get,
)
