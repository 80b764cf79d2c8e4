"""getBrokerEpoch: the master epochs in the logs of brokers."""

from collections.abc import Sequence
from typing import Final

from remoting.admin.brokers import epochs_view
from rmq.mqadmin.admin import Admin, MqadminCommand, members_in
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.options import ExclusiveOptions, options_of, value


async def _get(admin: Admin, line: CommandLine) -> None:
    async def once() -> None:
        broker = line.text("b")
        if broker is None:
            await _print(admin, await admin.members_of(line.needed("c")))
            return
        found = (await admin.cluster()).broker_addr_table.get(broker)
        await _print(admin, string_order(members_in(found)) if found else [])

    await admin.repeatedly(line, once)


async def _print(admin: Admin, addresses: Sequence[str]) -> None:
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


GET_BROKER_EPOCH: Final = MqadminCommand(
    options_of(
        ExclusiveOptions(
            (value("c", "clusterName", "which cluster"), value("b", "brokerName", "which broker to fetch"))
        ),
        value("i", "interval", "the interval(second) of get info"),
    ),
    _get,
)
