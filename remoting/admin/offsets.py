"""Requests about offsets: where queues end, and how far groups are. Pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing, read_offset
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import Refused
from remoting.protocol.shapes.broker_admin import (
    RESET_PENDING,
    TIMER_IS_OFF,
    QueryConsumerOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    TimerMetricsBody,
    UpdateConsumerOffsetHeader,
)
from remoting.protocol.shapes.stored_messages import ResetByTimeHeader, ResetOffsetHeader, ResetOffsetsBody

#: The option of a broker (26) that lets it reset offsets itself: 5.1.0+, and on by default from 5.2.0 on.
RESETS_ON_SERVER: Final = "useServerSideResetOffset"
#: The timestamp of a reset to an offset.
_BY_OFFSET: Final = -1


class OffsetCommit(Enum):
    """What became of an offset that was sent."""

    #: In the broker's memory; on its disk within 5 s.
    STORED = auto()
    #: Not stored: a reset of this queue on the broker waits for the group's next pull.
    RESET_PENDING = auto()


def max_offset(topic: str, queue_id: int) -> AdminRequest[int]:
    """Request the next offset to be written of a queue (30); 0 for one that the broker does not have.

    The topic's counts do not limit the queue id. Source: docs/protocol/broker-admin.md 8.
    """
    return AdminRequest(
        command(BrokerRequestCode.GET_MAX_OFFSET, QueueHeader(topic=topic, queue_id=queue_id)), read_offset
    )


def min_offset(topic: str, queue_id: int) -> AdminRequest[int | None]:
    """Request the first readable offset of a queue (31); None if the broker cannot read it.

    Source: docs/protocol/broker-admin.md 8.
    """
    request = command(BrokerRequestCode.GET_MIN_OFFSET, QueueHeader(topic=topic, queue_id=queue_id))
    return AdminRequest(request, read_offset).mapped(lambda offset: offset if offset >= 0 else None)


def offset_at(topic: str, queue_id: int, unix_ms: int) -> AdminRequest[int]:
    """Request the first message of a queue that was stored at a moment or later (29), Unix ms by the broker's clock.

    Where there is none: the end of the queue (5.x), or its last message (4.9); 0 of a queue that the broker does not
    have. Source: docs/protocol/broker-admin.md 8.
    """
    header = SearchOffsetHeader(topic=topic, queue_id=queue_id, timestamp=unix_ms)
    return AdminRequest(command(BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header), read_offset)


def committed_offset(group: str, topic: str, queue_id: int) -> AdminRequest[int | None]:
    """Request the offset of a group in a queue (14); None proves that none is stored.

    A number other than 0 is stored. 0 proves nothing before 5.0: such a broker answers 0 where nothing is stored, if
    the queue is empty or its first message is in memory; `all_offsets` knows better. Where a reset is pending
    (5.1.0+), the answer is the offset of the reset. Source: docs/protocol/broker-admin.md 12.
    """
    header = QueryConsumerOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False
    )
    request = command(BrokerRequestCode.QUERY_CONSUMER_OFFSET, header)
    return AdminRequest(request, read_offset, {ResponseCode.QUERY_NOT_FOUND: None})


def commit_offset(group: str, topic: str, queue_id: int, offset: int) -> AdminRequest[OffsetCommit]:
    """Store the offset of a group in a queue (15), smaller ones too: the broker compares nothing.

    A consumer that is online overwrites it within 5 s. Raises Refused with code 26 for an unknown group (5.3.0+), 17
    for an unknown topic (5.1.0+) and 29 for no number (5.x); older brokers store it even so.
    Source: docs/protocol/broker-admin.md 13.
    """
    header = UpdateConsumerOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
    return AdminRequest(command(BrokerRequestCode.UPDATE_CONSUMER_OFFSET, header), _read_commit)


def reset_offset(group: str, topic: str, queue_id: int, offset: int) -> AdminRequest[None]:
    """Reset where a group goes on in a queue, on the server (222): members that are online go there at their next pull.

    Only for brokers whose option RESETS_ON_SERVER (26) is `true`: others would reset all queues by time, and so would
    releases before 5.1.0. What clients commit (15) until that pull is answered and not stored. Raises Refused with 17
    for an unknown topic, 26 for an unknown group, 1 on slaves and for an offset outside of [min, max + 1].
    Source: docs/protocol/broker-admin.md 34.
    """
    header = ResetOffsetHeader(
        group=group, topic=topic, timestamp=_BY_OFFSET, is_force=True, queue_id=queue_id, offset=offset
    )
    return AdminRequest(command(BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header), read_nothing)


def reset_members(
    group: str, topic: str, unix_ms: int, *, is_force: bool = True
) -> AdminRequest[Mapping[MessageQueue, int] | None]:
    """Send the members of a group that are online to a moment in all queues of a topic on this broker (222).

    `unix_ms` -1 is the end of each queue. Without `is_force` no queue is sent beyond the offset that is committed. For
    brokers before 5.1 and those whose option RESETS_ON_SERVER is off: others reset on the server. Push consumers go
    there 10 s later, one topic after another. Answers the offset of each queue below writeQueueNums; None: no member is
    online, and nothing was done. Raises Refused with 1 if the group has no offset in one of these queues.
    Source: docs/protocol/broker-admin.md 34.
    """
    header = ResetByTimeHeader(group=group, topic=topic, timestamp=unix_ms, is_force=is_force)
    request = command(BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    return AdminRequest(request, _read_reset, {ResponseCode.CONSUMER_NOT_ONLINE: None})


def timed_messages(topic: str) -> AdminRequest[int]:
    """Request how many timed messages of a topic wait for their time (61, 5.0+); of a topic without any it is 0.

    Raises NotSupported before 5.0, whose brokers have no timed messages but those of the delay levels, and Refused
    where the timer is switched off (`is_timer_off`), or for a fault. Source: docs/protocol/broker-admin.md 24.
    """

    def read(answer: RemotingCommand) -> int:
        counted = decode_broker_body(TimerMetricsBody, answer.body).timing_count.get(topic)
        return 0 if counted is None else counted.count

    return AdminRequest(command(BrokerRequestCode.GET_TIMER_METRICS), read)


def is_timer_off(error: Refused) -> bool:
    """Return whether a broker has refused because it has no timer: any fault of it has code 1 too."""
    return error.code == ResponseCode.SYSTEM_ERROR and TIMER_IS_OFF in (error.remark or "")


def _read_reset(answer: RemotingCommand) -> dict[MessageQueue, int]:
    return by_queue(decode_broker_body(ResetOffsetsBody, answer.body).offset_table)


def _read_commit(answer: RemotingCommand) -> OffsetCommit:
    is_pending = RESET_PENDING in (answer.remark or "")
    return OffsetCommit.RESET_PENDING if is_pending else OffsetCommit.STORED
