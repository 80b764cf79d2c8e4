"""The body of a registration in JSON, whatever wrote it: of a long one a few topics or mappings at a time.

What brokers write is read faster by `incremental_body.py`, as long as they have no static topics: with them there are
bare integer keys in it. Pure: text in, values out.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from namesrv.core.registration.accepted_topics import AcceptedTopics, RegistrationBody
from namesrv.core.registration.json_members import JsonMembers
from namesrv.core.values.cooperative import CooperativeTask
from namesrv.core.values.topics import TOPICS_MAX
from namesrv.refusals import NameTooLong
from remoting.protocol.codec import decode_body
from remoting.protocol.codes import VERSION_3_0_11
from remoting.protocol.errors import BodyError
from remoting.protocol.fastjson import BARE_KEYS_BYTES_MAX
from remoting.protocol.shapes.namesrv import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from remoting.protocol.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: So much is decoded at a time, and so many members are looked at.
_BLOCK_BYTES: Final = 16 * 1024
_BLOCK_MEMBERS: Final = 512
#: Of a body or a wrapper; brokers write up to five.
_MEMBERS_MAX: Final = 100
#: A longer key is none of a topic, and with its value it could be too long to be decoded.
_KEY_CHARS_MAX: Final = NameTooLong.CHARS_MAX


def _wire_names(shape: type[msgspec.Struct]) -> dict[str, str]:
    return {field.name: field.encode_name for field in msgspec.structs.fields(shape)}


_WRAPPER: Final = _wire_names(RegisterBrokerBody)["topic_config_serialize_wrapper"]
_TOPICS: Final = _wire_names(TopicConfigAndMappingSerializeWrapper)["topic_config_table"]
_MAPPINGS: Final = _wire_names(TopicConfigAndMappingSerializeWrapper)["topic_queue_mapping_info_map"]

TakeTopics = Callable[[dict[str, TopicConfig]], None]
TakeMappings = Callable[[dict[str, TopicQueueMappingInfo]], None]


def decode_json(body: bytes, version: int, unix_ms: int) -> CooperativeTask[RegistrationBody]:
    """Return what a JSON body reports: a short one is read at once, with all liberties, a long one in pieces.

    A body without a data version counts as changed at `unix_ms`. Raises BodyError.
    """
    has_wrapper_only = version < VERSION_3_0_11
    accepted = AcceptedTopics()
    if len(body) > BARE_KEYS_BYTES_MAX:
        long = _LongBody(body, accepted.add_topics, accepted.add_mappings)
        yield from (long.read_wrapper() if has_wrapper_only else long.read_body())
        accepted.ignored += long.left_out
        register, wrapper = long.body, long.wrapper
    else:
        register = RegisterBrokerBody() if has_wrapper_only else decode_body(RegisterBrokerBody, body)
        wrapper = register.topic_config_serialize_wrapper
        if has_wrapper_only:
            wrapper = decode_body(TopicConfigAndMappingSerializeWrapper, body)
        accepted.add_topics(wrapper.topic_config_table)
        accepted.add_mappings(wrapper.topic_queue_mapping_info_map)
    filter_servers = None if has_wrapper_only else register.filter_server_list
    return accepted.body(wrapper.data_version or DataVersion(timestamp=unix_ms), filter_servers)


class _LongBody:
    """Passes topics and mappings on as they are read, and keeps the rest; raises BodyError."""

    def __init__(self, text: bytes, take_topics: TakeTopics, take_mappings: TakeMappings) -> None:
        self._members = JsonMembers(text)
        self._take_topics = take_topics
        self._take_mappings = take_mappings
        #: What the body says beside the wrapper, and the wrapper beside topics and mappings.
        self.body = RegisterBrokerBody()
        self.wrapper = TopicConfigAndMappingSerializeWrapper()
        self._few = self._seen = 0
        #: Topics, mappings and lists that are too long to be those of a broker.
        self.left_out = 0

    def read_body(self) -> CooperativeTask[None]:
        """Read the body of a registration from version 37 on; a cooperative task."""
        rest: dict[str, bytes] = {}
        self._members.enter()
        while (key := self._next_of_few()) is not None:
            if key == _WRAPPER and self._members.at_object():
                yield from self._read_wrapper()
            else:
                yield from self._take_member(key, RegisterBrokerBody, rest)
        self._members.check_end()
        self.body = decode_body(RegisterBrokerBody, _object(rest.values()))

    def read_wrapper(self) -> CooperativeTask[None]:
        """Read the body of an older one; a cooperative task."""
        yield from self._read_wrapper()
        self._members.check_end()

    def _read_wrapper(self) -> CooperativeTask[None]:
        rest: dict[str, bytes] = {}
        self._members.enter()
        while (key := self._next_of_few()) is not None:
            if key == _TOPICS and self._members.at_object():
                yield from self._read_members(dict[str, TopicConfig], self._take_topics)
            elif key == _MAPPINGS and self._members.at_object():
                yield from self._read_members(dict[str, TopicQueueMappingInfo], self._take_mappings)
            else:
                yield from self._take_member(key, TopicConfigAndMappingSerializeWrapper, rest)
        self.wrapper = decode_body(TopicConfigAndMappingSerializeWrapper, _object(rest.values()))

    def _take_member(self, key: str, shape: type[msgspec.Struct], rest: dict[str, bytes]) -> CooperativeTask[None]:
        """Keep a member that somebody reads, and skip the others."""
        if key not in _wire_names(shape).values():
            yield from self._members.skip()
        elif (member := self._members.take()) is not None:
            rest[key] = member
        else:
            self.left_out += 1
            yield from self._members.skip()

    def _read_members(self, kind: Any, take: Callable[[Any], None]) -> CooperativeTask[None]:
        block: list[bytes] = []
        block_bytes = seen = 0
        self._members.enter()
        while (key := self._members.next_key()) is not None:
            member = self._members.take()
            self._count()
            seen += 1
            if block_bytes + len(member or b"") > _BLOCK_BYTES or seen == _BLOCK_MEMBERS:
                take(decode_body(kind, _object(block)))
                yield
                block, block_bytes, seen = [], 0, 0
            if member is None or len(key) > _KEY_CHARS_MAX:
                self.left_out += 1
                if member is None:
                    yield from self._members.skip()
                continue
            block.append(member)
            block_bytes += len(member)
        take(decode_body(kind, _object(block)))
        yield

    def _count(self) -> None:
        # Also a member that is there twice is read twice.
        self._seen += 1
        if self._seen > TOPICS_MAX:
            raise BodyError(f"more than {TOPICS_MAX} topics and mappings")

    def _next_of_few(self) -> str | None:
        self._few += 1
        if self._few > _MEMBERS_MAX:
            raise BodyError(f"not readable as a registration: more than {_MEMBERS_MAX} members")
        return self._members.next_key()


def _object(members: Iterable[bytes]) -> bytes:
    return b"{%b}" % b",".join(members)
