"""Where one message of a queue is in the log, and when it was stored; its content is left alone. Pure.

No message is pulled for it: a pull leaves a position of its group at the broker, and on 5.5.0 any such position
keeps slaves from copying offsets (docs/protocol/broker-admin.md 15).
"""

import struct
from dataclasses import dataclass
from typing import Final

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.stored_messages import QueueEntriesBody, QueueEntriesHeader, ViewMessageHeader

#: Size, magic, CRC of the body, queue id, flag, queue offset, physical offset, system flag, born time.
_HEAD: Final = struct.Struct(">iiIiiqqiq")
_STORE_TIME: Final = struct.Struct(">q")
#: Of messages whose topic takes one byte of length, and two.
_MAGICS: Final = frozenset({-626843481, -626843477})
_BORN_HOST_V6_FLAG: Final = 0x10
#: Address and port.
_HOST_BYTES: Final = 8
_HOST_V6_BYTES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """Where the message at one offset of a queue is; the limits of the queue are of the same moment."""

    #: Of its first byte in the log of the broker set; the same on the master and its slaves.
    physical_offset: int
    min_offset: int
    #: The next offset to be written.
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """Where a message is, and since when."""

    queue_id: int
    queue_offset: int
    physical_offset: int
    #: Unix ms by the clock of the master that stored it.
    store_unix_ms: int
    #: Unix ms by the clock of its producer.
    born_unix_ms: int


def queue_entry(topic: str, queue_id: int, offset: int) -> AdminRequest[QueueEntry | None]:
    """Request where the message at an offset of a queue is (321), without its content; None if none is there.

    Raises Refused with code 1 for a queue that the broker does not have, as it has no message yet or no such topic.
    Source: docs/protocol/broker-admin.md 31.
    """
    header = QueueEntriesHeader(topic=topic, queue_id=queue_id, index=offset, count=1, consumer_group="")
    return AdminRequest(command(BrokerRequestCode.QUERY_CONSUME_QUEUE, header), _read_entry)


def message_in_log(physical_offset: int) -> AdminRequest[StoredMessage]:
    """Request the message that begins at an offset of the log (33), with its content: 4 MiB at most by default.

    Raises Refused with code 1 where none does, and BodyError for an answer that is no message.
    Source: docs/protocol/broker-admin.md 32.
    """
    request = command(BrokerRequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=physical_offset))
    return AdminRequest(request, lambda answer: read_message(answer.body))


def _read_entry(answer: RemotingCommand) -> QueueEntry | None:
    if not answer.body:
        return None
    body = decode_broker_body(QueueEntriesBody, answer.body)
    if not body.queue_data:
        return None
    found = QueueEntry(
        physical_offset=body.queue_data[0].physic_offset,
        min_offset=body.min_queue_index,
        max_offset=body.max_queue_index,
    )
    if found.physical_offset < 0 or found.max_offset < 0:
        raise BodyError(f"the response has an entry that no queue has: {found}")
    return found


def read_message(body: bytes) -> StoredMessage:
    """Return the first message in a body of messages; raises BodyError for other bytes.

    Source: docs/protocol/broker-admin.md 32.
    """
    if len(body) < _HEAD.size:
        raise BodyError(f"a message has at least {_HEAD.size} bytes, the response {len(body)}")
    size, magic, _, queue_id, _, queue_offset, physical_offset, flags, born_unix_ms = _HEAD.unpack_from(body)
    at = _HEAD.size + (_HOST_V6_BYTES if flags & _BORN_HOST_V6_FLAG else _HOST_BYTES)
    if magic not in _MAGICS or not at + _STORE_TIME.size <= size <= len(body):
        raise BodyError(f"the response is no message: {size} bytes with magic {magic} in {len(body)} bytes")
    (store_unix_ms,) = _STORE_TIME.unpack_from(body, at)
    if min(queue_id, queue_offset, physical_offset, store_unix_ms) < 0:
        raise BodyError(
            f"the response has a message of queue {queue_id} at {queue_offset}, {physical_offset} of the log, "
            f"stored at {store_unix_ms}"
        )
    return StoredMessage(
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        store_unix_ms=store_unix_ms,
        born_unix_ms=born_unix_ms,
    )
