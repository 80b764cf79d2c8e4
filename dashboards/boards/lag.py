"""For operators: are consumers behind? By the brokers' own metrics: control planes do not see messages.

Names and labels are those that a Java broker 5.5.0 serves with `metricsExporterType=PROM`. Its exporter appends units
to some names, so they differ from the documentation: `rocketmq_consumer_lag_latency` is scraped with `_milliseconds`.
"""

from typing import Final

from dashboards.boards.shared import PLANE
from dashboards.panels import Board, Query, Row, Variable, lines, stat, worse_above
from dashboards.promql import BY_CLUSTER, BY_PLANE, rate

_CLUSTER: Final = Variable("cluster", "Cluster", "rocketmq_broker_permission", "cluster", within=BY_PLANE)
_GROUP: Final = Variable(
    "consumer_group", "Consumer group", "rocketmq_consumer_lag_messages", "consumer_group", within=BY_CLUSTER
)
_TOPIC: Final = Variable(
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
_TOP: Final = 10


def _waiting(by: str, selector: str) -> str:
    return f"sum by ({by}) (rocketmq_consumer_lag_messages{{{selector}}})"


_BEHIND: Final = Row(
    "Who is behind",
    (
        stat(
            "Messages that wait",
            "Stored and not consumed yet, over all groups of users; a message counts once for each group. "
            "What brokers have that are down is not in it: BrokerSetAway.",
            (Query(f"sum(rocketmq_consumer_lag_messages{{{_OF_USERS}}})"),),
            limits=worse_above(*_LAG_MESSAGES),
            width=6,
        ),
        stat(
            "Groups that are behind",
            "The oldest message that waits for them was stored more than ten minutes ago: LagGrowing.",
            (
                Query(
                    "count(max by (cluster, consumer_group) "
                    f"(rocketmq_consumer_lag_latency_milliseconds{{{_OF_USERS}}}) / 1000 > {_LAG_S[1]}) or vector(0)"
                ),
            ),
            limits=worse_above(1, 5),
            width=6,
        ),
        lines(
            "Most messages that wait",
            "Of the groups that are furthest behind. A line that rises: they consume less than comes in.",
            (
                Query(
                    f"topk({_TOP}, {_waiting('cluster, consumer_group, topic', _OF_USERS)})",
                    "{{cluster}} {{consumer_group}} {{topic}}",
                ),
            ),
            limits=worse_above(*_LAG_MESSAGES),
            width=12,
        ),
    ),
)

_CHOSEN_ROW: Final = Row(
    "The groups chosen",
    (
        lines(
            "Messages that wait",
            "By group and topic, over all brokers.",
            (Query(_waiting("consumer_group, topic", _CHOSEN), "{{consumer_group}} {{topic}}"),),
            limits=worse_above(*_LAG_MESSAGES),
        ),
        lines(
            "Age of the oldest that waits",
            "How long the message has been stored that is next to be consumed, on the broker where it is oldest.",
            (
                Query(
                    f"max by (consumer_group, topic) (rocketmq_consumer_lag_latency_milliseconds{{{_CHOSEN}}}) / 1000",
                    "{{consumer_group}} {{topic}}",
                ),
            ),
            unit="s",
            limits=worse_above(*_LAG_S),
        ),
        lines(
            "In consumers' hands",
            "Messages that were fetched and are not confirmed, and those that are ready to be fetched. "
            "Many in hands: consumers are slow. Many ready: there are too few of them.",
            (
                Query(
                    f"sum by (consumer_group, topic) (rocketmq_consumer_inflight_messages{{{_CHOSEN}}})",
                    "{{consumer_group}} {{topic}} in hands",
                ),
                Query(
                    f"sum by (consumer_group, topic) (rocketmq_consumer_ready_messages{{{_CHOSEN}}})",
                    "{{consumer_group}} {{topic}} ready",
                ),
            ),
        ),
        lines(
            "Consumed",
            "Messages a second that went to the group.",
            (
                Query(
                    rate("rocketmq_messages_out_total", _CHOSEN, by="consumer_group, topic"),
                    "{{consumer_group}} {{topic}}",
                ),
            ),
            unit="ops",
        ),
    ),
)

_BROKERS: Final = Row(
    "The brokers that serve these metrics",
    (
        lines(
            "Messages in",
            "Stored a second, by broker.",
            (Query(rate("rocketmq_messages_in_total", BY_CLUSTER, by="cluster, node_id"), "{{cluster}} {{node_id}}"),),
            unit="ops",
        ),
        lines(
            "Bytes in and out",
            "Bytes of messages a second, by broker.",
            (
                Query(
                    rate("rocketmq_throughput_in_total", BY_CLUSTER, by="cluster, node_id"),
                    "{{cluster}} {{node_id}} in",
                ),
                Query(
                    rate("rocketmq_throughput_out_total", BY_CLUSTER, by="cluster, node_id"),
                    "{{cluster}} {{node_id}} out",
                ),
            ),
            unit="binBps",
        ),
        lines(
            "Requests that queue",
            "In the brokers, by processor. The broker turns requests away when they wait for too long.",
            (
                Query(
                    f"max by (cluster, node_id, processor) (rocketmq_processor_watermark{{{BY_CLUSTER}}})",
                    "{{cluster}} {{node_id}} {{processor}}",
                ),
            ),
            limits=worse_above(100, 1000),
        ),
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
