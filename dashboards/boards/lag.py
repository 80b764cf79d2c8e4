"""For operators: are consumers behind? By the brokers' own metrics: control planes do not see messages.

Names and labels are those that a Java broker 5.5.0 serves with `metricsExporterType=PROM`. Its exporter appends units
to some names, so they differ from the documentation: `rocketmq_consumer_lag_latency` is scraped with `_milliseconds`.
"""

from typing import Final

from dashboards.boards.shared import PLANE
from dashboards.grafana import Board, lines, row, stat, variable, worse_above
from dashboards.promql import BY_CLUSTER, BY_PLANE, most, over, rate, total

_CLUSTER: Final = variable("cluster", "Cluster", "rocketmq_broker_permission", "cluster", within=BY_PLANE)
_GROUP: Final = variable(
    "consumer_group", "Consumer group", "rocketmq_consumer_lag_messages", "consumer_group", within=BY_CLUSTER
)
_TOPIC: Final = variable(
    "topic",
    "Topic",
    "rocketmq_consumer_lag_messages",
    "topic",
    within=f'{BY_CLUSTER}, consumer_group=~"$consumer_group"',
)

#: Groups that RocketMQ itself has say nothing about users.
_OF_USERS: Final = f'{BY_CLUSTER}, is_system="false"'
_CHOSEN: Final = f'{_OF_USERS}, consumer_group=~"$consumer_group", topic=~"$topic"'
_LAG_MESSAGES: Final = (10_000, 100_000)
_LAG_S: Final = (60, 600)
_WORST_MS: Final = most("rocketmq_consumer_lag_latency_milliseconds", _OF_USERS, by="cluster, consumer_group")
_TOP: Final = 10


_BEHIND: Final = row(
    "Who is behind",
    stat(
        "Messages that wait",
        "Stored and not consumed yet, over all groups of users; a message counts once for each group. What brokers "
        "have that are down is not in it: BrokerSetAway.",
        total("rocketmq_consumer_lag_messages", _OF_USERS),
        limits=worse_above(*_LAG_MESSAGES),
        width=6,
    ),
    stat(
        "Groups that are behind",
        "The oldest message that waits for them was stored more than ten minutes ago: LagGrowing.",
        over("count", f"{_WORST_MS} / 1000 > {_LAG_S[1]}").then("or vector(0)"),
        limits=worse_above(1, 5),
        width=6,
    ),
    lines(
        "Most messages that wait",
        "Of the groups that are furthest behind. A line that rises: they consume less than comes in.",
        total("rocketmq_consumer_lag_messages", _OF_USERS, by="cluster, consumer_group, topic").top(_TOP),
        limits=worse_above(*_LAG_MESSAGES),
        width=12,
    ),
)

_CHOSEN_ROW: Final = row(
    "The groups chosen",
    lines(
        "Messages that wait",
        "By group and topic, over all brokers.",
        total("rocketmq_consumer_lag_messages", _CHOSEN, by="consumer_group, topic"),
        limits=worse_above(*_LAG_MESSAGES),
    ),
    lines(
        "Age of the oldest that waits",
        "How long the message has been stored that is next to be consumed, on the broker where it is oldest.",
        most("rocketmq_consumer_lag_latency_milliseconds", _CHOSEN, by="consumer_group, topic").then("/ 1000"),
        unit="s",
        limits=worse_above(*_LAG_S),
    ),
    lines(
        "In consumers' hands",
        "Messages that were fetched and are not confirmed, and those that are ready to be fetched. Many in hands: "
        "consumers are slow. Many ready: there are too few of them.",
        total("rocketmq_consumer_inflight_messages", _CHOSEN, by="consumer_group, topic").named("in hands"),
        total("rocketmq_consumer_ready_messages", _CHOSEN, by="consumer_group, topic").named("ready"),
    ),
    lines(
        "Consumed",
        "Messages a second that went to the group.",
        rate("rocketmq_messages_out_total", _CHOSEN, by="consumer_group, topic"),
    ),
)

_BROKERS: Final = row(
    "The brokers that serve these metrics",
    lines(
        "Messages in",
        "Stored a second, by broker.",
        rate("rocketmq_messages_in_total", BY_CLUSTER, by="cluster, node_id"),
    ),
    lines(
        "Bytes in and out",
        "Bytes of messages a second, by broker.",
        rate("rocketmq_throughput_in_total", BY_CLUSTER, by="cluster, node_id").named("in"),
        rate("rocketmq_throughput_out_total", BY_CLUSTER, by="cluster, node_id").named("out"),
        unit="binBps",
    ),
    lines(
        "Requests that queue",
        "In the brokers, by processor. The broker turns requests away when they wait for too long.",
        most("rocketmq_processor_watermark", BY_CLUSTER, by="cluster, node_id, processor"),
        limits=worse_above(100, 1000),
    ),
    collapsed=True,
)

BOARD: Final = Board(
    uid="rmq-lag",
    title="RocketMQ / Consumer lag",
    question="Are consumers behind?",
    when_red="These numbers come from Java brokers with `metricsExporterType=PROM` and "
    "`metricsPromExporterPort=5557`; without that the board is empty. A group behind on every broker lacks consumers; "
    "behind on one broker, look at that broker. Page: `LagGrowing`.",
    variables=(PLANE, _CLUSTER, _GROUP, _TOPIC),
    rows=(_BEHIND, _CHOSEN_ROW, _BROKERS),
)
