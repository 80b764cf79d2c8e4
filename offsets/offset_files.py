"""Offset files: consumerOffset.json of brokers with its `.bak`, and offsets.json of clients.

Corresponds to `ConsumerOffsetManager` and `LocalFileOffsetStore`. An entry is taken whole or not at all: with one queue
missing, its consumers would begin anywhere in that queue. A file of a broker names no broker, one of a client no group.
Pure: who reads and writes the files is elsewhere. Source: docs/protocol/offsets.md 5.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from offsets.values import LMQ_PREFIX, NAME_CHARACTERS_MAX, OFFSET_MAX, QUEUES_MAX, QueueKey
from remoting.protocol.errors import BodyError
from remoting.protocol.object_keys import with_quoted_keys
from remoting.protocol.shapes.broker_admin import BROADCAST_SUFFIX, OFFSET_KEY_SEPARATOR, OFFSET_TABLE

#: Problems of one file that are listed.
PROBLEMS_MAX: Final = 1_000
#: Names are shown in problems up to so many characters.
_SHOWN_CHARACTERS: Final = 80

_QueueId = Annotated[int, msgspec.Meta(ge=0, lt=QUEUES_MAX)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]


class OffsetFileError(ValueError):
    """A file of offsets cannot be used at all."""


class ClientQueue(msgspec.Struct, frozen=True, rename="camel"):
    """A queue as the file of a client names it."""

    topic: str
    broker_name: str
    queue_id: _QueueId


class _File(msgspec.Struct, rename="camel"):
    offset_table: dict[str, msgspec.Raw]
    #: Of a broker.
    lmq_offset_table: dict[str, msgspec.Raw] = {}


class _Refused(ValueError):
    """An entry is not used."""


_decode_file: Final = msgspec.json.Decoder(_File).decode
_decode_queues: Final = msgspec.json.Decoder(dict[_QueueId, _Offset]).decode
_decode_queue: Final = msgspec.json.Decoder(ClientQueue).decode
_decode_offset: Final = msgspec.json.Decoder(_Offset).decode


def read_broker_file(data: bytes) -> tuple[dict[QueueKey, int], list[str]]:
    """Return the offsets in a file of any release, and why entries are not used; raises OffsetFileError.

    A file without `offsetTable` is such a one: that nothing is stored is written as an empty table.
    """
    file, offsets, problems = _read(data), dict[QueueKey, int](), list[str]()
    for key, value in file.offset_table.items():
        try:
            group, topic = _entry_key(key)
            queues = _decode_queues(value)
        except (_Refused, msgspec.DecodeError) as error:
            problems.append(f"{_shown(key)}: {error}")
        else:
            offsets.update({QueueKey(group, topic, queue_id): offset for queue_id, offset in queues.items()})
    if file.lmq_offset_table:
        problems.append(f"{len(file.lmq_offset_table)} offsets of light queues: they are not imported")
    return offsets, _listed(problems)


def read_client_file(data: bytes) -> tuple[dict[ClientQueue, int], list[str]]:
    """Return the offsets in a file of a client, and why entries are not used; raises OffsetFileError.

    A key may also be a string that holds an object's text, as standard JSON wants it.
    """
    offsets, problems = dict[ClientQueue, int](), list[str]()
    for key, value in _read(data).offset_table.items():
        try:
            queue = _decode_queue(key)
            _check_name(queue.topic, "topic")
            _check_name(queue.broker_name, "broker name")
            offsets[queue] = _decode_offset(value)
        except (_Refused, msgspec.DecodeError) as error:
            problems.append(f"{_shown(key)}: {error}")
    return offsets, _listed(problems)


def broker_file(offsets: Mapping[QueueKey, int]) -> tuple[bytes, list[str]]:
    """Return a file as a broker of 4.9 writes it, which all releases read, and the queues that it cannot name."""
    found: dict[str, list[str]] = {}
    left_out: list[str] = []
    for (group, topic, queue_id), offset in offsets.items():
        if OFFSET_KEY_SEPARATOR in topic or group.endswith(BROADCAST_SUFFIX):
            where = f"queue {queue_id} of topic {_shown(topic)}, group {_shown(group)}"
            left_out.append(f"{where}: in a file of a broker these would be other names, or a group that broadcasts")
        else:
            found.setdefault(f"{topic}{OFFSET_KEY_SEPARATOR}{group}", []).append(f"{queue_id}:{offset}")
    return _file(f"\n\t\t{_quoted(key)}:{{{','.join(queues)}\n\t\t}}" for key, queues in found.items()), left_out


def client_file(offsets: Mapping[ClientQueue, int]) -> bytes:
    return _file(
        f'{{\n\t\t\t"brokerName":{_quoted(queue.broker_name)},\n\t\t\t"queueId":{queue.queue_id},'
        f'\n\t\t\t"topic":{_quoted(queue.topic)}\n\t\t}}:{offset}'
        for queue, offset in offsets.items()
    )


def _file(entries: Iterable[str]) -> bytes:
    text = ",".join(entries)
    table = f"{{{text}\n\t}}" if text else "{}"
    return f'{{\n\t"{OFFSET_TABLE}":{table}\n}}'.encode()


def _read(data: bytes) -> _File:
    """Read JSON as fastjson writes it, with integers and objects as keys."""
    try:
        return _decode_file(with_quoted_keys(data))
    except (msgspec.DecodeError, UnicodeDecodeError, BodyError, RecursionError) as error:
        raise OffsetFileError(f"this is not a complete file of offsets: {error}") from None


def _entry_key(key: str) -> tuple[str, str]:
    """Return group and topic; the first @ ends the topic, as no topic has one. A group of an old broker may."""
    topic, separator, group = key.partition(OFFSET_KEY_SEPARATOR)
    if not separator:
        raise _Refused(f"the key has no {OFFSET_KEY_SEPARATOR} between topic and group")
    if group.endswith(BROADCAST_SUFFIX):
        raise _Refused("the offsets of broadcasting groups are with their members")
    if topic.startswith(LMQ_PREFIX):
        raise _Refused("offsets of light queues are not imported: their ends are not known for certain")
    _check_name(topic, "topic")
    _check_name(group, "group")
    return group, topic


def _check_name(name: str, what: str) -> None:
    if not name.strip() or len(name) > NAME_CHARACTERS_MAX:
        raise _Refused(f"the {what} is blank, or has more than {NAME_CHARACTERS_MAX} characters")


def _listed(problems: list[str]) -> list[str]:
    rest = len(problems) - PROBLEMS_MAX
    return [*problems[:PROBLEMS_MAX], *([f"and {rest} more"] if rest > 0 else [])]


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!a}..."


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
