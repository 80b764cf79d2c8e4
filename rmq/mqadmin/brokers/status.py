"""brokerStatus: what brokers report about themselves."""

from typing import Final

from remoting.admin.brokers import broker_facts
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import ExclusiveOptions, options_of, value


async def _get(admin: Admin, line: CommandLine) -> None:
    address = line.text("b")
    if address is not None:
        await _print(admin, address, "")
        return
    for each in await admin.members_of(line.needed("c")):
        try:
            await _print(admin, each, f"{each:<24} ")
        except CommandFailed as failure:
            admin.note_failure(failure)


async def _print(admin: Admin, address: str, prefix: str) -> None:
    facts = await admin.call(address, broker_facts())
    for name in sorted(facts):
        admin.printf("%s%-32s: %s%n", prefix, name, facts[name])


BROKER_STATUS: Final = MqadminCommand(
    options_of(
        ExclusiveOptions((value("b", "brokerAddr", "Broker address"), value("c", "clusterName", "which cluster")))
    ),
    _get,
)
