"""Bytes <-> commands: the length prefix, JSON and ROCKETMQ headers, and the limits; no socket anywhere.

Answers to `NettyDecoder`, `NettyEncoder` and `RocketMQSerializable` (docs/protocol/remoting.md 2 to 5).
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from remoting.protocol import fastjson
from remoting.protocol.codes import FLAG_RESPONSE, LANGUAGES, SerializeType
from remoting.protocol.command import OUR_LANGUAGE, OUR_VERSION, RemotingCommand
from remoting.protocol.errors import BodyError, FrameError, FrameTooLarge, HeaderError, without_origin
from remoting.protocol.shapes.integers import Int32

Read = TypeVar("Read")
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

_LENGTH_BYTES: Final = 4
#: Shorter frames are looked at when they are whole: to keep them costs little.
_LONG_FRAME_BYTES: Final = 64 * 1024
#: An object for each smaller piece would cost more than its bytes.
_PIECE_BYTES_MIN: Final = 4096
_PREFIX: Final = struct.Struct(">II")
_BINARY: Final = struct.Struct(">hBhiii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_HEADER_WORD_MAX: Final = 2**24 - 1
_INT32_RANGE: Final = range(-(2**31), 2**31)
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}")


class FrameReader(Generic[Read]):
    """Cuts a peer's bytes into frames and reads them, whatever the sizes of the chunks they arrive in.

    Keeps at most one unfinished frame, so at most `frame_bytes_max` bytes. A long one is looked at as soon as its
    header is there; if it is refused, the rest of it is read past. After bytes that break the rules `error` is set and
    everything later is ignored: the caller answers what came before and closes the connection.
    """

    # Each of many thousand connections has one.
    __slots__ = (
        "_frame_bytes_max",
        "_is_judged",
        "_read",
        "_read_pieces",
        "_refuse",
        "_rest",
        "_wanted",
        "error",
        "partial_frame_bytes",
        "skipped_bytes_left",
    )

    def __init__(
        self,
        read: Callable[[bytes, int, int], Read],
        read_pieces: Callable[[Pieces], Read],
        frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT,
        refuse: Callable[[bytes, int], Read | None] = lambda _data, _length: None,
    ) -> None:
        """Take what makes something of a whole frame, such as `decode` and `decode_pieces`.

        `refuse` is given the beginning of a long frame with its whole header, and its length; it returns what stands
        for the frame if the rest of it is not wanted.
        """
        self._read = read
        self._read_pieces = read_pieces
        self._refuse = refuse
        self._frame_bytes_max = frame_bytes_max
        #: Bytes of a refused frame that are still to come.
        self.skipped_bytes_left = 0
        #: There is nothing more to be said about the unfinished frame before it is whole.
        self._is_judged = True
        #: The beginning of an unfinished frame, in the pieces in which it came, small ones put together.
        self._rest: Pieces = []
        #: How many bytes those have.
        self.partial_frame_bytes = 0
        #: Bytes that they must have before there is something to do.
        self._wanted = _LENGTH_BYTES
        #: Why the stream ended, once it did.
        self.error: FrameError | None = None

    def missing_bytes(self, data: bytes) -> int:
        """Return how many of the next bytes, which begin with `data`, belong to a frame that began, or begins there."""
        if self.partial_frame_bytes:
            return self._wanted - self.partial_frame_bytes
        return self.skipped_bytes_left or _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES])

    def receive(self, data: bytes) -> list[Read]:
        """Return what the frames are that `data` completes, in order; see `error` for what ended the stream."""
        if self.error is not None:
            return []
        if self.skipped_bytes_left:
            data = self._skip(data)
        if self.partial_frame_bytes:
            self._keep(data)
            if self.partial_frame_bytes < self._wanted:
                return self._judged()
            pieces, self._rest = self._rest, []
            is_one_frame = self.partial_frame_bytes == self._wanted > _PIECE_BYTES_MIN
            self.partial_frame_bytes = 0
        else:
            pieces, is_one_frame = [data], False
        frames: list[Read] = []
        try:
            if is_one_frame:
                self._wanted = _LENGTH_BYTES
                return [self._read_pieces(pieces)]
            data = bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)
            at = self._cut(data, frames)
        except FrameError as error:
            self.error = without_origin(error)
            return frames
        if at < len(data):
            self._keep(data[at:] if at else data)
            frames += self._judged()
        return frames

    def _skip(self, data: bytes) -> bytes:
        """Return what of `data` is behind a refused frame."""
        skipped = min(self.skipped_bytes_left, len(data))
        self.skipped_bytes_left -= skipped
        return data[skipped:]

    def _judged(self) -> list[Read]:
        """Return what stands for the unfinished frame if its header is there and the rest is not wanted."""
        length = self._wanted - _LENGTH_BYTES
        try:
            if self._is_judged or self.partial_frame_bytes < _PREFIX.size:
                return []
            _, header_end = _header_span(self._beginning(_PREFIX.size), 0, length)
            if self.partial_frame_bytes < header_end:
                return []
            self._is_judged = True
            refused = self._refuse(self._beginning(header_end), length)
        except FrameError as error:
            self.error = without_origin(error)
            self._rest, self.partial_frame_bytes = [], 0
            return []
        if refused is None:
            return []
        self.skipped_bytes_left = self._wanted - self.partial_frame_bytes
        self._rest, self.partial_frame_bytes, self._wanted = [], 0, _LENGTH_BYTES
        return [refused]

    def _beginning(self, count: int) -> bytes:
        """Return the first `count` bytes of the unfinished frame, which are there, and perhaps more."""
        pieces = iter(self._rest)
        beginning = bytes(next(pieces))
        while len(beginning) < count:
            beginning += next(pieces)
        return beginning

    def _keep(self, data: bytes) -> None:
        """Add to the unfinished frame; large pieces stay as they are, to be copied once, when the frame is whole."""
        self.partial_frame_bytes += len(data)
        if len(data) >= _PIECE_BYTES_MIN:
            self._rest.append(data)
        elif self._rest and isinstance(self._rest[-1], bytearray):
            self._rest[-1] += data
        else:
            self._rest.append(bytearray(data))

    def _cut(self, data: bytes, frames: list[Read]) -> int:
        """Append every whole frame of `data` to `frames` and return where the unfinished one begins."""
        at, end = 0, len(data)
        while end - at >= _LENGTH_BYTES:
            (length,) = _INT32.unpack_from(data, at)
            self._check_length(length)
            if end - at < _LENGTH_BYTES + length:
                self._wanted = _LENGTH_BYTES + length
                self._is_judged = length <= _LONG_FRAME_BYTES
                return at
            frames.append(self._read(data, at, length))
            at += _LENGTH_BYTES + length
        self._wanted = _LENGTH_BYTES
        return at

    def _check_length(self, length: int) -> None:
        if length < _LENGTH_BYTES:
            raise FrameError(f"a frame length of {length} is below the {_LENGTH_BYTES} bytes of the header word")
        if length + _LENGTH_BYTES > self._frame_bytes_max:
            raise FrameTooLarge(length + _LENGTH_BYTES, self._frame_bytes_max)


class CommandReader(FrameReader[RemotingCommand]):
    """Cuts a peer's bytes into commands."""

    __slots__ = ()

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT) -> None:
        super().__init__(decode, decode_pieces, frame_bytes_max)


