"""offsets.json of a client that keeps its own offsets: one of a broadcasting group. Pure.

Answers to `LocalFileOffsetStore`. The keys are queues as objects. Source: docs/protocol/offsets.md 5.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from controller.offsets.entry_keys import has_half_character, shown
from controller.offsets.files.entries import (
    EntryRefused,
    RefusedEntry,
    SourceText,
    checked_offset,
    checked_queue_id,
    read_source,
    table_of,
    twice_used,
)
from controller.offsets.files.json_text import JsonObject, Node, ObjectMember, OffsetFileError, parse_json
from controller.offsets.values import NAME_CHARACTERS_MAX
from remoting.admin.message_queues import MessageQueue
from remoting.protocol.shapes.broker_admin import OFFSET_TABLE

_NAMES: Final = ("brokerName", "topic")
_QUEUE_ID: Final = "queueId"
#: The text of a key in a string: two names, each character as its longest escape, and a number.
_KEY_CHARACTERS_MAX: Final = 2 * 6 * NAME_CHARACTERS_MAX + 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A file that was read: the offset of each queue, and entries that are not used."""

    offsets: Mapping[MessageQueue, int]
    refused: tuple[RefusedEntry, ...] = ()


def parse_client_file(data: bytes) -> ClientFile:
    """Return what a file has; raises OffsetFileError if it cannot be used as a whole.

    A key may also be a string that holds an object's text, as standard JSON wants it. A queue that occurs twice is
    refused, as often as it occurs.
    """
    source, fields = read_source(data)
    members = table_of(fields, OFFSET_TABLE, source)
    if members is None:
        raise source.error(f"{OFFSET_TABLE} is missing: this is no offset file of a client", 0)
    refused: list[RefusedEntry] = []
    found: dict[MessageQueue, int] = {}
    queues = list(_queues(members, source, refused))
    twice = twice_used(queue for queue, _ in queues)
    for queue, member in queues:
        try:
            found[queue] = _offset_of(member, is_twice=queue in twice)
        except EntryRefused as error:
            refused.append(source.refused(OFFSET_TABLE, _text_of(queue), error))
    return ClientFile(offsets=found, refused=tuple(refused))


def emit_client_file(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return a file as a client writes it, and reads it."""
    entries = ",".join(f"{_key_lines(queue)}:{offset}" for queue, offset in offsets.items())
    table = f"{{{entries}\n\t}}" if entries else "{}"
    return f'{{\n\t"{OFFSET_TABLE}":{table}\n}}'.encode()


def _queues(
    members: list[ObjectMember], source: SourceText, refused: list[RefusedEntry]
) -> Iterator[tuple[MessageQueue, ObjectMember]]:
    for member in members:
        try:
            queue = _queue_of(member.key, member.at)
        except EntryRefused as error:
            refused.append(source.refused(OFFSET_TABLE, member.key if isinstance(member.key, str) else "", error))
        else:
            yield queue, member


def _offset_of(member: ObjectMember, *, is_twice: bool) -> int:
    if is_twice:
        raise EntryRefused("the queue occurs more than once: which offset counts is unknown", member.at)
    return checked_offset(member.value, "the queue", member.at)


def _queue_of(key: Node, at: int) -> MessageQueue:
    if isinstance(key, str):
        if len(key) > _KEY_CHARACTERS_MAX:
            raise EntryRefused(f"the key is no queue: it has {len(key)} characters", at)
        try:
            key = parse_json(key)
        except OffsetFileError as error:
            raise EntryRefused(f"the key is no queue: {error.what}", at) from None
    if not isinstance(key, JsonObject):
        raise EntryRefused("the key is no queue", at)
    fields = {each.key: each.value for each in key.members if isinstance(each.key, str)}
    if len(fields) < len(key.members):
        raise EntryRefused("the key has a field twice", at)
    broker_name, topic = (_name(fields.get(each), each, at) for each in _NAMES)
    queue_id = fields.get(_QUEUE_ID)
    if type(queue_id) is not int:
        raise EntryRefused(f"the key has no whole number as its {_QUEUE_ID}", at)
    return MessageQueue(topic=topic, broker_name=broker_name, queue_id=checked_queue_id(queue_id, at))


def _name(value: Node, field: str, at: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise EntryRefused(f"the key has no {field}", at)
    if len(value) > NAME_CHARACTERS_MAX:
        raise EntryRefused(
            f"the key has a {field} of {len(value)} characters ({shown(value)}), of which {NAME_CHARACTERS_MAX} are "
            "allowed",
            at,
        )
    if has_half_character(value):
        raise EntryRefused(f"the key has a {field} ({shown(value)}) with half a character, which is no UTF-8", at)
    return value


def _key_lines(queue: MessageQueue) -> str:
    fields = (("brokerName", queue.broker_name), (_QUEUE_ID, queue.queue_id), ("topic", queue.topic))
    lines = ",".join(f'\n\t\t\t"{name}":{msgspec.json.encode(value).decode()}' for name, value in fields)
    return f"{{{lines}\n\t\t}}"


def _text_of(queue: MessageQueue) -> str:
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
