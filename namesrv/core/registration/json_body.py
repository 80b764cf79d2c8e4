"""The body of a registration in JSON, whatever wrote it: of a long one a few topics or mappings at a time.

What brokers write is read faster by `incremental_body.py`, as long as they have no static topics: with them there are
bare integer keys in it. `JsonMembers` finds out where values begin and end, in pieces none of which takes long; whoever
wants a value decodes it. Pure: text in, values out.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from namesrv.core.registration.accepted_topics import AcceptedTopics, RegistrationBody
from namesrv.core.tables.topic_table import TOPICS_MAX
from namesrv.core.values.cooperative import CooperativeTask
from namesrv.refusals import NameTooLong
from remoting.protocol.codec import decode_body
from remoting.protocol.codes import VERSION_3_0_11
from remoting.protocol.errors import BodyError
from remoting.protocol.fastjson import BARE_KEYS_BYTES_MAX
from remoting.protocol.shapes.namesrv import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from remoting.protocol.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: A value that is longer is not found in one step, but in many; a key or a text cannot be longer. With a key and some
#: more it is below `fastjson.BARE_KEYS_BYTES_MAX`.
VALUE_BYTES_MAX: Final = 56 * 1024
#: What is skipped of one text, and how deep it may be nested: nobody sends that much that nobody reads.
SKIPPED_BYTES_MAX: Final = 4 * 1024 * 1024
_DEPTH_MAX: Final = 100
#: Tokens looked at in one step; takes about a millisecond.
_TOKENS: Final = 2048

_STRING: Final = rb'"(?>(?:[^"\\]++|\\.)*)"'


def _within_brackets(depth: int) -> bytes:
    inner = rb"[{\[]%b[}\]]|" % _within_brackets(depth - 1) if depth else b""
    return rb'(?>(?:[^"{}\[\]]++|%b%b)*)' % (inner, _STRING)


#: Topics are nested two deep, mappings too.
_VALUE: Final = re.compile(rb'%b|[{\[]%b[}\]]|[^"{}\[\],\s]++' % (_STRING, _within_brackets(3)), re.DOTALL)
_KEY: Final = re.compile(rb"\s*+(%b|-?[0-9]++)\s*+:\s*+" % _STRING, re.DOTALL)
_TOKEN: Final = re.compile(rb'([{\[])|([}\]])|[^"{}\[\]]++|%b' % _STRING, re.DOTALL)
_BRACKETS: Final = b"{", b"["
_OPENING: Final = re.compile(rb"\s*+\{")
_COMMA: Final = re.compile(rb"\s*+,")
_CLOSING: Final = re.compile(rb"\s*+\}")


class JsonMembers:
    """Goes through an object from member to member; raises BodyError where the text is no JSON."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        #: Where the next thing begins.
        self.at = 0
        #: Where the key that was found last begins.
        self._key_at = 0
        self._is_first = False
        self._skipped_bytes = 0

    def enter(self) -> None:
        """Go to the first member of the object that begins here."""
        self._take(_OPENING, "an object")
        self._is_first = True

    def next_key(self) -> str | None:
        """Return the key of the next member, and stand before its value; None at the end of the object.

        The value has to be taken, skipped or entered; who entered an object comes out of it with its end.
        """
        if _CLOSING.match(self.text, self.at):
            self._take(_CLOSING, "an end")
            self._is_first = False
            return None
        if not self._is_first:
            self._take(_COMMA, "a comma")
        self._is_first = False
        found = self._take(_KEY, "a key")
        self._key_at = found.start(1)
        return _text(found[1])

    def at_object(self) -> bool:
        return _OPENING.match(self.text, self.at) is not None

    def take(self) -> bytes | None:
        """Return the text of the member, with its key, and stand behind it; None if its value is longer than others."""
        found = _VALUE.match(self.text, self.at, self.at + VALUE_BYTES_MAX)
        if found is None or found.end() == self.at + VALUE_BYTES_MAX:
            return None
        self.at = found.end()
        return self.text[self._key_at : self.at]

    def skip(self) -> CooperativeTask[None]:
        """Stand behind the value, however long it is; a cooperative task."""
        if self.take() is not None:
            return
        if not self.text.startswith(_BRACKETS, self.at):
            raise self._unreadable("a value")
        depth = tokens = 0
        while True:
            found = self._take(_TOKEN, "a value")
            depth += (found[1] is not None) - (found[2] is not None)
            if not depth:
                return
            self._skipped_bytes += found.end() - found.start()
            if self._skipped_bytes > SKIPPED_BYTES_MAX or depth > _DEPTH_MAX:
                raise BodyError(f"members that are too long to be read, at byte {self.at}")
            tokens += 1
            if tokens % _TOKENS == 0:
                yield

    def check_end(self) -> None:
        """Raise BodyError if there is more than blanks."""
        end = self.at + VALUE_BYTES_MAX
        if len(self.text) > end or self.text[self.at :].strip():
            raise BodyError(f"not readable as JSON: trailing characters (byte {self.at})")

    def _take(self, pattern: re.Pattern[bytes], wanted: str) -> re.Match[bytes]:
        found = pattern.match(self.text, self.at, self.at + VALUE_BYTES_MAX)
        if found is None:
            raise self._unreadable(wanted)
        self.at = found.end()
        return found

    def _unreadable(self, wanted: str) -> BodyError:
        return BodyError(
            f"not readable as JSON: {wanted} of at most {VALUE_BYTES_MAX} bytes is expected at byte {self.at}"
        )


def _text(key: bytes) -> str:
    try:
        return msgspec.json.decode(key, type=str) if key.startswith(b'"') else key.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(f"not readable as JSON: {error}") from None


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
