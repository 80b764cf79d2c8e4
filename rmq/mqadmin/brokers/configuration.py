"""getBrokerConfig and updateBrokerConfig."""

from collections.abc import Mapping, Sequence
from typing import Final

from remoting.admin.configuration import update_broker_config
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.route import MASTER_ID, BrokerData
from rmq.failures import WrongUse
from rmq.mqadmin.admin import Admin, MqadminCommand, members_in
from rmq.mqadmin.configuration_text import configuration, print_configuration
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import string_order
from rmq.mqadmin.java.options import ExclusiveOptions, options_of, value

#: Where mqadmin lists slaves whose master is away.
_NO_MASTER: Final = "NO_MASTER"
_MASTERS_CAPACITY: Final = 4
#: Brokers register again with another permission; it has two bits.
_PERMISSION: Final = "brokerPermission"
_PERMISSIONS: Final = frozenset("01234567")


async def _get(admin: Admin, line: CommandLine) -> None:
    address = line.text("b")
    if address is not None:
        await _print(admin, f"============{address}============", address)
        return
    slaves = _slaves_by_master(await admin.sets_of(line.needed("c")))
    for master in string_order(slaves, _MASTERS_CAPACITY):
        await _print(admin, f"============Master: {master}============", master)
        for slave in slaves[master]:
            await _print(admin, f"============My Master: {master}=====Slave: {slave}============", slave)


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


async def _print(admin: Admin, title: str, address: str) -> None:
    admin.printf("%s%n", title)
    if address != _NO_MASTER:
        print_configuration(admin, await admin.call(address, configuration(RequestCode.GET_BROKER_CONFIG)))
        admin.printf("%n")


async def _update(admin: Admin, line: CommandLine) -> None:
    key, text = line.needed("k"), line.needed("v")
    if key == _PERMISSION and text not in _PERMISSIONS:
        raise WrongUse(f"{_PERMISSION} value: {text} is invalid.")
    request = update_broker_config({key: text})
    done = "update broker config success, %s%n"
    if not await admin.at_broker_or_cluster(line, request, done, slaves_too=line.has("a")):
        admin.print_usage()


GET_BROKER_CONFIG: Final = MqadminCommand(
    options_of(
        ExclusiveOptions((value("b", "brokerAddr", "get which broker"), value("c", "clusterName", "get which cluster")))
    ),
    _get,
)
UPDATE_BROKER_CONFIG: Final = MqadminCommand(
    options_of(
        value("b", "brokerAddr", "update which broker"),
        value("c", "clusterName", "update which cluster"),
        value("a", "updateAllBroker", "update all brokers include slave"),
        value("k", "key", "config key", required=True),
        value("v", "value", "config value", required=True),
    ),
    _update,
)