def decode(data: bytes, at: int, length: int) -> RemotingCommand:
    """Return the command whose length prefix stands at `at` of `data`; all `length` bytes after it are there.

    Raises FrameError for a header longer than the frame, HeaderError for one that cannot be read.
    """
    start, end = _header_span(data, at, length)
    return _decode(data[at + _LENGTH_BYTES], data[start:end], data[end : at + _LENGTH_BYTES + length])


def decode_header(data: bytes, length: int) -> RemotingCommand:
    """Return the command that `data` begins with, which has at least its whole header, without the body.

    `length` is that of the frame. Raises as `decode`.
    """
    start, end = _header_span(data, 0, length)
    return msgspec.structs.replace(
        _decode(data[_LENGTH_BYTES], data[start:end], b""), left_out_bytes=length + _LENGTH_BYTES - end
    )


def decode_pieces(pieces: Pieces) -> RemotingCommand:
    """Return the command of a frame that came in these pieces; its body is put together without the rest.

    Raises as `decode`.
    """
    first = pieces[0]
    length = sum(map(len, pieces)) - _LENGTH_BYTES
    if len(first) < _PREFIX.size or len(first) < _header_span(first, 0, length)[1]:
        return decode(b"".join(pieces), 0, length)
    start, end = _header_span(first, 0, length)
    return _decode(first[_LENGTH_BYTES], bytes(first[start:end]), b"".join((memoryview(first)[end:], *pieces[1:])))


def _header_span(data: bytes | bytearray, at: int, length: int) -> tuple[int, int]:
    """Return where the header of a frame begins and ends."""
    _, word = _PREFIX.unpack_from(data, at)
    header_bytes = word & _HEADER_WORD_MAX
    if header_bytes > length - _LENGTH_BYTES:
        raise FrameError(f"a header of {header_bytes} bytes does not fit a frame of {length}")
    if header_bytes > HEADER_BYTES_MAX:
        raise FrameError(f"a header of {header_bytes} bytes is over the limit of {HEADER_BYTES_MAX}")
    start = at + _PREFIX.size
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
    return b"%b%b%b" % (_PREFIX.pack(_LENGTH_BYTES + len(header) + len(command.body), word), header, command.body)


# JSON headers


class _JsonHeader(msgspec.Struct):
    """The keys that a reader looks at; the header word already tells what `serializeTypeCurrentRPC` repeats."""

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
