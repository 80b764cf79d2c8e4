"""Bytes <-> commands: the length prefix, JSON and ROCKETMQ headers, and the limits of both.

Answers to `NettyDecoder`, `NettyEncoder` and `RocketMQSerializable` (docs/protocol/remoting.md 2 to 5).
"""

import re
import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from remoting.protocol import fastjson
from remoting.protocol.codes import FLAG_RESPONSE, LANGUAGES, SerializeType
from remoting.protocol.command import OUR_LANGUAGE, OUR_VERSION, RemotingCommand
from remoting.protocol.errors import BodyError, FrameError, HeaderError
from remoting.protocol.shapes.integers import Int32

#: A frame in the pieces in which it came, one or more.
Pieces = list[bytes | bytearray]

#: Java's `com.rocketmq.remoting.frameMaxLength`: a frame with its length prefix may have this many bytes.
FRAME_BYTES_MAX_DEFAULT: Final = 16 * 1024 * 1024

#: A command may carry this many extFields; peers send up to twenty. Binary ones are read one by one, and a frame full
#: of them would hold the server for seconds.
EXT_FIELDS_MAX: Final = 10_000
_TOO_MANY_FIELDS: Final = f"a header of more than {EXT_FIELDS_MAX} extFields"

#: A header may have this many bytes. Peers send some hundred; the longest is that of PUT_KV_CONFIG, whose value comes
#: from a command line, which has at most 128 KiB.
HEADER_BYTES_MAX: Final = 256 * 1024

#: The length prefix of a frame.
LENGTH_BYTES: Final = 4
#: Length prefix and header word.
PREFIX: Final = struct.Struct(">II")
_BINARY: Final = struct.Struct(">hBhiii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_HEADER_WORD_MAX: Final = 2**24 - 1
_INT32_RANGE: Final = range(-(2**31), 2**31)
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}")


def decode(data: bytes, at: int, length: int) -> RemotingCommand:
    """Return the command whose length prefix stands at `at` of `data`; all `length` bytes after it are there.

    Raises FrameError for a header longer than the frame, HeaderError for one that cannot be read.
    """
    start, end = header_span(data, at, length)
    return _decode(data[at + LENGTH_BYTES], data[start:end], data[end : at + LENGTH_BYTES + length])


def decode_header(data: bytes, length: int) -> RemotingCommand:
    """Return the command that `data` begins with, which has at least its whole header, without the body.

    `length` is that of the frame. Raises as `decode`.
    """
    start, end = header_span(data, 0, length)
    return msgspec.structs.replace(
        _decode(data[LENGTH_BYTES], data[start:end], b""), left_out_bytes=length + LENGTH_BYTES - end
    )


def decode_pieces(pieces: Pieces) -> RemotingCommand:
    """Return the command of a frame in pieces; its body is joined without the rest. Raises as `decode`."""
    first = pieces[0]
    length = sum(map(len, pieces)) - LENGTH_BYTES
    if len(first) < PREFIX.size or len(first) < header_span(first, 0, length)[1]:
        return decode(b"".join(pieces), 0, length)
    start, end = header_span(first, 0, length)
    return _decode(first[LENGTH_BYTES], bytes(first[start:end]), b"".join((memoryview(first)[end:], *pieces[1:])))


def header_span(data: bytes | bytearray, at: int, length: int) -> tuple[int, int]:
    """Return where the header of a frame begins and ends."""
    _, word = PREFIX.unpack_from(data, at)
    header_bytes = word & _HEADER_WORD_MAX
    if header_bytes > length - LENGTH_BYTES:
        raise FrameError(f"a header of {header_bytes} bytes does not fit a frame of {length}")
    if header_bytes > HEADER_BYTES_MAX:
        raise FrameError(f"a header of {header_bytes} bytes is over the limit of {HEADER_BYTES_MAX}")
    start = at + PREFIX.size
    return start, start + header_bytes


def _decode(kind: int, header: bytes, body: bytes) -> RemotingCommand:
    if kind == SerializeType.JSON:
        return _decode_json(header, body)
    if kind == SerializeType.ROCKETMQ:
        return _decode_binary(header, body)
    raise FrameError(f"serialization type {kind} is unknown; 0 (JSON) and 1 (ROCKETMQ) exist")


def encode(command: RemotingCommand, serialize_type: SerializeType = SerializeType.JSON) -> bytes:
    """Return the whole frame of `command`, with its length prefix.

    Raises HeaderError if the header does not fit 24 bits, or a binary header's code, version or key 16.
    """
    header = _encode_json(command) if serialize_type is SerializeType.JSON else _encode_binary(command)
    if len(header) > _HEADER_WORD_MAX:
        raise HeaderError(f"a header of {len(header)} bytes is over the limit of {_HEADER_WORD_MAX}")
    word = serialize_type << 24 | len(header)
    return b"%b%b%b" % (PREFIX.pack(LENGTH_BYTES + len(header) + len(command.body), word), header, command.body)


# JSON headers


class _JsonHeader(msgspec.Struct):
    """The keys that a reader looks at; the header word already has what `serializeTypeCurrentRPC` repeats."""

    code: Int32 = 0
    ext_fields: dict[str, str] | None = msgspec.field(name="extFields", default=None)
    flag: Int32 = 0
    language: str | int | None = None
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


_json_header: Final = msgspec.json.Decoder(_JsonHeader)
_to_json: Final = msgspec.json.Encoder()
# Nearly every answer: success, nothing but a body. Java's text with the opaque left open.
_SUCCESS: Final = (
    b'{"code":0,"flag":1,"language":"' + OUR_LANGUAGE.encode() + b'","opaque":%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":' + str(OUR_VERSION).encode() + b"}"
)


