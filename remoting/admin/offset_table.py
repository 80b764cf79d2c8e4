"""The offsets of many topics from one answer of a broker, which has megabytes where groups are many. Pure.

It is read a slice at a time, so that a caller can let others run in between.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest, command
from remoting.admin.offsets import IN_STRING, OFFSETS, TABLE_START
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.errors import BodyError
from remoting.protocol.object_keys import with_quoted_keys
from remoting.protocol.shapes.broker_admin import BROADCAST_SUFFIX, OFFSET_KEY_SEPARATOR

#: Entries that are looked at before the caller is let go on with something else: about a millisecond.
SLICE_ENTRIES: Final = 500

_ENTRY: Final = re.compile(rb'\s*+"(%b)"\s*+:\s*+(\{[^{}]*+\})\s*+([,}])' % IN_STRING, re.DOTALL)
_EMPTY: Final = re.compile(rb"\s*+\}")
_SEPARATOR: Final = OFFSET_KEY_SEPARATOR.encode()
_NAMES: Final = msgspec.json.Decoder(str)


class GroupOffsets(NamedTuple):
    """What a broker has stored of a group and a topic, by queue id; a queue without an offset is absent."""

    topic: str
    group: str
    offsets: dict[int, int]


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """All offsets of a broker, not decoded yet."""

    body: bytes

    def of_topics(self, topics: Collection[str]) -> Iterator[GroupOffsets | None]:
        """Yield the offsets of these topics, and None after each slice; those of broadcasting groups are left out.

        Raises BodyError for text that is no such table.
        """
        wanted = {topic.encode(): topic for topic in topics}
        for number, (key, offsets) in enumerate(self._entries(), 1):
            topic, _, group = key.partition(_SEPARATOR)
            if topic in wanted and not group.endswith(BROADCAST_SUFFIX.encode()):
                yield _decoded(wanted[topic], group, offsets)
            if number % SLICE_ENTRIES == 0:
                yield None

    def _entries(self) -> Iterator[tuple[bytes, bytes]]:
        if (start := TABLE_START.search(self.body)) is None:
            raise BodyError(f"a response of {len(self.body)} bytes has no table of offsets")
        at, is_last = start.end(), _EMPTY.match(self.body, start.end()) is not None
        while not is_last:
            if (found := _ENTRY.match(self.body, at)) is None:
                raise BodyError(f"the table of offsets is not readable from byte {at} on")
            yield found[1], found[2]
            at, is_last = found.end(), found[3] == b"}"


def all_offsets() -> AdminRequest[OffsetTable]:
    """Request all offsets of a broker (43). Source: docs/protocol/broker-admin.md 15."""
    return AdminRequest(command(BrokerRequestCode.GET_ALL_CONSUMER_OFFSET), lambda answer: OffsetTable(answer.body))


def _decoded(topic: str, group: bytes, offsets: bytes) -> GroupOffsets:
    try:
        return GroupOffsets(topic, _NAMES.decode(b'"%b"' % group), OFFSETS.decode(with_quoted_keys(offsets)))
    except msgspec.DecodeError as error:
        raise BodyError(f"offsets of topic {topic} are not readable: {error}") from None
