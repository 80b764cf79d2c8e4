"""The body of a registration in its three forms: JSON, the bare wrapper of very old brokers, and the compressed form.

The last is length-prefixed parts in zlib. Answers to `RegisterBrokerBody.decode` (docs/protocol/namesrv.md 2.5). Pure:
bytes in, values out.
"""

import re
import struct
import zlib
from typing import Final

from namesrv.core.registration.accepted_topics import (
    AcceptedTopics,
    PreviousRegistration,
    RegistrationBody,
    check_topic_count,
)
from namesrv.core.registration.incremental_body import decode_incremental
from namesrv.core.registration.json_body import VALUE_BYTES_MAX, decode_json
from namesrv.core.values.cooperative import CooperativeTask
from namesrv.refusals import NameTooLong, RegistrationRefused
from remoting.protocol.codec import decode_body
from remoting.protocol.codes import VERSION_3_0_11, VERSION_5_0_0
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.route import DataVersion, TopicConfig, TopicQueueMappingInfo

#: A compressed body may grow to this many bytes; 100,000 topics have about 6 MB in that form.
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
#: Inflated at a time; takes some milliseconds.
_INFLATE_BYTES: Final = 1024 * 1024
#: So much of a body is read without a pause: each takes some milliseconds at most.
_PAUSE_PARTS: Final = 512
_PAUSE_BYTES: Final = 16 * 1024

_INT32: Final = struct.Struct(">i")
_ZLIB_FIRST_BYTE: Final = b"\x78"
_TOKENS_MIN: Final = 5
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,10}")
_INT32_MAX: Final = 2**31 - 1


def is_zlib(body: bytes) -> bool:
    """Return whether a body is compressed, whatever its request's `compressed` is."""
    return body[:1] == _ZLIB_FIRST_BYTE


def decode_compressed(body: bytes, version: int) -> CooperativeTask[RegistrationBody]:
    """Return what a compressed body reports; raises BodyError."""
    parts, accepted = _Parts((yield from _inflate(body))), AcceptedTopics()
    data_version = decode_body(DataVersion, parts.next() or b"")
    for _ in parts.counted():
        if (line := parts.next()) is None:
            accepted.ignored += 1
        else:
            config = _topic_config(line)
            accepted.add_topic(config.topic_name, config)
        if parts.should_pause():
            yield
    filter_servers = _filter_servers(parts.next() or b"[]")
    for _ in parts.counted() if version >= VERSION_5_0_0 else ():
        mapping = parts.next()
        reported = None if mapping is None else decode_body(TopicQueueMappingInfo, mapping)
        if reported is not None and isinstance(reported.topic, str):
            accepted.add_mappings({reported.topic: reported})
        else:
            accepted.ignored += 1
        if parts.should_pause():
            yield
    return accepted.body(data_version, filter_servers)


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
        #: Where the last pause was, and how many parts were read since.
        self._paused_at = 0
        self._parts = 0

    def counted(self) -> range:
        """Read how many parts follow, and return so many numbers; all together have a limit."""
        count = self.number()
        self._counted += max(0, count)
        check_topic_count(self._counted)
        return range(count)

    def should_pause(self) -> bool:
        """Return whether so much was read since this was true that other tasks should run."""
        self._parts += 1
        if self._parts < _PAUSE_PARTS and self._at - self._paused_at < _PAUSE_BYTES:
            return False
        self._paused_at, self._parts = self._at, 0
        return True

    def number(self) -> int:
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


#: So much of a body is checked at a time: it takes some milliseconds.
_CHECKSUM_BYTES: Final = 4 * 1024 * 1024


def decode_registration(
    body: bytes,
    *,
    crc32: int,
    compressed: bool,
    version: int,
    unix_ms: int,
    previous: PreviousRegistration | None = None,
) -> CooperativeTask[RegistrationBody]:
    """Return what `body` reports, as the difference to `previous` where that is given and possible.

    A body without a data version counts as changed at `unix_ms`. Raises RegistrationRefused if the checksum is wrong or
    the body cannot be read or inflated.
    """
    checksum = yield from _checksum(body)
    if crc32 and crc32 != checksum & 0x7FFFFFFF:
        raise RegistrationRefused("crc32 not match")
    if not body:
        return RegistrationBody(DataVersion(), {}, {}, None if version < VERSION_3_0_11 else ())
    try:
        # 5.x brokers with compressedRegister=true compress the body and send compressed=false.
        if compressed or is_zlib(body):
            return (yield from decode_compressed(body, version))
        if (
            version >= VERSION_3_0_11
            and (table := (yield from decode_incremental(body, checksum, previous))) is not None
        ):
            return table
        return (yield from decode_json(body, version, unix_ms))
    except BodyError as error:
        raise RegistrationRefused(f"Failed to decode RegisterBrokerBody, {error}") from None


def _checksum(body: bytes) -> CooperativeTask[int]:
    """Return the CRC-32 of a body; a cooperative task."""
    view = memoryview(body)
    value = zlib.crc32(view[:_CHECKSUM_BYTES])
    for at in range(_CHECKSUM_BYTES, len(body), _CHECKSUM_BYTES):
        yield
        value = zlib.crc32(view[at : at + _CHECKSUM_BYTES], value)
    return value
