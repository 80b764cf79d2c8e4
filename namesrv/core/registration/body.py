"""The body of a registration in its three forms: JSON, the bare wrapper of very old brokers, and the compressed form.

Answers to `RegisterBrokerBody.decode` (docs/protocol/namesrv.md 2.5). Pure: bytes in, what the broker says out.
"""

import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from namesrv.core.registration import incremental_body
from namesrv.core.registration.incremental_body import ReportedTopics
from namesrv.core.registration.json_body import LongRegistration
from namesrv.core.registration.json_members import VALUE_BYTES_MAX
from namesrv.core.values.cooperative import CooperativeTask
from namesrv.core.values.topics import TOPICS_MAX, SharedSettings, TopicSettings
from namesrv.refusals import NameTooLong
from remoting.protocol.addresses import is_address, is_name
from remoting.protocol.codec import decode_body
from remoting.protocol.codes import VERSION_3_0_11, VERSION_5_0_0
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.protocol.fastjson import BARE_KEYS_BYTES_MAX
from remoting.protocol.shapes.namesrv import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from remoting.protocol.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: A compressed body may grow to this many bytes; 100,000 topics have about 6 MB in that form.
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Inflated at a time; takes some milliseconds.
_INFLATE_BYTES: Final = 1024 * 1024
#: Filter servers of one broker; brokers before 5.0 have some for each processor at most.
FILTER_SERVERS_MAX: Final = 16
#: So much of a body is read, or checked, without a rest: each takes some milliseconds at most.
_REST_PARTS: Final = 512
_REST_BYTES: Final = 16 * 1024
_CHECKSUM_BYTES: Final = 4 * 1024 * 1024

_INT32: Final = struct.Struct(">i")
_ZLIB_FIRST_BYTE: Final = b"\x78"
_TOKENS_MIN: Final = 5
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT32_MAX: Final = 2**31 - 1


class RegistrationRefused(RequestRefused):
    """A registration is answered with an error, and nothing has changed."""

    ext_fields = MappingProxyType({})


class RegistrationBody(NamedTuple):
    """A decoded registration body, in fields of `Registration`."""

    data_version: DataVersion
    topics: dict[str, TopicSettings]
    mappings: dict[str, TopicQueueMappingInfo]
    #: None = keep what is stored.
    filter_servers: tuple[str, ...] | None
    #: What was left out because it cannot be a broker's: topics, mappings, filter servers.
    ignored_topics: int = 0
    #: How to know it again; None where that is not possible.
    reported: ReportedTopics | None = None


class PreviousRegistration(NamedTuple):
    """A broker's previous registration, while it still holds."""

    reported: ReportedTopics
    #: The topics that are known of it.
    topics: Mapping[str, object]


def decode_registration(
    body: bytes,
    *,
    crc32: int,
    compressed: bool,
    version: int,
    unix_ms: int,
    previous: PreviousRegistration | None = None,
) -> CooperativeTask[RegistrationBody]:
    """Return what `body` says, as the difference to `previous` where that is given and possible.

    A body without a data version counts as changed at `unix_ms`. Raises RegistrationRefused if the checksum is wrong or
    the body cannot be read or inflated.
    """
    if crc32 and crc32 != (yield from _checksum(body)):
        raise RegistrationRefused("crc32 not match")
    if not body:
        return RegistrationBody(DataVersion(), {}, {}, None if version < VERSION_3_0_11 else ())
    try:
        # 5.x brokers with compressedRegister=true compress the body and say they did not.
        if compressed or is_zlib(body):
            return (yield from _decode_compressed((yield from _inflate(body)), version))
        if version >= VERSION_3_0_11 and (table := (yield from _read_known_form(body, previous))) is not None:
            return table
        return (yield from _decode_json(body, version, unix_ms))
    except BodyError as error:
        raise RegistrationRefused(f"Failed to decode RegisterBrokerBody, {error}") from None


def _checksum(body: bytes) -> CooperativeTask[int]:
    """Return the CRC-32 of a body as brokers send it; a cooperative task."""
    view = memoryview(body)
    value = zlib.crc32(view[:_CHECKSUM_BYTES])
    for at in range(_CHECKSUM_BYTES, len(body), _CHECKSUM_BYTES):
        yield
        value = zlib.crc32(view[at : at + _CHECKSUM_BYTES], value)
    return value & 0x7FFFFFFF


