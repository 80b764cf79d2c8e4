"""Requests whose answers an operator's tool prints whole, in the order of the peer, and the changes it makes. Pure.

The other modules read what rules need of the same answers.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest, Shape, command, decode_broker_body, read_nothing, read_offset
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_admin import ConsumeStatsHeader
from remoting.protocol.shapes.broker_clients import (
    AllProducersBody,
    AllSubscriptionGroups,
    ConsumerGroupHeader,
    ConsumerRunningInfoHeader,
    GroupListBody,
)
from remoting.protocol.shapes.controller import ElectMasterBody, ElectMasterHeader, MasterHeader, SyncStateData
from remoting.protocol.shapes.namesrv import ClusterInfo, GetRouteInfoRequestHeader, TopicHeader, TopicList
from remoting.protocol.shapes.operator_views import (
    BrokerGroupStatsHeader,
    BrokerGroupStatsView,
    BrokerStatsHeader,
    BrokerStatsView,
    ClientOffsetsHeader,
    ClientOffsetsView,
    ConsumersView,
    DeleteGroupHeader,
    EpochsView,
    GroupStatsView,
    HaStatusView,
    ProducerGroupHeader,
    ProducersView,
    RequestModeBody,
    ResetByTimeHeader,
    ResetOffsetsView,
    RunningConsumerView,
    SearchOffsetHeader,
    SubscriptionGroupView,
    TopicStatsView,
)
from remoting.protocol.shapes.route import TopicRouteData

_CPP: Final = "CPP"


class ElectionView(NamedTuple):
    """The answer to an election."""

    header: MasterHeader
    #: By broker id; None if the answer has none.
    addresses: Mapping[int, str] | None


def route_view(topic: str) -> AdminRequest[TopicRouteData]:
    """Request the route of a topic (105); raises Refused with code 17. Source: docs/protocol/namesrv.md 2.6."""
    request = command(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic=topic))
    return AdminRequest(request, _reading(TopicRouteData))


def cluster_view() -> AdminRequest[ClusterInfo]:
    """Request all brokers (106). Source: docs/protocol/namesrv.md 2.7."""
    return AdminRequest(command(RequestCode.GET_BROKER_CLUSTER_INFO), _reading(ClusterInfo))


def topics_view() -> AdminRequest[list[str]]:
    """Request the names of all topics (206). Source: docs/protocol/namesrv.md 2.14."""
    request = command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return AdminRequest(request, _reading(TopicList)).mapped(lambda found: found.topic_list)


def sync_state_view(broker_names: list[str]) -> AdminRequest[SyncStateData]:
    """Request broker sets by their names (1006), from the leader. Source: docs/protocol/controller.md 1.9."""
    request = command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=msgspec.json.encode(broker_names))
    return AdminRequest(request, _reading(SyncStateData))


def election(cluster: str, broker_name: str, broker_id: int) -> AdminRequest[ElectionView]:
    """Make a broker the master of its set (1002), at the leader, as `controllers.elect_master`."""
    header = ElectMasterHeader(cluster_name=cluster, broker_name=broker_name, broker_id=broker_id, designate_elect=True)
    return AdminRequest(command(RequestCode.CONTROLLER_ELECT_MASTER, header), _read_election)


def epochs_view() -> AdminRequest[EpochsView]:
    """Request the epochs of a broker's log (1007, 5.0+). Source: docs/protocol/broker-admin.md 33."""
    return AdminRequest(command(RequestCode.GET_BROKER_EPOCH_CACHE), _reading(EpochsView))


def ha_view() -> AdminRequest[HaStatusView]:
    """Request the replication of a broker (907, 5.0+). Source: docs/protocol/broker-admin.md 27."""
    return AdminRequest(command(BrokerRequestCode.GET_BROKER_HA_STATUS), _reading(HaStatusView))


def topic_stats_view(topic: str) -> AdminRequest[TopicStatsView]:
    """Request where the queues of a topic begin and end (202). Source: docs/protocol/broker-admin.md 7."""
    request = command(BrokerRequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic))
    return AdminRequest(request, _reading(TopicStatsView))


