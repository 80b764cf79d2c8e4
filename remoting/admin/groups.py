"""Requests about consumer groups: who consumes a topic, who is connected, how far they are, their settings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import structs

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.group_kinds import is_of_brokers
from remoting.protocol.shapes.broker_admin import ConsumeStatsHeader
from remoting.protocol.shapes.broker_clients import (
    BROADCASTING,
    AllSubscriptionGroups,
    ConsumerGroupHeader,
    DeleteGroupHeader,
    GroupListBody,
    NewSubscriptionGroup,
)
from remoting.protocol.shapes.integers import Int32, Int64
from remoting.protocol.shapes.namesrv import TopicHeader


class GroupDefinition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings of a group on one broker; None is a setting that the broker does not have."""

    group: str = msgspec.field(name="groupName")
    is_consume_enabled: bool | None = msgspec.field(name="consumeEnable", default=None)
    is_broadcast_enabled: bool | None = msgspec.field(name="consumeBroadcastEnable", default=None)
    is_orderly: bool | None = msgspec.field(name="consumeMessageOrderly", default=None)
    retry_queue_nums: Int32 | None = None
    retry_max_times: Int32 | None = None
    #: None before 5.0.
    consume_timeout_minutes: Int32 | None = msgspec.field(name="consumeTimeoutMinute", default=None)
    attributes: dict[str, str] = {}


class GroupClient(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One member of a group that is connected to a broker."""

    client_id: str
    address: str | None = msgspec.field(name="clientAddr", default=None)
    language: str | None = None
    #: Ordinal of its release (docs/protocol/remoting.md 7).
    version: Int32 | None = None


class TopicSubscription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group takes of a topic."""

    expression: str | None = msgspec.field(name="subString", default=None)
    #: TAG or SQL92.
    expression_type: str | None = None


class GroupConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of a group that are connected to one broker, and what the newest of them subscribed to."""

    clients: tuple[GroupClient, ...] = msgspec.field(name="connectionSet", default=())
    #: CONSUME_PASSIVELY of push consumers, CONSUME_ACTIVELY of pull consumers, CONSUME_POP.
    consume_type: str | None = None
    #: CLUSTERING or BROADCASTING.
    message_model: str | None = None
    consume_from_where: str | None = None
    #: By topic, the group's retry topic included.
    subscriptions: dict[str, TopicSubscription] = msgspec.field(name="subscriptionTable", default_factory=dict)

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets every message and keeps its own offsets."""
        return self.message_model == BROADCASTING


class QueueLag(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    #: The queue's next offset to be written.
    broker_offset: Int64
    #: Committed, or 0 for a group that never committed: `committed_offset` tells them apart.
    consumer_offset: Int64
    #: The last position pulled from, if it is greater than `consumer_offset`; None before 5.1.0.
    pull_offset: Int64 | None = None
    last_timestamp: Int64 | None = None

    @property
    def last_consumed_unix_ms(self) -> int | None:
        """When the message before `consumer_offset` was stored, by the broker's clock; None if there is none."""
        return self.last_timestamp if self.last_timestamp and self.last_timestamp > 0 else None


class ConsumeStatsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_CONSUME_STATS (208), and part of that to 317; the keys are queues."""

    consume_tps: float | None = None
    offset_table: dict[str, QueueLag]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeStats:
    queues: Mapping[MessageQueue, QueueLag]
    #: Messages a second that it consumes there; None if the broker does not report it.
    consume_tps: float | None


def groups_of_topic(topic: str) -> AdminRequest[tuple[str, ...]]:
    """Request which groups subscribe to a topic at this broker, or have an offset for it there (300).

    Groups of the brokers' own and of tools are left out. Broadcasting groups are in it only while they are connected.
    Source: docs/protocol/broker-admin.md 9.
    """
    return AdminRequest(command(BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic)), _read_groups)


def connections_of_group(group: str) -> AdminRequest[GroupConnections | None]:
    """Request the members of a group that are connected to this broker (203); None if there are none.

    Source: docs/protocol/broker-admin.md 18.
    """
    request = command(BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(consumer_group=group))
    return AdminRequest(request, _read_connections, {ResponseCode.CONSUMER_NOT_ONLINE: None})


def lag_of_group(group: str, topic: str | None = None) -> AdminRequest[Mapping[MessageQueue, QueueLag]]:
    """Request how far a group is in the queues of a topic, or of every topic of which it has offsets (208).

    A topic is left out if it is unknown, or if the group is connected to this broker and does not subscribe to it: an
    empty map does not mean that the group is up to date. It lists queues below readQueueNums.
    Source: docs/protocol/broker-admin.md 10.
    """
    return progress_of_group(group, topic).mapped(lambda progress: progress.queues)


def progress_of_group(group: str, topic: str | None = None) -> AdminRequest[ConsumeStats]:
    """Request the same with how many messages a second the group consumes at this broker (208)."""
    header = ConsumeStatsHeader(consumer_group=group, topic=topic)
    return AdminRequest(command(BrokerRequestCode.GET_CONSUME_STATS, header), _read_progress)


def group_definition(group: str) -> AdminRequest[GroupDefinition | None]:
    """Request all groups (201) and read one; None if it is not among them.

    The request for one group (352) is not sent: a broker of 5.5.0 creates the group. Source:
    docs/protocol/broker-admin.md 22.
    """

    def read(answer: RemotingCommand) -> GroupDefinition | None:
        text = decode_broker_body(AllSubscriptionGroups, answer.body).subscription_group_table.get(group)
        return None if text is None else decode_broker_body(GroupDefinition, bytes(text))

    return AdminRequest(command(BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), read)


def configured_groups() -> AdminRequest[frozenset[str]]:
    """Request which groups have a configuration on a broker (201). Source: docs/protocol/broker-admin.md 22."""

    def read(answer: RemotingCommand) -> frozenset[str]:
        return frozenset(decode_broker_body(AllSubscriptionGroups, answer.body).subscription_group_table)

    return AdminRequest(command(BrokerRequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), read)


def create_group(settings: NewSubscriptionGroup) -> AdminRequest[None]:
    """Create a group, or replace all of its settings (200); only for masters.

    Raises Refused with code 29 (5.x) or 1 for a name that is not allowed. Source: docs/protocol/broker-admin.md 22.
    """
    body = msgspec.json.encode(settings)
    return AdminRequest(command(BrokerRequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body), read_nothing)


def delete_group(group: str, *, cleans_offsets: bool) -> AdminRequest[None]:
    """Remove a group from a broker (207), which may not have it, and if wanted its offsets; only for masters.

    Source: docs/protocol/broker-admin.md 22.
    """
    header = DeleteGroupHeader(group_name=group, clean_offset=cleans_offsets, remove_offset=cleans_offsets)
    return AdminRequest(command(BrokerRequestCode.DELETE_SUBSCRIPTIONGROUP, header), read_nothing)


def _read_groups(answer: RemotingCommand) -> tuple[str, ...]:
    names = decode_broker_body(GroupListBody, answer.body).group_list
    return tuple(sorted(name for name in names if not is_of_brokers(name)))


def _read_connections(answer: RemotingCommand) -> GroupConnections:
    found = decode_broker_body(GroupConnections, answer.body)
    return structs.replace(found, clients=tuple(sorted(found.clients, key=lambda client: client.client_id)))


def _read_progress(answer: RemotingCommand) -> ConsumeStats:
    body = decode_broker_body(ConsumeStatsBody, answer.body)
    return ConsumeStats(queues=by_queue(body.offset_table), consume_tps=body.consume_tps)
