"""The key under which a broker keeps the offsets of a group in a topic, in its files and in its answers. Pure.

Source: docs/protocol/broker-admin.md 15.
"""

import enum
from typing import Final, NamedTuple

from controller.offsets.values import NAME_CHARACTERS_MAX
from remoting.protocol.shapes.broker_admin import BROADCAST_SUFFIX, OFFSET_KEY_SEPARATOR

#: Names are shown in errors up to so many characters.
_SHOWN_CHARACTERS: Final = 80


class EntryKind(enum.StrEnum):
    """What the offsets of an entry are."""

    #: What a group that shares the messages has consumed.
    CLUSTERING = "clustering"
    #: The smallest offset that a member of a broadcasting group has pulled (5.1.0+); committed nowhere.
    BROADCAST = "broadcast"
    #: What a client has consumed of a light message queue, which has only queue 0.
    LMQ = "lmq"


class EntryKey(NamedTuple):
    """Whose offsets an entry holds, on the broker that has it."""

    topic: str
    group: str
    kind: EntryKind = EntryKind.CLUSTERING


class OddEntryKey(ValueError):
    """A key is none that a broker makes of a topic and a group."""


def parse_entry_key(text: str, *, is_lmq: bool = False) -> EntryKey:
    """Return what `topic@group`, `topic@group@broadcast` or a key of light message queues names.

    The first @ ends the topic, as no topic has one; a group of an old broker may. Raises OddEntryKey.
    """
    topic, separator, group = text.partition(OFFSET_KEY_SEPARATOR)
    if not separator:
        raise OddEntryKey(f"the key {shown(text)} has no {OFFSET_KEY_SEPARATOR} between topic and group")
    kind = EntryKind.LMQ if is_lmq else EntryKind.CLUSTERING
    if not is_lmq and group.endswith(BROADCAST_SUFFIX):
        group, kind = group.removesuffix(BROADCAST_SUFFIX), EntryKind.BROADCAST
    if not (text.isascii() and len(text) <= NAME_CHARACTERS_MAX and topic.strip() and group.strip()):
        _check_name(topic, "topic", text)
        _check_name(group, "group", text)
    return EntryKey(topic, group, kind)


def entry_key_text(key: EntryKey) -> str:
    """Return the key as a broker writes it; raises OddEntryKey if it would be read as another one."""
    suffix = BROADCAST_SUFFIX if key.kind is EntryKind.BROADCAST else ""
    text = f"{key.topic}{OFFSET_KEY_SEPARATOR}{key.group}{suffix}"
    if (read := parse_entry_key(text, is_lmq=key.kind is EntryKind.LMQ)) != key:
        raise OddEntryKey(
            f"group {shown(key.group)} in topic {shown(key.topic)} would be read as group {shown(read.group)} "
            f"({read.kind.value}) in topic {shown(read.topic)}: names with {OFFSET_KEY_SEPARATOR} cannot be written"
        )
    return text


def has_half_character(text: str) -> bool:
    """Return whether text has a surrogate without its other half, which JSON can name and UTF-8 cannot hold."""
    return not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text)


def shown(text: str) -> str:
    """Return text for an error: in quotes, with escapes for what cannot be printed, and cut where it is long."""
    return ascii(text) if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]!a}..."


def _check_name(name: str, what: str, text: str) -> None:
    if not name.strip():
        raise OddEntryKey(f"the key {shown(text)} has a blank {what}")
    if len(name) > NAME_CHARACTERS_MAX:
        raise OddEntryKey(
            f"the key {shown(text)} has a {what} of {len(name)} characters, of which {NAME_CHARACTERS_MAX} are allowed"
        )
    if has_half_character(name):
        raise OddEntryKey(f"the key {shown(text)} has half a character, which is no UTF-8")