def groups_view(topic: str) -> AdminRequest[list[str]]:
    """Request the groups of a topic (300), with those of brokers and tools. Source: docs/protocol/broker-admin.md 9."""
    request = command(BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic))
    return AdminRequest(request, _reading(GroupListBody)).mapped(lambda found: found.group_list)


def group_stats_view(group: str, topic: str | None = None) -> AdminRequest[GroupStatsView]:
    """Request how far a group is (208), as `groups.lag_of_group`. Source: docs/protocol/broker-admin.md 10."""
    header = ConsumeStatsHeader(consumer_group=group, topic=topic)
    return AdminRequest(command(BrokerRequestCode.GET_CONSUME_STATS, header), _reading(GroupStatsView))


def broker_group_stats(*, only_orderly: bool) -> AdminRequest[BrokerGroupStatsView]:
    """Request how far all groups of a broker are (317), or only those with ordered topics: megabytes.

    Source: docs/protocol/broker-admin.md 39.
    """
    request = command(BrokerRequestCode.GET_BROKER_CONSUME_STATS, BrokerGroupStatsHeader(is_order=only_orderly))
    return AdminRequest(request, _reading(BrokerGroupStatsView))


def broker_stats(name: str, key: str) -> AdminRequest[BrokerStatsView]:
    """Request one of a broker's statistics (315): TOPIC_PUT_NUMS of a topic, GROUP_GET_NUMS of `topic@group`.

    Raises Refused with code 1 where nothing was counted. Source: docs/protocol/broker-admin.md 39.
    """
    request = command(BrokerRequestCode.VIEW_BROKER_STATS_DATA, BrokerStatsHeader(stats_name=name, stats_key=key))
    return AdminRequest(request, _reading(BrokerStatsView))


def consumers_view(group: str) -> AdminRequest[ConsumersView]:
    """Request the consumers of a group at this broker (203); raises Refused with code 206 if there are none.

    Source: docs/protocol/broker-admin.md 18.
    """
    request = command(BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group=group))
    return AdminRequest(request, _reading(ConsumersView))


def producers_view(group: str) -> AdminRequest[ProducersView]:
    """Request the producers of a group at this broker (204); raises Refused with code 1 if there are none.

    Source: docs/protocol/broker-admin.md 19.
    """
    request = command(BrokerRequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(producer_group=group))
    return AdminRequest(request, _reading(ProducersView))


def all_producers_view() -> AdminRequest[AllProducersBody]:
    """Request all producers of this broker (328, 4.9.4+). Source: docs/protocol/broker-admin.md 19."""
    return AdminRequest(command(BrokerRequestCode.GET_ALL_PRODUCER_INFO), _reading(AllProducersBody))


def running_view(group: str, client_id: str, *, with_stacks: bool) -> AdminRequest[RunningConsumerView]:
    """Request what a consumer does (307), as `clients.running_consumer`. Source: docs/protocol/broker-admin.md 18."""
    header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id, jstack_enable=with_stacks)
    return AdminRequest(command(BrokerRequestCode.GET_CONSUMER_RUNNING_INFO, header), _reading(RunningConsumerView))


def client_offsets(group: str, topic: str, client_id: str) -> AdminRequest[Mapping[str, Mapping[MessageQueue, int]]]:
    """Request the offsets that clients have in memory (223), by client id; a blank one is all clients.

    Source: docs/protocol/broker-admin.md 18.
    """
    header = ClientOffsetsHeader(topic=topic, group=group, client_addr=client_id)

    def read(answer: RemotingCommand) -> dict[str, dict[MessageQueue, int]]:
        table = decode_broker_body(ClientOffsetsView, answer.body).consumer_table
        return {client: by_queue(offsets) for client, offsets in table.items()}

    return AdminRequest(command(BrokerRequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header), read)


