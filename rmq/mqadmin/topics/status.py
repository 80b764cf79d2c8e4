"""topicStatus: where the queues of a topic begin and end."""

from typing import Final

from remoting.admin.brokers import topic_stats_view
from remoting.admin.message_queues import by_queue
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand, addresses_in
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value
from rmq.mqadmin.java.texts import front, time_text


async def _show(admin: Admin, line: CommandLine) -> None:
    topic, cluster = line.needed("t"), line.text("c")
    # With -c the route is that of the topic which every broker of a cluster has under the cluster's name.
    route = await admin.route(topic if cluster is None else cluster)
    addresses = addresses_in(route.broker_datas)
    stats = [await admin.call(address, topic_stats_view(topic)) for address in addresses]
    queues = {queue: each for found in stats for queue, each in by_queue(found.offset_table).items()}
    if not queues and cluster is None:
        raise CommandFailed("Not found the topic stats info")
    admin.printf(
        "%-32s  %-4s  %-20s  %-20s    %s%n", "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"
    )
    for queue in sorted(queues):
        found = queues[queue]
        admin.printf(
            "%-32s  %-4d  %-20d  %-20d    %s%n",
            front(queue.broker_name, 32),
            queue.queue_id,
            found.min_offset,
            found.max_offset,
            time_text(found.last_update_timestamp) if found.last_update_timestamp > 0 else "",
        )
    # mqadmin never adds up what brokers report here.
    admin.printf("%nTopic Put TPS: %s%n", 0.0)


TOPIC_STATUS: Final = MqadminCommand(
    options_of(
        value("t", "topic", "topic name", required=True),
        value("c", "cluster", "cluster name or lmq parent topic, lmq is used to find the route."),
    ),
    _show,
)
