"""Sends a message, for probes: nothing else of a producer is here. Pure."""

from typing import Final

from remoting.admin.admin_request import AdminRequest, command, read_nothing
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.shapes.stored_messages import SendMessageHeader

#: Queues of a topic that a broker would create; ours exists, and names itself as its pattern.
_QUEUES: Final = 1


def send_message(topic: str, broker_name: str, body: bytes, *, producer_group: str, unix_ms: int) -> AdminRequest[None]:
    """Send a message to queue 0 of a topic that exists (310); raises Refused for any status but SEND_OK.

    A broker that lacks the topic does not create it. Source: docs/protocol/broker-admin.md 28.
    """
    header = SendMessageHeader(
        producer_group=producer_group,
        topic=topic,
        default_topic=topic,
        default_topic_queue_nums=_QUEUES,
        queue_id=0,
        sys_flag=0,
        born_timestamp=unix_ms,
        flag=0,
        properties="",
        reconsume_times=0,
        broker_name=broker_name,
    )
    return AdminRequest(command(BrokerRequestCode.SEND_MESSAGE_V2, header, body), read_nothing)
