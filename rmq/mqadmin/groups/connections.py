"""consumerConnection, producerConnection and producer: who is connected."""

from typing import Final

from remoting.admin.group_views import all_producers_view, producers_view
from rmq.failures import UnknownName
from rmq.mqadmin.admin import Admin, MqadminCommand, addresses_in
from rmq.mqadmin.consume_stats import consumers_of
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import concurrent_order, string_order
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.java.versions import version_text


async def _show_consumers(admin: Admin, line: CommandLine) -> None:
    found = await consumers_of(admin, line.needed("g"), line.text("b"))
    admin.printf("%-36s %-22s %-10s %s%n", "#ClientId", "#ClientAddr", "#Language", "#Version")
    for each in found.connection_set:
        admin.printf(
            "%-36s %-22s %-10s %s%n", each.client_id, each.client_addr, each.language, version_text(each.version)
        )
    admin.printf("%nBelow is subscription:%n")
    admin.printf("%-20s %s%n", "#Topic", "#SubExpression")
    for topic in concurrent_order(found.subscription_table):
        taken = found.subscription_table[topic]
        admin.printf("%-20s %s%n", taken.topic, taken.sub_string)
    admin.printf("%nConsumeType: %s%n", found.consume_type)
    admin.printf("MessageModel: %s%n", found.message_model)
    admin.printf("ConsumeFromWhere: %s%n", found.consume_from_where)


async def _show_producers(admin: Admin, line: CommandLine) -> None:
    brokers = (await admin.route(line.needed("t"))).broker_datas
    # mqadmin takes any of them.
    address = next(iter(addresses_in(brokers)), None)
    clients = [] if address is None else (await admin.call(address, producers_view(line.needed("g")))).connection_set
    if not clients:
        raise UnknownName("Not found the producer group connection")
    for number, each in enumerate(clients, start=1):
        admin.printf(
            "%04d  %-32s %-22s %-8s %s%n",
            number,
            each.client_id,
            each.client_addr,
            each.language,
            version_text(each.version),
        )


async def _show_all_producers(admin: Admin, line: CommandLine) -> None:
    groups = (await admin.call(line.needed("b"), all_producers_view())).data
    for group in string_order(groups):
        if not groups[group]:
            admin.printf("producer group (%s) instances are empty%n", group)
        for each in groups[group]:
            admin.printf(
                "producer group (%s) instance : clientId=%s,remoteIP=%s, language=%s, version=%d, "
                "lastUpdateTimestamp=%d%n",
                group,
                each.client_id,
                each.remote_ip,
                each.language,
                each.version,
                each.last_update_timestamp,
            )


CONSUMER_CONNECTION: Final = MqadminCommand(
    options_of(
        value("g", "consumerGroup", "consumer group name", required=True), value("b", "brokerAddr", "broker address")
    ),
    _show_consumers,
)
PRODUCER_CONNECTION: Final = MqadminCommand(
    options_of(
        value("g", "producerGroup", "producer group name", required=True),
        value("t", "topic", "topic name", required=True),
    ),
    _show_producers,
)
PRODUCER: Final = MqadminCommand(options_of(value("b", "broker", "broker address", required=True)), _show_all_producers)
