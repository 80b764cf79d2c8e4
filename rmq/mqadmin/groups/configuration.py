"""getConsumerConfig: the configuration of a group at every broker set."""

from typing import Final

from remoting.admin.group_views import subscription_groups_view
from rmq.mqadmin.admin import Admin, MqadminCommand, address_in, set_names
from rmq.mqadmin.groups.group_texts import group_fields
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _show(admin: Admin, line: CommandLine) -> None:
    group = line.needed("g")
    info = await admin.cluster()
    found = []
    for name in set_names(info.broker_addr_table):
        address = address_in(info.broker_addr_table[name])
        groups = {} if address is None else await admin.call(address, subscription_groups_view())
        if group in groups:
            found.append((name, groups[group]))
    table = info.cluster_addr_table
    for name, configuration in found:
        cluster = next((each for each in set_names(table) if name in table[each]), None)
        admin.printf("=============================%s:%s=============================%n", cluster, name)
        for field, text in group_fields(configuration).items():
            admin.printf("%-40s=  %s%n", field, text or "")


GET_CONSUMER_CONFIG: Final = MqadminCommand(
    options_of(value("g", "groupName", "subscription group name", required=True)), _show
)