def subscription_groups_view() -> AdminRequest[Mapping[str, SubscriptionGroupView]]:
    """Request all groups of a broker (201). Source: docs/protocol/broker-admin.md 22."""

    def read(answer: RemotingCommand) -> dict[str, SubscriptionGroupView]:
        table = decode_broker_body(AllSubscriptionGroups, answer.body).subscription_group_table
        return {name: decode_broker_body(SubscriptionGroupView, bytes(text)) for name, text in table.items()}

    return AdminRequest(command(BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), read)


def update_subscription_group(group: SubscriptionGroupView) -> AdminRequest[None]:
    """Create a group, or replace its configuration (200). Source: docs/protocol/broker-admin.md 22."""
    fields = {name: value for name, value in msgspec.to_builtins(group).items() if value is not None}
    body = msgspec.json.encode(fields)
    return AdminRequest(command(BrokerRequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), read_nothing)


def delete_subscription_group(group: str, *, cleans_offsets: bool) -> AdminRequest[None]:
    """Remove a group from a broker (207), and its offsets if they are to go too.

    Source: docs/protocol/broker-admin.md 22.
    """
    header = DeleteGroupHeader(group_name=group, clean_offset=cleans_offsets)
    return AdminRequest(command(BrokerRequestCode.DELETE_SUBSCRIPTIONGROUP, header), read_nothing)


def set_request_mode(topic: str, group: str, mode: str, pop_share_queue_num: int) -> AdminRequest[None]:
    """Set whether a group pulls or pops (401, 5.0+). Source: docs/protocol/broker-admin.md 38."""
    body = RequestModeBody(topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=pop_share_queue_num)
    request = command(BrokerRequestCode.SET_MESSAGE_REQUEST_MODE, body=msgspec.json.encode(body))
    return AdminRequest(request, read_nothing)


def search_offset(topic: str, queue_id: int, unix_ms: int) -> AdminRequest[int]:
    """Request the offset of the first message that was stored at a time or later (29).

    Source: docs/protocol/broker-admin.md 40.
    """
    header = SearchOffsetHeader(topic=topic, queue_id=queue_id, timestamp=unix_ms)
    return AdminRequest(command(BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header), read_offset)


def reset_by_time(
    group: str, topic: str, unix_ms: int, *, is_forced: bool, is_for_cpp: bool = False
) -> AdminRequest[Mapping[MessageQueue, int]]:
    """Reset where a group goes on in all queues of a topic (222): at a time, or with -1 at their ends.

    The result has the new offsets. Clients in C++ get them as a list. Raises Refused with code 206 where no member is
    online and the broker does not reset on its own. Source: docs/protocol/broker-admin.md 34.
    """
    header = ResetByTimeHeader(group=group, topic=topic, timestamp=unix_ms, is_force=is_forced)
    request = command(BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    if is_for_cpp:
        request = msgspec.structs.replace(request, language=_CPP)

    def read(answer: RemotingCommand) -> dict[MessageQueue, int]:
        return by_queue(decode_broker_body(ResetOffsetsView, answer.body).offset_table) if answer.body else {}

    return AdminRequest(request, read)


def clean_expired_queues() -> AdminRequest[None]:
    """Remove queues whose messages have all expired (306). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.CLEAN_EXPIRED_CONSUMEQUEUE), read_nothing)


def clean_unused_topics() -> AdminRequest[None]:
    """Remove queues of topics that a broker does not have (316). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.CLEAN_UNUSED_TOPIC), read_nothing)


def delete_expired_commit_logs() -> AdminRequest[None]:
    """Remove files of the log that have expired, at once (329, 4.9.4+). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.DELETE_EXPIRED_COMMITLOG), read_nothing)


def _reading(shape: type[Shape]) -> Callable[[RemotingCommand], Shape]:
    return lambda answer: decode_broker_body(shape, answer.body)


def _read_election(answer: RemotingCommand) -> ElectionView:
    header = decode_fields(MasterHeader, answer.ext_fields)
    body = decode_broker_body(ElectMasterBody, answer.body)
    # Java's controller has the group in a field of its own; ours has its fields beside it as well.
    addresses = body.broker_addrs or (body.broker_member_group and body.broker_member_group.broker_addrs)
    return ElectionView(header, addresses or None)