def _decode_json(text: bytes, body: bytes) -> RemotingCommand:
    try:
        header = _json_header.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        header = _tolerant_header(text)
    if header.ext_fields is not None and len(header.ext_fields) > EXT_FIELDS_MAX:
        raise HeaderError(_TOO_MANY_FIELDS)
    return RemotingCommand(
        header.code,
        header.opaque,
        header.flag,
        _language(header.language),
        header.version,
        header.remark,
        header.ext_fields,
        body,
    )


def _tolerant_header(text: bytes) -> _JsonHeader:
    """Read what fastjson forgives: numbers as strings, fractions cut off, any scalar as a field's value."""
    try:
        value = fastjson.parse(text)
    except BodyError as error:
        raise HeaderError(f"the header is {error}") from None
    if not isinstance(value, dict):
        raise HeaderError("the header is JSON, but not an object")
    fields = value.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise HeaderError("extFields is not an object")
    numbers = {name: _whole_number(name, value.get(name, 0)) for name in ("code", "flag", "opaque", "version")}
    return _JsonHeader(
        **numbers,
        ext_fields=None if fields is None else {key: _text(item) for key, item in fields.items()},
        language=value.get("language"),
        remark=_text(value["remark"]) if "remark" in value else None,
    )


def _whole_number(name: str, value: Any) -> int:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = int(value)
    if not isinstance(value, int | float) or int(value) not in _INT32_RANGE:
        raise HeaderError(f"{name} is not a number of 32 bits")
    return int(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _to_json.encode(value).decode()


def _language(value: Any) -> str | None:
    if isinstance(value, str):
        return value if value in LANGUAGES else None
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(LANGUAGES):
        raise HeaderError(f"language is neither a name nor a number below {len(LANGUAGES)}")
    return LANGUAGES[value]


def _encode_json(command: RemotingCommand) -> bytes:
    if (
        not command.code
        and command.flag == FLAG_RESPONSE
        and command.ext_fields is None
        and command.remark is None
        and command.version == OUR_VERSION
        and command.language == OUR_LANGUAGE
    ):
        return _SUCCESS % command.opaque
    header: dict[str, Any] = {
        "code": command.code,
        "extFields": None if command.ext_fields is None else dict(command.ext_fields),
        "flag": command.flag,
        "language": command.language,
        "opaque": command.opaque,
        "remark": command.remark,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    return _to_json.encode({key: value for key, value in header.items() if value is not None})


# ROCKETMQ headers


def _decode_binary(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_bytes = _BINARY.unpack_from(header)
        remark, at = _string(header, _BINARY.size, remark_bytes, len(header))
        (fields_bytes,) = _INT32.unpack_from(header, at)
        fields = _decode_map(header, at + _INT32.size, fields_bytes)
    except struct.error:
        raise HeaderError(f"a ROCKETMQ header of {len(header)} bytes ends too early") from None
    name = LANGUAGES[language] if language < len(LANGUAGES) else None
    return RemotingCommand(code, opaque, flag, name, version, remark, fields, body)


def _decode_map(header: bytes, at: int, fields_bytes: int) -> Mapping[str, str] | None:
    if fields_bytes <= 0:
        return None
    end = at + fields_bytes
    if end > len(header):
        raise HeaderError(f"extFields of {fields_bytes} bytes do not fit a header of {len(header)}")
    fields: dict[str, str] = {}
    for _ in range(EXT_FIELDS_MAX):
        if at >= end:
            return fields
        key, at = _string(header, at + _INT16.size, _INT16.unpack_from(header, at)[0], fields_bytes)
        value, at = _string(header, at + _INT32.size, _INT32.unpack_from(header, at)[0], fields_bytes)
        # An empty string is null in this serialization, and a null entry is no entry.
        if key is not None and value is not None:
            fields[key] = value
    if at < end:
        raise HeaderError(_TOO_MANY_FIELDS)
    return fields


def _string(header: bytes, at: int, size: int, size_max: int) -> tuple[str | None, int]:
    """Return the string at `at` and where it ends; like Java, limit its size but not its end by the map it is in."""
    if not 0 <= size <= size_max or at + size > len(header):
        raise HeaderError(f"a string of {size} bytes does not fit a header of {len(header)}")
    return header[at : at + size].decode("utf-8", "replace") or None, at + size


def _encode_binary(command: RemotingCommand) -> bytes:
    remark = (command.remark or "").encode()
    fields = b"".join(_entry(key, value) for key, value in (command.ext_fields or {}).items() if key)
    language = LANGUAGES.index(command.language) if command.language in LANGUAGES else LANGUAGES.index("OTHER")
    try:
        fixed = _BINARY.pack(command.code, language, command.version, command.opaque, command.flag, len(remark))
    except struct.error:
        raise HeaderError(
            f"code {command.code}, version {command.version}, opaque {command.opaque} or flag {command.flag}"
            " does not fit a ROCKETMQ header"
        ) from None
    return b"".join((fixed, remark, _INT32.pack(len(fields)), fields))


def _entry(key: str, value: str) -> bytes:
    name, text = key.encode(), value.encode()
    try:
        return b"".join((_INT16.pack(len(name)), name, _INT32.pack(len(text)), text))
    except struct.error:
        raise HeaderError(f"the field name of {len(name)} bytes does not fit a ROCKETMQ header") from None