def is_zlib(body: bytes) -> bool:
    """Return whether a body is compressed, whatever its header says."""
    return body[:1] == _ZLIB_FIRST_BYTE


def _read_known_form(body: bytes, previous: PreviousRegistration | None) -> CooperativeTask[RegistrationBody | None]:
    """Return what nearly every broker says; None for texts that need more care."""
    yield
    table = yield from (incremental_body.read_table(body, *previous) if previous else incremental_body.read_table(body))
    if table is None:
        return None
    _checked_count(table.reported.topics)
    wrapper = table.envelope.topic_config_serialize_wrapper
    if wrapper.data_version is None:
        return None
    taken = _Taken(table.topics)
    taken.take_mappings(wrapper.topic_queue_mapping_info_map)
    filter_servers = taken.filter_servers(table.envelope.filter_server_list)
    return RegistrationBody(
        wrapper.data_version, taken.topics, taken.mappings, filter_servers, taken.ignored, table.reported
    )


def _decode_json(body: bytes, version: int, unix_ms: int) -> CooperativeTask[RegistrationBody]:
    """Read JSON of any kind: a short text at once, with all liberties, a long one in pieces."""
    has_wrapper_only = version < VERSION_3_0_11
    taken = _Taken()
    if len(body) > BARE_KEYS_BYTES_MAX:
        long = LongRegistration(body, taken.take_topics, taken.take_mappings)
        yield from (long.read_wrapper() if has_wrapper_only else long.read_body())
        taken.ignored += long.left_out
        register, wrapper = long.body, long.wrapper
    else:
        register = RegisterBrokerBody() if has_wrapper_only else decode_body(RegisterBrokerBody, body)
        wrapper = register.topic_config_serialize_wrapper
        if has_wrapper_only:
            wrapper = decode_body(TopicConfigAndMappingSerializeWrapper, body)
        taken.take_topics(wrapper.topic_config_table)
        taken.take_mappings(wrapper.topic_queue_mapping_info_map)
    filter_servers = None if has_wrapper_only else taken.filter_servers(register.filter_server_list)
    return RegistrationBody(
        wrapper.data_version or DataVersion(timestamp=unix_ms),
        taken.topics,
        taken.mappings,
        filter_servers,
        taken.ignored,
    )


def _checked_count(topics: int) -> int:
    if topics > TOPICS_MAX:
        raise BodyError(f"{topics} topics and mappings are over the limit of {TOPICS_MAX}")
    return topics


