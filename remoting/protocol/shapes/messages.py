"""Headers of the requests that carry messages. Source: docs/protocol/broker-admin.md 28."""

import msgspec
from msgspec import field

from remoting.protocol.shapes.integers import Int32, Int64


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
