"""Where one message of a queue is in the log, when it was stored, and what it is known again by. Pure.

No message is pulled for it: a pull leaves a position of its group at the broker, and on 5.5.0 any such position
keeps slaves from copying offsets (docs/protocol/broker-admin.md 15).
"""

import struct
from dataclasses import dataclass
from typing import Final

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body
from remoting.protocol.codes import BrokerRequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, Refused
from remoting.protocol.shapes.stored_messages import QueueEntriesBody, QueueEntriesHeader, ViewMessageHeader

#: Size, magic, CRC of the body, queue id, flag, queue offset, physical offset, system flag, born time.
_HEAD: Final = struct.Struct(">iiIiiqqiq")
_STORE_TIME: Final = struct.Struct(">q")
#: Of messages whose topic takes one byte of length, and two.
_MAGIC: Final = -626843481
_MAGIC_OF_LONG_TOPIC: Final = -626843477
#: What fills a file of the log behind its last message; its size goes to the end of the file.
_MAGIC_OF_BLANK: Final = -875286124
_BORN_HOST_V6_FLAG: Final = 0x10
_STORE_HOST_V6_FLAG: Final = 0x20
#: Number of retries and offset of the prepared transaction, between the store host and the length of the content.
_BETWEEN_BYTES: Final = 4 + 8
_INT: Final = struct.Struct(">i")
#: In the remark of a broker that has no message at an offset of its log. In the middle of a message it takes other
#: bytes for a length, and fails as Java does where that is negative or too large.
_NONE_THERE: Final = ("can not find message by the offset", "java.lang.IllegalArgumentException")
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
    """Where a message is, since when, and what it is known again by."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    #: Bytes in the log.
    length: int
    #: Of its content, as the broker computed it when it stored the message.
    body_crc: int
    #: Unix ms by the clock of the master that stored it.
    store_unix_ms: int
    #: Unix ms by the clock of its producer.
    born_unix_ms: int


class LogFileEnds(BodyError):
    """No message begins at an offset of the log: a file of it ends there, and the next one begins at `next_offset`."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        super().__init__(f"a file of the log ends there; the next one begins at {next_offset}")


def queue_entry(topic: str, queue_id: int, offset: int) -> AdminRequest[QueueEntry | None]:
    """Request where the message at an offset of a queue is (321), without its content; None if none is there.

    Raises Refused with code 1 for a queue that the broker does not have, as it has no message yet or no such topic.
    Source: docs/protocol/broker-admin.md 31.
    """
    header = QueueEntriesHeader(topic=topic, queue_id=queue_id, index=offset, count=1, consumer_group="")
    return AdminRequest(command(BrokerRequestCode.QUERY_CONSUME_QUEUE, header), _read_entry)


def message_in_log(physical_offset: int) -> AdminRequest[StoredMessage]:
    """Request the message that begins at an offset of the log (33), with its content: 4 MiB at most by default.

    Raises Refused with code 1 where none does (`is_none_there`), LogFileEnds where a file of the log ends, and
    BodyError for an answer that is no message of that place. Source: docs/protocol/broker-admin.md 32.
    """

    def read(answer: RemotingCommand) -> StoredMessage:
        size, magic = struct.unpack_from(">ii", answer.body) if len(answer.body) >= _HEAD.size else (0, 0)
        if magic == _MAGIC_OF_BLANK and size > 0:
            raise LogFileEnds(physical_offset + size)
        found = read_message(answer.body)
        if found.physical_offset != physical_offset:
            raise BodyError(f"the response has a message of {found.physical_offset}, not of {physical_offset}")
        return found

    request = command(BrokerRequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=physical_offset))
    return AdminRequest(request, read)


def is_none_there(error: Refused) -> bool:
    """Return whether a broker refused 33 as it has no message at that place: any fault of it has code 1 too."""
    remark = error.remark or ""
    return error.code == ResponseCode.SYSTEM_ERROR and any(text in remark for text in _NONE_THERE)


def _read_entry(answer: RemotingCommand) -> QueueEntry | None:
    if not answer.body:
        return None
    body = decode_broker_body(QueueEntriesBody, answer.body)
    if not body.queue_data:
        return None
    found = QueueEntry(
        physical_offset=body.queue_data[0].physic_offset,
        min_offset=max(body.min_queue_index, 0),
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
    size, magic, crc, queue_id, _, queue_offset, physical_offset, flags, born_unix_ms = _HEAD.unpack_from(body)
    at = _HEAD.size + (_HOST_V6_BYTES if flags & _BORN_HOST_V6_FLAG else _HOST_BYTES)
    if magic not in (_MAGIC, _MAGIC_OF_LONG_TOPIC) or not at + _STORE_TIME.size <= size <= len(body):
        raise BodyError(f"the response is no message: {size} bytes with magic {magic} in {len(body)} bytes")
    (store_unix_ms,) = _STORE_TIME.unpack_from(body, at)
    if min(queue_id, queue_offset, physical_offset, store_unix_ms) < 0:
        raise BodyError(
            f"the response has a message of queue {queue_id} at {queue_offset}, {physical_offset} of the log, "
            f"stored at {store_unix_ms}"
        )
    at += _STORE_TIME.size + (_HOST_V6_BYTES if flags & _STORE_HOST_V6_FLAG else _HOST_BYTES) + _BETWEEN_BYTES
    return StoredMessage(
        topic=_topic(body[:size], at, length_bytes=1 if magic == _MAGIC else 2),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        length=size,
        body_crc=crc,
        store_unix_ms=store_unix_ms,
        born_unix_ms=born_unix_ms,
    )


def _topic(message: bytes, at: int, *, length_bytes: int) -> str:
    """Return the topic of a message, which stands behind its content; `at` is where the length of that is."""
    try:
        at += _INT.size + _INT.unpack_from(message, at)[0]
        start = at + length_bytes
        length = int.from_bytes(message[at:start])
        text = message[start : start + length].decode()
        if not 0 <= at < start <= start + length <= len(message):
            raise BodyError(f"the response is no message: its topic begins at {at} of {len(message)} bytes")
    except (struct.error, UnicodeDecodeError) as error:
        raise BodyError(f"the response is no message: {error}") from None
    return text
