"""What brokers answer about themselves and their topics, and what cleans them. Pure.

The other modules read what rules need of the same answers.
"""

from remoting.admin.admin_request import AdminRequest, command, read_nothing, reading
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.shapes.broker_views import (
    BrokerStatsHeader,
    BrokerStatsView,
    EpochsView,
    HaStatusView,
    TopicStatsView,
)
from remoting.protocol.shapes.namesrv import TopicHeader


def topic_stats_view(topic: str) -> AdminRequest[TopicStatsView]:
    """Request where the queues of a topic begin and end (202). Source: docs/protocol/broker-admin.md 7."""
    request = command(BrokerRequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic))
    return AdminRequest(request, reading(TopicStatsView))


def ha_view() -> AdminRequest[HaStatusView]:
    """Request the replication of a broker (907, 5.0+). Source: docs/protocol/broker-admin.md 27."""
    return AdminRequest(command(BrokerRequestCode.GET_BROKER_HA_STATUS), reading(HaStatusView))


def epochs_view() -> AdminRequest[EpochsView]:
    """Request the epochs of a broker's log (1007, 5.0+). Source: docs/protocol/broker-admin.md 33."""
    return AdminRequest(command(RequestCode.GET_BROKER_EPOCH_CACHE), reading(EpochsView))


def broker_stats(name: str, key: str) -> AdminRequest[BrokerStatsView]:
    """Request one of a broker's statistics (315): TOPIC_PUT_NUMS of a topic, GROUP_GET_NUMS of `topic@group`.

    Raises Refused with code 1 where nothing was counted. Source: docs/protocol/broker-admin.md 39.
    """
    request = command(BrokerRequestCode.VIEW_BROKER_STATS_DATA, BrokerStatsHeader(stats_name=name, stats_key=key))
    return AdminRequest(request, reading(BrokerStatsView))


def clean_expired_queues() -> AdminRequest[None]:
    """Remove queues whose messages have all expired (306). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.CLEAN_EXPIRED_CONSUMEQUEUE), read_nothing)


def clean_unused_topics() -> AdminRequest[None]:
    """Remove queues of topics that a broker does not have (316). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.CLEAN_UNUSED_TOPIC), read_nothing)


def delete_expired_commit_logs() -> AdminRequest[None]:
    """Remove files of the log that have expired, at once (329, 4.9.4+). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.DELETE_EXPIRED_COMMITLOG), read_nothing)