class _Taken:
    """What is taken of a registration: what can be a broker's; the rest is counted."""

    def __init__(self, topics: dict[str, TopicSettings] | None = None) -> None:
        self.topics = {} if topics is None else topics
        self.mappings: dict[str, TopicQueueMappingInfo] = {}
        self.ignored = 0
        self._shared = SharedSettings()

    def take_topics(self, table: Mapping[str, TopicConfig]) -> None:
        """Take the settings of some topics whose names can be those of topics."""
        self._check_count(len(table))
        for key, config in table.items():
            self.take_topic(config.topic_name or key, config)

    def take_topic(self, name: str, config: TopicConfig) -> None:
        """Take the settings of one topic."""
        if not _can_be_topic(name):
            self.ignored += 1
            return
        self.topics[name] = self._shared[
            config.perm, config.read_queue_nums, config.write_queue_nums, config.topic_sys_flag
        ]

    def take_mappings(self, table: Mapping[str, TopicQueueMappingInfo]) -> None:
        """Take the mappings of some static topics that can be shown to everybody."""
        self._check_count(len(table))
        for topic, mapping in table.items():
            if _can_be_topic(topic) and _can_be_shown(mapping):
                self.mappings[topic] = mapping
            else:
                self.ignored += 1

    def filter_servers(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the first of the filter servers that can be called."""
        every = list(addresses)
        taken = tuple(filter(is_address, every))
        self.ignored += len(every) - len(taken[:FILTER_SERVERS_MAX])
        return taken[:FILTER_SERVERS_MAX]

    def _check_count(self, more: int) -> None:
        _checked_count(len(self.topics) + len(self.mappings) + self.ignored + more)


def _can_be_topic(name: str) -> bool:
    return 0 < len(name) <= NameTooLong.CHARS_MAX


def _can_be_shown(mapping: TopicQueueMappingInfo) -> bool:
    """Return whether the texts of a mapping, which every client of the topic gets, are possible names."""
    names = [text for text in (mapping.bname, mapping.scope) if isinstance(text, str)]
    return all(map(is_name, names)) and not (isinstance(mapping.topic, str) and not _can_be_topic(mapping.topic))


def _inflate(body: bytes) -> CooperativeTask[bytes]:
    # However many wait for their turn, only one of them has memory for this.
    yield
    inflater = zlib.decompressobj()
    text = bytearray()
    rest = body
    try:
        while not inflater.eof and len(text) < INFLATED_BYTES_MAX:
            piece = inflater.decompress(rest, min(_INFLATE_BYTES, INFLATED_BYTES_MAX - len(text)))
            rest = inflater.unconsumed_tail
            if not (piece or rest):
                raise BodyError("its end is missing")
            text += piece
            yield
    except zlib.error as error:
        raise BodyError(f"the compressed body cannot be inflated: {error}") from None
    if not inflater.eof:
        raise BodyError(f"it inflates to more than {INFLATED_BYTES_MAX} bytes")
    return bytes(text)


def _decode_compressed(text: bytes, version: int) -> CooperativeTask[RegistrationBody]:
    parts, taken = _Parts(text), _Taken()
    data_version = decode_body(DataVersion, parts.next() or b"")
    for _ in parts.counted():
        if (line := parts.next()) is None:
            taken.ignored += 1
        else:
            config = _topic_config(line)
            taken.take_topic(config.topic_name, config)
        if parts.is_time_to_rest():
            yield
    filter_servers = taken.filter_servers(_filter_servers(parts.next() or b"[]"))
    for _ in parts.counted() if version >= VERSION_5_0_0 else ():
        mapping = parts.next()
        reported = None if mapping is None else decode_body(TopicQueueMappingInfo, mapping)
        if reported is not None and isinstance(reported.topic, str):
            taken.take_mappings({reported.topic: reported})
        else:
            taken.ignored += 1
        if parts.is_time_to_rest():
            yield
    return RegistrationBody(data_version, taken.topics, taken.mappings, filter_servers, taken.ignored)


def _topic_config(text: bytes) -> TopicConfig:
    """Read `name readQueueNums writeQueueNums perm filterType [attributes]`; flags are not carried in this form."""
    tokens = text.decode("utf-8", "replace").split(" ", _TOKENS_MIN)
    if len(tokens) < _TOKENS_MIN:
        raise BodyError(f"a topic line has {len(tokens)} of at least {_TOKENS_MIN} words")
    name, *numbers = tokens[:4]
    if not all(_DECIMAL.fullmatch(number) and abs(int(number)) <= _INT32_MAX for number in numbers):
        raise BodyError(f"topic {name[: NameTooLong.CHARS_MAX]!r} has queue numbers or a perm that is no 32-bit number")
    read, write, perm = map(int, numbers)
    return TopicConfig(topic_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm, topic_sys_flag=0)


def _filter_servers(text: bytes) -> list[str]:
    try:
        return decode_body(list[str], text)
    except BodyError:
        # As in Java: the list is of no importance to routes, the topics are.
        return []


class _Parts:
    """The length-prefixed parts of an inflated body, read one after another."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0
        self._counted = 0
        #: Where the work began that is done without a rest, and how many parts were read since.
        self._rested_at = 0
        self._parts = 0

    def counted(self) -> range:
        """Read how many parts follow, and return so many numbers; all together have a limit."""
        count = self.number()
        self._counted += max(0, count)
        _checked_count(self._counted)
        return range(count)

    def is_time_to_rest(self) -> bool:
        """Return True once so much was read, since it last did, that others should have their turn."""
        self._parts += 1
        if self._parts < _REST_PARTS and self._at - self._rested_at < _REST_BYTES:
            return False
        self._rested_at, self._parts = self._at, 0
        return True

    def number(self) -> int:
        """Return the next int32."""
        try:
            (value,) = _INT32.unpack_from(self._text, self._at)
        except struct.error:
            raise BodyError(f"it ends at byte {self._at}, where a number is expected") from None
        self._at += _INT32.size
        return int(value)

    def next(self) -> bytes | None:
        """Return the next part; None for one that is longer than a broker's can be."""
        size = self.number()
        end = self._at + size
        if size < 0 or end > len(self._text):
            raise BodyError(f"a part of {size} bytes at byte {self._at} does not fit {len(self._text)}")
        start, self._at = self._at, end
        return self._text[start:end] if size <= VALUE_BYTES_MAX else None
