"""The body of a registration in its three forms: JSON, the bare wrapper of very old brokers, and the compressed form.

Answers to `RegisterBrokerBody.decode` (namesrv.md section 2.5). Pure: bytes in, what the broker says out.
"""

import re
import struct
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from namesrv import said_topics
from namesrv.refusals import NameTooLong
from namesrv.said_topics import SaidTopics
from namesrv.slices import Steps
from remoting.codec import decode_body
from remoting.codes import VERSION_3_0_11, VERSION_5_0_0
from remoting.errors import BodyError, RequestRefused
from remoting.shapes.namesrv import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from remoting.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: A compressed body may grow to this many bytes; 100,000 topics have about 6 MB in that form.
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Topics of one registration: twice as many as the largest brokers have.
TOPICS_MAX: Final = 200_000

_INT32: Final = struct.Struct(">i")
_ZLIB_FIRST_BYTE: Final = 0x78
_TOKENS_MIN: Final = 5
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT32_MAX: Final = 2**31 - 1


class RegistrationRefused(RequestRefused):
    """A registration is answered with an error, and nothing has changed."""

    ext_fields = MappingProxyType({})


class RegistrationBody(NamedTuple):
    """What a broker says of its topics."""

    data_version: DataVersion
    topics: dict[str, TopicConfig]
    mappings: dict[str, TopicQueueMappingInfo]
    #: None = keep what is stored.
    filter_servers: tuple[str, ...] | None
    #: Topics that were left out because their name is empty or too long.
    ignored_topics: int = 0
    #: How to know it again; None where that is not possible.
    said: SaidTopics | None = None


class Before(NamedTuple):
    """What a broker has said, and is still so."""

    said: SaidTopics
    #: The topics that are known of it.
    topics: Mapping[str, object]


def decoding(
    body: bytes, *, crc32: int, compressed: bool, version: int, unix_ms: int, before: Before | None = None
) -> Steps[RegistrationBody]:
    """Return what `body` says, as the difference to `before` where that is given and possible.

    A body without a data version counts as changed at `unix_ms`. Raises RegistrationRefused if the checksum is wrong or
    the body cannot be read or inflated.
    """
    if crc32 and crc32 != zlib.crc32(body) & 0x7FFFFFFF:
        raise RegistrationRefused("crc32 not match")
    if not body:
        return RegistrationBody(DataVersion(), {}, {}, None if version < VERSION_3_0_11 else ())
    try:
        # 5.x brokers with compressedRegister=true compress the body and say they did not.
        if compressed or body[0] == _ZLIB_FIRST_BYTE:
            return _checked(_decode_compressed(_inflate(body), version))
        if version < VERSION_3_0_11:
            wrapper = decode_body(TopicConfigAndMappingSerializeWrapper, body)
            return _checked(_from_wrapper(wrapper, None, unix_ms))
        if (table := (yield from _read_table(body, before))) is not None:
            return table
        register = decode_body(RegisterBrokerBody, body)
        filter_servers = tuple(register.filter_server_list)
        return _checked(_from_wrapper(register.topic_config_serialize_wrapper, filter_servers, unix_ms))
    except BodyError as error:
        raise RegistrationRefused(f"Failed to decode RegisterBrokerBody, {error}") from None


def _read_table(body: bytes, before: Before | None) -> Steps[RegistrationBody | None]:
    """Return what nearly every broker says; None for texts that need more care."""
    yield
    table = yield from (said_topics.reading(body, *before) if before else said_topics.reading(body))
    if table is None:
        return None
    _checked_count(table.said.topics)
    wrapper = table.envelope.topic_config_serialize_wrapper
    mappings = wrapper.topic_queue_mapping_info_map
    if wrapper.data_version is None or not (_can_be_topics(table.topics) and _can_be_topics(mappings)):
        return None
    return RegistrationBody(
        wrapper.data_version,
        table.topics,
        mappings,
        tuple(table.envelope.filter_server_list),
        said=table.said,
    )


