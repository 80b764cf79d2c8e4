"""The body of a registration in its three forms: JSON, the bare wrapper of very old brokers, and the compressed form.

Answers to `RegisterBrokerBody.decode` (namesrv.md section 2.5). Pure: bytes in, what the broker says out.
"""

import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from namesrv import said_topics
from namesrv.refusals import NameTooLong
from namesrv.said_topics import SaidTopics
from namesrv.slices import Steps, in_parts
from namesrv.topic_settings import SharedSettings, TopicSettings
from remoting.codec import decode_body
from remoting.codes import VERSION_3_0_11, VERSION_5_0_0
from remoting.errors import BodyError, RequestRefused
from remoting.shapes.namesrv import RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper
from remoting.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: A compressed body may grow to this many bytes; 100,000 topics have about 6 MB in that form.
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Inflated at a time; takes some milliseconds.
_INFLATE_BYTES: Final = 1024 * 1024
#: Topics of one registration: twice as many as the largest brokers have.
TOPICS_MAX: Final = 200_000

_INT32: Final = struct.Struct(">i")
_ZLIB_FIRST_BYTE: Final = b"\x78"
_TOKENS_MIN: Final = 5
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT32_MAX: Final = 2**31 - 1


class RegistrationRefused(RequestRefused):
    """A registration is answered with an error, and nothing has changed."""

    ext_fields = MappingProxyType({})


class RegistrationBody(NamedTuple):
    """What a broker says of its topics."""

    data_version: DataVersion
    topics: dict[str, TopicSettings]
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
        if compressed or is_zlib(body):
            return (yield from _decoding_compressed((yield from _inflating(body)), version))
        if version < VERSION_3_0_11:
            wrapper = decode_body(TopicConfigAndMappingSerializeWrapper, body)
            return (yield from _taking_wrapper(wrapper, None, unix_ms))
        if (table := (yield from _read_table(body, before))) is not None:
            return table
        register = decode_body(RegisterBrokerBody, body)
        filter_servers = tuple(register.filter_server_list)
        return (yield from _taking_wrapper(register.topic_config_serialize_wrapper, filter_servers, unix_ms))
    except BodyError as error:
        raise RegistrationRefused(f"Failed to decode RegisterBrokerBody, {error}") from None


def is_zlib(body: bytes) -> bool:
    """Tell whether a body is compressed, whatever was said of it."""
    return body[:1] == _ZLIB_FIRST_BYTE


def _read_table(body: bytes, before: Before | None) -> Steps[RegistrationBody | None]:
    """Return what nearly every broker says; None for texts that need more care."""
    yield
    table = yield from (said_topics.reading(body, *before) if before else said_topics.reading(body))
    if table is None:
        return None
    _checked_count(table.said.topics)
    wrapper = table.envelope.topic_config_serialize_wrapper
    mappings = wrapper.topic_queue_mapping_info_map
    if wrapper.data_version is None or not said_topics.can_be_topics(mappings):
        return None
    return RegistrationBody(
        wrapper.data_version,
        table.topics,
        mappings,
        tuple(table.envelope.filter_server_list),
        said=table.said,
    )


def _taking_wrapper(
    wrapper: TopicConfigAndMappingSerializeWrapper, filter_servers: tuple[str, ...] | None, unix_ms: int
) -> Steps[RegistrationBody]:
    table = wrapper.topic_config_table
    _checked_count(len(table))
    topics, ignored = yield from _taking((config.topic_name or key, config) for key, config in table.items())
    return RegistrationBody(
        wrapper.data_version or DataVersion(timestamp=unix_ms),
        topics,
        _taken_mappings(wrapper.topic_queue_mapping_info_map),
        filter_servers,
        ignored,
    )


def _checked_count(topics: int) -> int:
    if topics > TOPICS_MAX:
        raise BodyError(f"{topics} topics are over the limit of {TOPICS_MAX}")
    return topics


def _taking(configs: Iterable[tuple[str, TopicConfig]]) -> Steps[tuple[dict[str, TopicSettings], int]]:
    """Return the settings of topics whose names can be those of topics, and how many others there were."""
    topics: dict[str, TopicSettings] = {}
    ignored = 0
    shared = SharedSettings()
    for part in in_parts(configs):
        for name, config in part:
            if _can_be_topic(name):
                topics[name] = shared[
                    config.perm, config.read_queue_nums, config.write_queue_nums, config.topic_sys_flag
                ]
            else:
                ignored += 1
        yield
    return topics, ignored


def _taken_mappings(mappings: Mapping[str, TopicQueueMappingInfo]) -> dict[str, TopicQueueMappingInfo]:
    return {topic: mapping for topic, mapping in mappings.items() if _can_be_topic(topic)}


def _can_be_topic(name: str) -> bool:
    return 0 < len(name) <= NameTooLong.CHARS_MAX


def _inflating(body: bytes) -> Steps[bytes]:
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


def _decoding_compressed(text: bytes, version: int) -> Steps[RegistrationBody]:
    parts = _Parts(text)
    data_version = decode_body(DataVersion, parts.next())
    configs = (_topic_config(parts.next()) for _ in range(_checked_count(parts.number())))
    topics, ignored = yield from _taking((config.topic_name, config) for config in configs)
    filter_servers = _filter_servers(parts.next())
    mappings = {}
    for _ in range(parts.number() if version >= VERSION_5_0_0 else 0):
        mapping = decode_body(TopicQueueMappingInfo, parts.next())
        if isinstance(mapping.topic, str):
            mappings[mapping.topic] = mapping
    return RegistrationBody(data_version, topics, _taken_mappings(mappings), filter_servers, ignored)


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
