"""Requests about the topics of a broker: configuration, and where queues begin and end. Pure.

A change replaces the whole configuration: read it, change one field, send all (docs/protocol/broker-admin.md 3).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing, readable_rows, reading
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_admin import (
    SINGLE_TAG,
    AllTopicConfigs,
    UpdateTopicHeader,
)
from remoting.protocol.shapes.integers import Int32, Int64
from remoting.protocol.shapes.namesrv import TopicHeader

_ADDS: Final = "+"
_REMOVES: Final = "-"


class TopicDefinition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of a topic on one broker."""

    topic: str = msgspec.field(name="topicName")
    read_queue_nums: Int32
    write_queue_nums: Int32
    #: Bits PERM_READ, PERM_WRITE and PERM_INHERIT.
    perm: Int32
    filter_type: str = msgspec.field(name="topicFilterType", default=SINGLE_TAG)
    sys_flag: Int32 = msgspec.field(name="topicSysFlag", default=0)
    #: Brokers before 5.1.0 do not store it and answer False.
    is_order: bool = msgspec.field(name="order", default=False)
    #: Brokers before 5.0.0 have none.
    attributes: Mapping[str, str] = {}


class QueueOffsets(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    #: The next offset to be written. Messages count once they are in the consume queue.
    max_offset: Int64
    #: The first that can be read; None if the broker cannot read it.
    min_offset: Int64 | None = None
    #: When the last message was stored, Unix ms by the broker's clock; None for an empty or unreadable queue.
    last_stored_unix_ms: Int64 | None = msgspec.field(name="lastUpdateTimestamp", default=None)

    def __post_init__(self) -> None:
        # Brokers write -1 for what they cannot read, and 0 for no message.
        if self.min_offset is not None and self.min_offset < 0:
            msgspec.structs.force_setattr(self, "min_offset", None)
        if self.last_stored_unix_ms is not None and self.last_stored_unix_ms <= 0:
            msgspec.structs.force_setattr(self, "last_stored_unix_ms", None)


class _TopicStatsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_TOPIC_STATS_INFO (202); the keys are queues."""

    offset_table: dict[str, QueueOffsets]


def topic_definition(topic: str) -> AdminRequest[TopicDefinition | None]:
    """Request a topic's configuration (351, 5.0+); None if the broker lacks it.

    A slave may lack it for a moment. Raises NotSupported before 5.0: use `topic_definition_of_all`.
    Source: docs/protocol/broker-admin.md 1.
    """
    request = command(BrokerRequestCode.GET_TOPIC_CONFIG, TopicHeader(topic=topic))
    return AdminRequest(request, reading(TopicDefinition), {ResponseCode.TOPIC_NOT_EXIST: None})


def topic_definition_of_all(topic: str) -> AdminRequest[TopicDefinition | None]:
    """Request all topics (21) and read one; None if it is not among them.

    For brokers before 5.0: the body is megabytes where there are many topics.
    Source: docs/protocol/broker-admin.md 2.
    """

    def read(answer: RemotingCommand) -> TopicDefinition | None:
        text = decode_broker_body(AllTopicConfigs, answer.body).topic_config_table.get(topic)
        return None if text is None else decode_broker_body(TopicDefinition, bytes(text))

    return AdminRequest(command(BrokerRequestCode.GET_ALL_TOPIC_CONFIG), read)


def all_topic_definitions() -> AdminRequest[Mapping[str, TopicDefinition]]:
    """Request the configuration of all topics of a broker (21), by topic: megabytes where there are many.

    Source: docs/protocol/broker-admin.md 2.
    """

    def read(answer: RemotingCommand) -> dict[str, TopicDefinition]:
        table = decode_broker_body(AllTopicConfigs, answer.body).topic_config_table
        return readable_rows(table, lambda _, text: decode_broker_body(TopicDefinition, bytes(text)))

    return AdminRequest(command(BrokerRequestCode.GET_ALL_TOPIC_CONFIG), read)


def delete_topic(topic: str) -> AdminRequest[None]:
    """Remove a topic with its messages from a broker (215), which may not have it; only for masters.

    NameServers keep it: `name_servers.delete_topic_route`. Raises Refused with code 29 for a system topic.
    Source: docs/protocol/broker-admin.md 36.
    """
    return AdminRequest(command(BrokerRequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic)), read_nothing)


def update_topic(
    definition: TopicDefinition, attribute_changes: Mapping[str, str | None] | None = None
) -> AdminRequest[None]:
    """Create a topic, or replace its configuration (17); only for masters.

    `definition.attributes` are not sent: brokers keep those that `attribute_changes` does not name. It maps names to
    new values, None removes one. Success does not prove that a NameServer knows of it: only `route_of` does. Raises
    Refused with code 29 (5.x) or 1 for a name, an attribute or a broker that does not allow it.
    Source: docs/protocol/broker-admin.md 3.
    """
    header = UpdateTopicHeader(
        topic=definition.topic,
        read_queue_nums=definition.read_queue_nums,
        write_queue_nums=definition.write_queue_nums,
        perm=definition.perm,
        topic_filter_type=definition.filter_type,
        topic_sys_flag=definition.sys_flag,
        order=definition.is_order,
        attributes=_attributes_text(attribute_changes or {}),
    )
    return AdminRequest(command(BrokerRequestCode.UPDATE_AND_CREATE_TOPIC, header), read_nothing)


def queue_offsets(topic: str) -> AdminRequest[Mapping[MessageQueue, QueueOffsets]]:
    """Request where the queues of a topic begin and end (202); raises Refused with code 17 for an unknown topic.

    Brokers up to 5.2.0 list queues below writeQueueNums, from 5.3.0 on below the greater of both counts: queues that
    are only read from can be left out. `offsets.max_offset` sees them.
    Source: docs/protocol/broker-admin.md 7.
    """
    return AdminRequest(command(BrokerRequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic)), _read_queue_offsets)


def _attributes_text(changes: Mapping[str, str | None]) -> str | None:
    odd = [name for name, value in changes.items() if not {",", "="}.isdisjoint(f"{name}{value or ''}")]
    if odd:
        raise ValueError(f"attributes with a comma or an equals sign cannot be sent: {', '.join(sorted(odd))}")
    texts = (
        f"{_REMOVES}{name}" if value is None else f"{_ADDS}{name}={value}" for name, value in sorted(changes.items())
    )
    return ",".join(texts) or None


def _read_queue_offsets(answer: RemotingCommand) -> dict[MessageQueue, QueueOffsets]:
    return by_queue(decode_broker_body(_TopicStatsBody, answer.body).offset_table)
