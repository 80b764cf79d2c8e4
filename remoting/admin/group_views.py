"""Groups and their clients, whole, and what changes them. Pure.

The other modules read what rules need of the same answers.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing, readable_rows, reading
from remoting.admin.groups import ConsumeStatsBody, GroupConnections
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_clients import (
    AllSubscriptionGroups,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    GroupListBody,
    RunningConsumerView,
)
from remoting.protocol.shapes.group_views import (
    BrokerGroupStatsHeader,
    ProducerGroupHeader,
    RequestModeBody,
    SubscriptionGroupView,
)
from remoting.protocol.shapes.integers import Int64
from remoting.protocol.shapes.namesrv import TopicHeader
from remoting.protocol.shapes.stored_messages import ResetByTimeHeader, ResetOffsetsBody

#: The language of clients that get offsets as a list.
_CPP: Final = "CPP"
#: All queues, and not to an offset: as mqadmin sends it.
_EACH_QUEUE: Final = -1
_BY_TIME: Final = -1


def groups_view(topic: str) -> AdminRequest[list[str]]:
    """Request the groups of a topic (300), with those of brokers and tools. Source: docs/protocol/broker-admin.md 9."""
    request = command(BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic))
    return AdminRequest(request, reading(GroupListBody)).mapped(lambda found: found.group_list)


class BrokerGroupStats(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 317: for each group one map with the group alone."""

    consume_stats_list: list[dict[str, list[ConsumeStatsBody]]] = []
    total_diff: Int64 = 0


def broker_group_stats(*, only_orderly: bool) -> AdminRequest[BrokerGroupStats]:
    """Request how far all groups of a broker are (317), or only those with ordered topics: megabytes.

    Source: docs/protocol/broker-admin.md 39.
    """
    request = command(BrokerRequestCode.GET_BROKER_CONSUME_STATS, BrokerGroupStatsHeader(is_order=only_orderly))
    return AdminRequest(request, reading(BrokerGroupStats))


def consumers_view(group: str) -> AdminRequest[GroupConnections]:
    """Request the consumers of a group at this broker (203); raises Refused with code 206 if there are none.

    Source: docs/protocol/broker-admin.md 18.
    """
    request = command(BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group=group))
    return AdminRequest(request, reading(GroupConnections))


def producers_view(group: str) -> AdminRequest[GroupConnections]:
    """Request the producers of a group at this broker (204); raises Refused with code 1 if there are none.

    Source: docs/protocol/broker-admin.md 19.
    """
    request = command(BrokerRequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(producer_group=group))
    return AdminRequest(request, reading(GroupConnections))


def running_view(group: str, client_id: str, *, with_stacks: bool) -> AdminRequest[RunningConsumerView]:
    """Request what a consumer does (307), as `clients.running_consumer`. Source: docs/protocol/broker-admin.md 18."""
    header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    return AdminRequest(command(BrokerRequestCode.GET_CONSUMER_RUNNING_INFO, header), reading(RunningConsumerView))


def subscription_groups_view() -> AdminRequest[Mapping[str, SubscriptionGroupView]]:
    """Request all groups of a broker (201). Source: docs/protocol/broker-admin.md 22."""

    def read(answer: RemotingCommand) -> dict[str, SubscriptionGroupView]:
        table = decode_broker_body(AllSubscriptionGroups, answer.body).subscription_group_table
        return readable_rows(table, lambda _, text: decode_broker_body(SubscriptionGroupView, bytes(text)))

    return AdminRequest(command(BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), read)


def update_subscription_group(group: SubscriptionGroupView) -> AdminRequest[None]:
    """Create a group, or replace its configuration (200). Source: docs/protocol/broker-admin.md 22."""
    fields = {name: value for name, value in msgspec.to_builtins(group).items() if value is not None}
    body = msgspec.json.encode(fields)
    return AdminRequest(command(BrokerRequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), read_nothing)


def set_request_mode(topic: str, group: str, mode: str, pop_share_queue_num: int) -> AdminRequest[None]:
    """Set whether a group pulls or pops (401, 5.0+). Source: docs/protocol/broker-admin.md 38."""
    body = RequestModeBody(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=pop_share_queue_num)
    request = command(BrokerRequestCode.SET_MESSAGE_REQUEST_MODE, body=msgspec.json.encode(body))
    return AdminRequest(request, read_nothing)


def reset_by_time(
    group: str, topic: str, unix_ms: int, *, is_forced: bool, is_for_cpp: bool = False
) -> AdminRequest[Mapping[MessageQueue, int]]:
    """Reset where a group goes on in all queues of a topic (222): at a time, or with -1 at their ends.

    The result has the new offsets. Clients in C++ get them as a list. Raises Refused with code 206 where no member is
    online and the broker does not reset on its own. Source: docs/protocol/broker-admin.md 34.
    """
    header = ResetByTimeHeader(
        group=group, topic=topic, timestamp=unix_ms, is_force=is_forced, queue_id=_EACH_QUEUE, offset=_BY_TIME
    )
    request = command(BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    if is_for_cpp:
        request = msgspec.structs.replace(request, language=_CPP)

    def read(answer: RemotingCommand) -> dict[MessageQueue, int]:
        return by_queue(decode_broker_body(ResetOffsetsBody, answer.body).offset_table) if answer.body else {}

    return AdminRequest(request, read)
