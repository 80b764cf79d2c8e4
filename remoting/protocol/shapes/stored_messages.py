"""Headers and bodies of the requests that read stored messages, or reset where a group goes on.

Source: docs/protocol/broker-admin.md 31 to 34.
"""

import msgspec
from msgspec import field

from remoting.protocol.shapes.integers import Int32, Int64


class QueueEntriesHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of QUERY_CONSUME_QUEUE (321)."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    #: Blank: no subscription is applied, and no message is read.
    consumer_group: str


class QueueEntryBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of a queue."""

    physic_offset: Int64


class QueueEntriesBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to QUERY_CONSUME_QUEUE (321)."""

    max_queue_index: Int64
    min_queue_index: Int64
    queue_data: list[QueueEntryBody] = []


class ViewMessageHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of VIEW_MESSAGE_BY_ID (33)."""

    #: In the log.
    offset: Int64


class ResetOffsetHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of INVOKE_BROKER_TO_RESET_OFFSET (222), of one queue."""

    group: str
    topic: str
    #: Unix ms; -1 where `offset` counts.
    timestamp: Int64
    is_force: bool = msgspec.field(name="isForce")
    queue_id: Int32
    offset: Int64


class ResetByTimeHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of INVOKE_BROKER_TO_RESET_OFFSET (222), of all queues of a topic on a broker."""

    group: str
    topic: str
    #: Unix ms; -1: the ends of the queues.
    timestamp: Int64
    is_force: bool = msgspec.field(name="isForce")
    #: mqadmin sends -1 in both.
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class ResetOffsetsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 222; the keys are queues."""

    offset_table: dict[str, Int64] = {}


class SendMessageHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Header of SEND_MESSAGE_V2 (310), whose fields have single letters as names."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    #: Whose queues a topic gets that does not exist.
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    #: Unix ms of the sender.
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    #: Key, 0x01, value, 0x02, and so on.
    properties: str = field(name="i")
    reconsume_times: Int32 = field(name="j")
    #: Read from 5.0 on.
    broker_name: str = field(name="n")
