"""Offset files: consumerOffset.json of brokers with its `.bak`, their records in RocksDB, and offsets.json of clients.

Corresponds to `ConsumerOffsetManager`, `RocksDBOffsetSerializeWrapper` and `LocalFileOffsetStore`. An entry is taken
whole or not at all: with one queue missing, its consumers would begin anywhere in that queue. A file of a broker names
no broker, one of a client no group. Pure.

Source: docs/protocol/offsets.md 5; keys: docs/protocol/broker-admin.md 15.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from offsets.files.json_text import (
    JsonObject,
    Node,
    ObjectMember,
    OffsetFileError,
    OtherNumber,
    decode_text,
    parse_json,
    place_of,
)
from offsets.values import LMQ_PREFIX, NAME_CHARACTERS_MAX, OFFSET_MAX, QUEUES_MAX, QueueKey
from remoting.protocol.shapes.broker_admin import (
    BROADCAST_SUFFIX,
    LMQ_OFFSET_TABLE,
    OFFSET_KEY_SEPARATOR,
    OFFSET_TABLE,
)

#: Problems of one file that are listed.
PROBLEMS_MAX: Final = 1_000
#: Names are shown in problems up to so many characters.
_SHOWN_CHARACTERS: Final = 80
#: The text of a client's key in a string: two names, each character as its longest escape, and a number.
_KEY_CHARACTERS_MAX: Final = 2 * 6 * NAME_CHARACTERS_MAX + 200
_BROADCAST: Final = "the offsets of broadcasting groups are with their members"
_LMQ: Final = "offsets of light queues are not imported: their ends are not known for certain"


class ReadOffsets(NamedTuple):
    """What a file has of one broker."""

    offsets: dict[QueueKey, int]
    #: Why entries are not used, each with its place.
    problems: list[str]


class ClientQueue(NamedTuple):
    """A queue as the file of a client names it."""

    topic: str
    broker_name: str
    queue_id: int


class ReadClientOffsets(NamedTuple):
    """What a file of a client has."""

    offsets: dict[ClientQueue, int]
    problems: list[str]


class FileRecord(NamedTuple):
    """A record of RocksDB."""

    key: bytes
    value: bytes


class _Refused(ValueError):
    """An entry is not used, for what is at this member."""

    def __init__(self, reason: str, member: ObjectMember) -> None:
        self.member = member
        super().__init__(reason)


def read_broker_file(data: bytes) -> ReadOffsets:
    """Return what a file of any release has; raises OffsetFileError if it cannot be used as a whole.

    A file without `offsetTable` is such a one: that nothing is stored is written as an empty table.
    """
    text = decode_text(data)
    fields = _fields(text)
    members = _table(text, fields, OFFSET_TABLE)
    twice = _twice(member.key for member in members)
    offsets: dict[QueueKey, int] = {}
    refused: list[_Refused] = []
    for member in members:
        if member.key in twice:
            refused.append(_Refused("it occurs more than once: which one counts is unknown", member))
            continue
        try:
            group, topic = _entry_key(member)
            queues = _queue_offsets(member)
            offsets.update({QueueKey(group, topic, queue_id): offset for queue_id, offset in queues.items()})
        except _Refused as error:
            refused.append(error)
    if LMQ_OFFSET_TABLE in fields:
        refused += [_Refused(_LMQ, member) for member in _table(text, fields, LMQ_OFFSET_TABLE)]
    return ReadOffsets(offsets, _problems(text, refused))


def read_client_file(data: bytes) -> ReadClientOffsets:
    """Return what a file of a client has; raises OffsetFileError if it cannot be used as a whole.

    A key may also be a string that holds an object's text, as standard JSON wants it. A queue that occurs twice is
    refused, as often as it occurs.
    """
    text = decode_text(data)
    queues: list[tuple[ClientQueue, ObjectMember]] = []
    offsets: dict[ClientQueue, int] = {}
    refused: list[_Refused] = []
    for member in _table(text, _fields(text), OFFSET_TABLE):
        try:
            queues.append((_client_queue(member), member))
        except _Refused as error:
            refused.append(error)
    twice = _twice(queue for queue, _ in queues)
    for queue, member in queues:
        if queue in twice:
            refused.append(_Refused("the queue occurs more than once: which offset counts is unknown", member))
            continue
        try:
            offsets[queue] = _offset(member, "the queue")
        except _Refused as error:
            refused.append(error)
    return ReadClientOffsets(offsets, _problems(text, refused))


def read_records(found: Iterable[FileRecord]) -> ReadOffsets:
    """Return what records of RocksDB have; one that cannot be used is a problem. Raises OffsetFileError."""
    offsets: dict[QueueKey, int] = {}
    problems: list[str] = []
    keys: set[bytes] = set()
    for number, (key, value) in enumerate(found):
        place = f"record {number}: {_shown(key.decode(errors='replace'))}"
        if key in keys:
            raise OffsetFileError(f"{place} occurs twice: which one counts is unknown", "", 0)
        keys.add(key)
        try:
            group, topic = _entry_key(ObjectMember(decode_text(key), None, 0))
            queues = _queue_offsets(_fields(decode_text(value))[OFFSET_TABLE])
        except KeyError:
            problems.append(f"{place}: {OFFSET_TABLE} is missing")
        except (OffsetFileError, _Refused) as error:
            problems.append(f"{place}: {error}")
        else:
            offsets.update({QueueKey(group, topic, queue_id): offset for queue_id, offset in queues.items()})
    return ReadOffsets(offsets, [*problems[:PROBLEMS_MAX], *_rest(len(problems))])


def broker_file(offsets: Mapping[QueueKey, int]) -> bytes:
    """Return a file as a broker of 4.9 writes it, which all releases read; raises ValueError for an odd name."""
    entries = ",".join(
        f"\n\t\t{_quoted(key)}:{{{','.join(f'{queue_id}:{offset}' for queue_id, offset in queues.items())}\n\t\t}}"
        for key, queues in _by_entry(offsets).items()
    )
    table = f"{{{entries}\n\t}}" if entries else "{}"
    return f'{{\n\t"{OFFSET_TABLE}":{table}\n}}'.encode()


def client_file(offsets: Mapping[ClientQueue, int]) -> bytes:
    """Return a file as a client writes it."""
    entries = ",".join(
        f'{{\n\t\t\t"brokerName":{_quoted(queue.broker_name)},\n\t\t\t"queueId":{queue.queue_id},'
        f'\n\t\t\t"topic":{_quoted(queue.topic)}\n\t\t}}:{offset}'
        for queue, offset in offsets.items()
    )
    table = f"{{{entries}\n\t}}" if entries else "{}"
    return f'{{\n\t"{OFFSET_TABLE}":{table}\n}}'.encode()


def records(offsets: Mapping[QueueKey, int]) -> list[FileRecord]:
    """Return records as a broker with RocksDB has them; raises ValueError for an odd name."""
    return [
        FileRecord(key.encode(), json.dumps({OFFSET_TABLE: queues}, separators=(",", ":")).encode())
        for key, queues in _by_entry(offsets).items()
    ]


def _by_entry(offsets: Mapping[QueueKey, int]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for (group, topic, queue_id), offset in offsets.items():
        key = f"{topic}{OFFSET_KEY_SEPARATOR}{group}"
        if OFFSET_KEY_SEPARATOR in topic or group.endswith(BROADCAST_SUFFIX):
            raise ValueError(f"group {_shown(group)} in topic {_shown(topic)} would be read as another one")
        found.setdefault(key, {})[queue_id] = offset
    return found


def _fields(text: str) -> dict[str, ObjectMember]:
    node = parse_json(text)
    if not isinstance(node, JsonObject):
        raise OffsetFileError("this is no object, which every file of offsets is", text, 0)
    fields: dict[str, ObjectMember] = {}
    for member in node.members:
        if not isinstance(member.key, str):
            raise OffsetFileError("the name of a field is no string", text, member.at)
        if member.key in fields:
            raise OffsetFileError(f"the field {member.key} occurs twice: which one counts is unknown", text, member.at)
        fields[member.key] = member
    return fields


def _table(text: str, fields: Mapping[str, ObjectMember], name: str) -> list[ObjectMember]:
    if (member := fields.get(name)) is None:
        raise OffsetFileError(f"{name} is missing: this is no offset file", text, 0)
    if not isinstance(member.value, JsonObject):
        raise OffsetFileError(f"{name} is no object", text, member.at)
    return member.value.members


def _entry_key(member: ObjectMember) -> tuple[str, str]:
    """Return group and topic; the first @ ends the topic, as no topic has one. A group of an old broker may."""
    if not isinstance(member.key, str):
        raise _Refused("the key is no string", member)
    topic, separator, group = member.key.partition(OFFSET_KEY_SEPARATOR)
    if not separator:
        raise _Refused(f"the key has no {OFFSET_KEY_SEPARATOR} between topic and group", member)
    if group.endswith(BROADCAST_SUFFIX):
        raise _Refused(_BROADCAST, member)
    if topic.startswith(LMQ_PREFIX):
        raise _Refused(_LMQ, member)
    return _name(group, "group", member), _name(topic, "topic", member)


def _queue_offsets(entry: ObjectMember) -> dict[int, int]:
    if not isinstance(entry.value, JsonObject):
        raise _Refused("these are no offsets by queue id", entry)
    offsets: dict[int, int] = {}
    for member in entry.value.members:
        key = member.key
        is_quoted = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= len(str(QUEUES_MAX))
        queue_id = _queue_id(int(key) if is_quoted else key, member)  # type: ignore[arg-type]  # it is a string
        if queue_id in offsets:
            raise _Refused(f"queue {queue_id} occurs twice: which offset counts is unknown", member)
        offsets[queue_id] = _offset(member, f"queue {queue_id}")
    return offsets


def _client_queue(member: ObjectMember) -> ClientQueue:
    key = member.key
    if isinstance(key, str):
        if len(key) > _KEY_CHARACTERS_MAX:
            raise _Refused(f"the key is no queue: it has {len(key)} characters", member)
        try:
            key = parse_json(key)
        except OffsetFileError as error:
            raise _Refused(f"the key is no queue: {error.what}", member) from None
    if not isinstance(key, JsonObject):
        raise _Refused("the key is no queue", member)
    fields = {field.key: field.value for field in key.members if isinstance(field.key, str)}
    if len(fields) < len(key.members):
        raise _Refused("the key has a field twice", member)
    topic, broker_name = (_name(fields.get(name), name, member) for name in ("topic", "brokerName"))
    return ClientQueue(topic, broker_name, _queue_id(fields.get("queueId"), member))


def _name(value: Node, field: str, member: ObjectMember) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Refused(f"the key has no {field}", member)
    if len(value) > NAME_CHARACTERS_MAX:
        raise _Refused(f"the key has a {field} of {len(value)} characters: {NAME_CHARACTERS_MAX} are allowed", member)
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _Refused(f"the key has a {field} with half a character, which is no UTF-8", member)
    return value


def _queue_id(value: Node, member: ObjectMember) -> int:
    # JSON's true and false are integers to Python.
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Refused("a queue id is no whole number", member)
    if not 0 <= value < QUEUES_MAX:
        raise _Refused(f"queue id {value} is not one of 0 to {QUEUES_MAX - 1}", member)
    return value


def _offset(member: ObjectMember, what: str) -> int:
    value = member.value
    if isinstance(value, OtherNumber):
        raise _Refused(f"{what} has offset {value.text[:40]}: offsets are whole numbers, 0 to {OFFSET_MAX}", member)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Refused(f"{what} has no number as its offset", member)
    if not 0 <= value <= OFFSET_MAX:
        raise _Refused(f"{what} has offset {value}: offsets are 0 to {OFFSET_MAX}", member)
    return value


def _twice(keys: Iterable[object]) -> set[object]:
    counts = Counter(key for key in keys if isinstance(key, str | ClientQueue))
    return {key for key, times in counts.items() if times > 1}


def _problems(text: str, refused: Sequence[_Refused]) -> list[str]:
    """Return the first problems with their places, and how many there are beside."""
    places = (place_of(text, error.member.at) for error in refused[:PROBLEMS_MAX])
    problems = [
        f"line {line}, column {column}: {error}" for (line, column), error in zip(places, refused, strict=False)
    ]
    return [*problems, *_rest(len(refused))]


def _rest(problems: int) -> list[str]:
    return [f"and {problems - PROBLEMS_MAX} more"] if problems > PROBLEMS_MAX else []


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!a}..."


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
