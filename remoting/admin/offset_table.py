"""The offsets of all groups in one answer of a broker, which has megabytes where groups are many. Pure.

It is read a slice at a time, so that a caller can let others run in between. To read it in a thread would hold up the
event loop for longer: one search in megabytes keeps the interpreter's lock.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest, command
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.errors import BodyError
from remoting.protocol.object_keys import with_quoted_keys
from remoting.protocol.shapes.broker_admin import BROADCAST_SUFFIX, OFFSET_KEY_SEPARATOR, OFFSET_TABLE

#: Entries that are looked at before the caller is let go on with something else: about a millisecond.
SLICE_ENTRIES: Final = 500
#: The same for text of wanted offsets, which takes far longer, as it is decoded.
SLICE_BYTES: Final = 16 * 1024

_TABLE_START: Final = re.compile(rb'(?<!\\)"%b"\s*+:\s*+\{' % OFFSET_TABLE.encode())
#: Text of a string.
_IN_STRING: Final = rb'(?>(?:[^"\\]++|\\.)*)'
_ENTRY: Final = re.compile(rb'\s*+"(%b)"\s*+:\s*+(\{[^{}]*+\})\s*+([,}])' % _IN_STRING, re.DOTALL)
_EMPTY: Final = re.compile(rb"\s*+\}")
_SEPARATOR: Final = OFFSET_KEY_SEPARATOR.encode()
_BROADCAST: Final = BROADCAST_SUFFIX.encode()
_OFFSETS: Final = msgspec.json.Decoder(dict[int, int], strict=False)
_NAMES: Final = msgspec.json.Decoder(str)


class GroupOffsets(NamedTuple):
    """What a broker has stored of a group and a topic, by queue id; a queue without an offset is absent."""

    topic: str
    group: str
    offsets: dict[int, int]
    #: Of groups that broadcast (5.1.0+): the smallest offset that any member has pulled.
    is_broadcast: bool = False


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

        Raises BodyError for text that is no such table.
        """
        wanted = {topic.encode(): topic for topic in topics}
        entries = decoded_bytes = 0
        for key, offsets in self._entries():
            entries += 1
            topic, _, group = key.partition(_SEPARATOR)
            if topic in wanted:
                decoded_bytes += len(offsets)
                yield _decoded(wanted[topic], group, offsets)
            if entries == SLICE_ENTRIES or decoded_bytes >= SLICE_BYTES:
                entries = decoded_bytes = 0
                yield None

    def _entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys with what they lead to; the table of pulled offsets (5.5.0) has the same keys, and is left out."""
        if (start := _TABLE_START.search(self.body)) is None:
            raise BodyError(f"a response of {len(self.body)} bytes has no {OFFSET_TABLE}")
        at, is_last = start.end(), _EMPTY.match(self.body, start.end()) is not None
        while not is_last:
            if (found := _ENTRY.match(self.body, at)) is None:
                raise BodyError(f"the {OFFSET_TABLE} of a response is not readable from byte {at} on")
            yield found[1], found[2]
            at, is_last = found.end(), found[3] == b"}"


def all_offsets() -> AdminRequest[OffsetTable]:
    """Request all offsets of a broker (43). Source: docs/protocol/broker-admin.md 15."""
    return AdminRequest(command(BrokerRequestCode.GET_ALL_CONSUMER_OFFSET), lambda answer: OffsetTable(answer.body))


def _decoded(topic: str, group: bytes, offsets: bytes) -> GroupOffsets | UnreadableOffsets:
    is_broadcast = group.endswith(_BROADCAST)
    try:
        name = _NAMES.decode(b'"%b"' % group.removesuffix(_BROADCAST))
        return GroupOffsets(topic, name, _OFFSETS.decode(with_quoted_keys(offsets)), is_broadcast)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return UnreadableOffsets(topic, BodyError(f"offsets of topic {topic} are not readable: {error}"))