def _from_wrapper(
    wrapper: TopicConfigAndMappingSerializeWrapper, filter_servers: tuple[str, ...] | None, unix_ms: int
) -> RegistrationBody:
    _checked_count(len(wrapper.topic_config_table))
    return RegistrationBody(
        wrapper.data_version or DataVersion(timestamp=unix_ms),
        {config.topic_name or key: config for key, config in wrapper.topic_config_table.items()},
        wrapper.topic_queue_mapping_info_map,
        filter_servers,
    )


def _checked_count(topics: int) -> int:
    if topics > TOPICS_MAX:
        raise BodyError(f"{topics} topics are over the limit of {TOPICS_MAX}")
    return topics


def _checked(said: RegistrationBody) -> RegistrationBody:
    good = {topic: config for topic, config in said.topics.items() if _can_be_topic(topic)}
    mappings = {topic: mapping for topic, mapping in said.mappings.items() if _can_be_topic(topic)}
    return said._replace(topics=good, mappings=mappings, ignored_topics=len(said.topics) - len(good))


def _can_be_topics(names: Mapping[str, object]) -> bool:
    return "" not in names and max(map(len, names), default=0) <= NameTooLong.CHARS_MAX


def _can_be_topic(name: str) -> bool:
    return 0 < len(name) <= NameTooLong.CHARS_MAX


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise BodyError(f"the compressed body cannot be inflated: {error}") from None
    if not inflater.eof:
        over = bool(inflater.unconsumed_tail)
        raise BodyError(f"it inflates to more than {INFLATED_BYTES_MAX} bytes" if over else "its end is missing")
    return text


def _decode_compressed(text: bytes, version: int) -> RegistrationBody:
    parts = _Parts(text)
    data_version = decode_body(DataVersion, parts.next())
    topics = {}
    for _ in range(_checked_count(parts.number())):
        config = _topic_config(parts.next())
        topics[config.topic_name] = config
    filter_servers = _filter_servers(parts.next())
    mappings = {}
    for _ in range(parts.number() if version >= VERSION_5_0_0 else 0):
        mapping = decode_body(TopicQueueMappingInfo, parts.next())
        if isinstance(mapping.topic, str):
            mappings[mapping.topic] = mapping
    return RegistrationBody(data_version, topics, mappings, filter_servers)


def _topic_config(text: bytes) -> TopicConfig:
    """Read `name readQueueNums writeQueueNums perm filterType [attributes]`; flags are not carried in this form."""
    tokens = text.decode("utf-8", "replace").split(" ")
    if len(tokens) < _TOKENS_MIN:
        raise BodyError(f"a topic line has {len(tokens)} of at least {_TOKENS_MIN} words")
    name, *numbers = tokens[:4]
    if not all(_DECIMAL.fullmatch(number) and abs(int(number)) <= _INT32_MAX for number in numbers):
        raise BodyError(f"topic {name[: NameTooLong.CHARS_MAX]!r} has queue numbers or a perm that is no 32-bit number")
    read, write, perm = map(int, numbers)
    return TopicConfig(topic_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm, topic_sys_flag=0)


def _filter_servers(text: bytes) -> tuple[str, ...]:
    try:
        return tuple(decode_body(list[str], text))
    except BodyError:
        # As in Java: the list is of no importance to routes, the topics are.
        return ()


class _Parts:
    """The length-prefixed parts of an inflated body, read one after another."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def number(self) -> int:
        """Return the next int32."""
        try:
            (value,) = _INT32.unpack_from(self._text, self._at)
        except struct.error:
            raise BodyError(f"it ends at byte {self._at}, where a number is expected") from None
        self._at += _INT32.size
        return int(value)

    def next(self) -> bytes:
        """Return the next part."""
        size = self.number()
        end = self._at + size
        if size < 0 or end > len(self._text):
            raise BodyError(f"a part of {size} bytes at byte {self._at} does not fit {len(self._text)}")
        part = self._text[self._at : end]
        self._at = end
        return part
