"""The offsets of all groups in one answer of a broker, which has megabytes where groups are many. Pure.

It is read a slice at a time, so that a caller can let others run in between. To read it in a thread would hold up the
event loop for longer: one search in megabytes keeps the interpreter's lock.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest, command, note_odd_row
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.errors import BodyError
from remoting.protocol.object_keys import with_quoted_keys
from remoting.protocol.shapes.broker_admin import (
    BROADCAST_SUFFIX,
    OFFSET_KEY_SEPARATOR,
    OFFSET_TABLE,
)

#: Entries that are looked at before the caller is let go on with something else: about a millisecond.
SLICE_ENTRIES: Final = 500
#: The same for text of wanted offsets, which takes far longer, as it is decoded.
SLICE_BYTES: Final = 16 * 1024

_COLON: Final = re.compile(rb"\s*+:\s*+\{")
#: Text of a string.
_IN_STRING: Final = rb'(?>(?:[^"\\]++|\\.)*)'
#: Offsets by queue id, or the offset of a light message queue.
_ENTRY: Final = re.compile(rb'\s*+"(%b)"\s*+:\s*+(\{[^{}]*+\}|-?[0-9]++)\s*+([,}])' % _IN_STRING, re.DOTALL)
_EMPTY: Final = re.compile(rb"\s*+\}")
_SEPARATOR: Final = OFFSET_KEY_SEPARATOR.encode()
_BROADCAST: Final = BROADCAST_SUFFIX.encode()
_OFFSETS: Final = msgspec.json.Decoder(dict[int, int], strict=False)
#: Offsets as brokers write them, which are read as a list of numbers: in a third of the time.
_BARE_OFFSETS: Final = re.compile(rb"\{(?:-?[0-9]++:-?[0-9]++(?:,(?=[-0-9])|(?=\})))*+\}")
_AS_LIST: Final = bytes.maketrans(b"{}:", b"[],")
_NUMBERS: Final = msgspec.json.Decoder(list[int])
_NAMES: Final = msgspec.json.Decoder(str)


class GroupOffsets(NamedTuple):
    """What a broker has stored of a group and a topic, by queue id; a queue without an offset is absent."""

    topic: str
    group: str
    offsets: dict[int, int]
    #: Of groups that broadcast (5.1.0+): the smallest offset that any member has pulled.
    is_broadcast: bool = False


class GroupTopicName(NamedTuple):
    group: str
    topic: str


class UnreadableOffsets(NamedTuple):
    """What a broker has stored of a group and a topic is no offsets, or its name is none."""

    topic: str
    error: BodyError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """The offsets that a broker has stored of one topic, by group and queue id; a queue without one is absent."""

    by_group: Mapping[str, Mapping[int, int]]
    #: Of groups that broadcast.
    broadcast_by_group: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """All offsets of a broker, not decoded yet."""

    body: bytes

    def of_topics(self, topics: Collection[str]) -> Iterator[GroupOffsets | UnreadableOffsets | None]:
        """Yield the offsets of these topics, and None after each slice.

        The table of pulled offsets (5.5.0) has the same keys, and is left out. Raises BodyError for other text.
        """
        return _of_topics(self.entries(), topics)

    def of_groups(self, groups: Collection[str]) -> Iterator[GroupOffsets | UnreadableOffsets]:
        """Yield the offsets of these groups in each topic; those of broadcasting members are left out.

        Raises BodyError for other text.
        """
        return _of_groups(self.entries(), groups)

    def entries(self) -> Iterator["RawEntry"]:
        """Yield the offsets entry by entry, not decoded; raises BodyError without such a table, and for other text."""
        if (at := self._start()) is None:
            raise BodyError(f"a response of {len(self.body)} bytes has no {OFFSET_TABLE}")
        is_last = _EMPTY.match(self.body, at) is not None
        while not is_last:
            if (found := _ENTRY.match(self.body, at)) is None:
                raise BodyError(f"the {OFFSET_TABLE} of a response is not readable from byte {at} on")
            at, is_last = found.end(), found[3] == b"}"
            yield RawEntry(found[1], found[2])

    def _start(self) -> int | None:
        """Return where the first entry of the table can be.

        A name of a group or topic cannot be taken for it: a quote in one has a backslash before it.
        """
        name = b'"%b"' % OFFSET_TABLE.encode()
        at = self.body.find(name)
        while at >= 0:
            if (found := _COLON.match(self.body, at + len(name))) is not None and self.body[at - 1 : at] != b"\\":
                return found.end()
            at = self.body.find(name, at + 1)
        return None


class RawEntry(NamedTuple):
    """An entry of a table as a broker has written it."""

    #: What stands in the quotes, with its escapes.
    key: bytes
    value: bytes


def decode_offsets(value: bytes) -> dict[int, int]:
    """Return offsets by queue id, of which nothing is checked but that they are integers, and each queue is in it once.

    Raises BodyError. Source: docs/protocol/broker-admin.md 15.
    """
    try:
        if _BARE_OFFSETS.fullmatch(value) is not None:
            numbers = _NUMBERS.decode(value.translate(_AS_LIST))
            offsets = dict(zip(numbers[::2], numbers[1::2], strict=True))
        else:
            offsets = _OFFSETS.decode(with_quoted_keys(value))
    except msgspec.DecodeError as error:
        raise BodyError(f"these are no offsets: {error}") from None
    # Each member has one colon: keys and values are numbers.
    if len(offsets) < value.count(b":"):
        raise BodyError("a queue occurs more than once: which offset counts is unknown")
    return offsets


def decode_key(key: bytes) -> str:
    """Return the text of a key; raises BodyError for no UTF-8 and unknown escapes."""
    try:
        return _NAMES.decode(b'"%b"' % key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(f"a key is not readable: {error}") from None


def _of_topics(found: Iterator[RawEntry], topics: Collection[str]) -> Iterator[GroupOffsets | UnreadableOffsets | None]:
    wanted = {topic.encode(): topic for topic in topics}
    entries = decoded_bytes = 0
    for entry in found:
        entries += 1
        topic, _, group = entry.key.partition(_SEPARATOR)
        if topic in wanted:
            decoded_bytes += len(entry.value)
            yield _decoded(wanted[topic], group, entry.value)
        if entries == SLICE_ENTRIES or decoded_bytes >= SLICE_BYTES:
            entries = decoded_bytes = 0
            yield None


def _of_groups(found: Iterator[RawEntry], groups: Collection[str]) -> Iterator[GroupOffsets | UnreadableOffsets]:
    wanted = {group.encode() for group in groups}
    for entry in found:
        topic, _, group = entry.key.partition(_SEPARATOR)
        if group in wanted:
            yield _decoded(decode_key(topic), group, entry.value)


def all_offsets() -> AdminRequest[OffsetTable]:
    """Request all offsets of a broker (43). Source: docs/protocol/broker-admin.md 15."""
    return AdminRequest(command(BrokerRequestCode.GET_ALL_CONSUMER_OFFSET), lambda answer: OffsetTable(answer.body))


def offsets_of_groups(groups: Collection[str]) -> AdminRequest[Mapping[GroupTopicName, Mapping[int, int]]]:
    """Request all offsets of a broker (43) and read those of some groups, by queue id; unreadable ones are absent.

    It alone proves that an offset of 0 is stored: 14 and 208 show 0 for none. Megabytes where groups are many.
    Source: docs/protocol/broker-admin.md 15.
    """

    def read(table: OffsetTable) -> dict[GroupTopicName, Mapping[int, int]]:
        found: dict[GroupTopicName, Mapping[int, int]] = {}
        for row in table.of_groups(groups):
            if isinstance(row, GroupOffsets):
                found[GroupTopicName(row.group, row.topic)] = row.offsets
            else:
                note_odd_row(str(row.error))
        return found

    return all_offsets().mapped(read)


def _decoded(topic: str, group: bytes, offsets: bytes) -> GroupOffsets | UnreadableOffsets:
    is_broadcast = group.endswith(_BROADCAST)
    try:
        name = decode_key(group.removesuffix(_BROADCAST))
        return GroupOffsets(topic, name, decode_offsets(offsets), is_broadcast)
    except BodyError as error:
        return UnreadableOffsets(topic, BodyError(f"offsets of topic {topic} are not readable: {error}"))
