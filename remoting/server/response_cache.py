"""Answers that stand ready, and the requests that are known to ask for them.

A client asks the same thing again and again in the same bytes, but for its number of the request. So the bytes without
that number are remembered with the answer they had, and while it is true a request is neither decoded nor carried out.
Whoever prepared an answer tells when it is no longer true, in the step that makes it so.
"""

import struct
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from remoting.protocol.codes import FLAG_RESPONSE, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError
from remoting.protocol.frame import decode, encode
from remoting.server.statistics import ServerStatistics, SizeTally

#: Bytes of remembered requests; beyond them all are forgotten, and remembered anew as they come.
KNOWN_BYTES_MAX: Final = 32 * 1024 * 1024
#: What remembering costs beside the bytes.
_ENTRY_BYTES: Final = 150
#: Longer requests are not remembered: a route query has about 150 bytes.
_REQUEST_BYTES_MAX: Final = 1024

_PREFIX: Final = struct.Struct(">II")
_PREFIX_BYTES: Final = _PREFIX.size
_unpack_prefix: Final = _PREFIX.unpack_from
_pack_prefix: Final = _PREFIX.pack

# Stands for the opaque while Java's text of an answer is made.
_OPAQUE: Final = 7777777

_JSON_OPAQUE: Final = b'"opaque":'
#: Up to so many digits a number is surely one of 32 bits.
_DIGITS_MAX: Final = 9
_ZERO: Final = ord("0")
#: Where a ROCKETMQ header has its opaque: 4 bytes behind code, language and version.
_BINARY_OPAQUE: Final = slice(_PREFIX_BYTES + 5, _PREFIX_BYTES + 9)
_BINARY_BYTES_MIN: Final = _PREFIX_BYTES + 21


class PreparedAnswer:
    """A success whose frame is ready but for the opaque; sent until `drop` is called."""

    __slots__ = (
        "_body_at",
        "_header",
        "_header_bytes",
        "_length",
        "_tail",
        "_tally",
        "_tally_at",
        "body_bytes",
        "ext_fields",
        "is_true",
    )

    def __init__(self, body: bytes, tally: SizeTally, ext_fields: Mapping[str, str] | None = None) -> None:
        """Take what is answered; each time it is sent is counted in `tally`."""
        self.body_bytes = len(body)
        self.ext_fields = ext_fields
        self.is_true = True
        before, after = _around_opaque() if ext_fields is None else _header_around_opaque(ext_fields)
        self._header = before
        #: Without the opaque, as the length.
        self._header_bytes = len(before) + len(after)
        self._tail = after + body
        self._body_at = len(after)
        self._length = 4 + self._header_bytes + len(body)
        self._tally = tally
        self._tally_at = tally.position(len(body))

    @property
    def body(self) -> bytes:
        """What is answered."""
        return self._tail[self._body_at :]

    def frame(self, opaque: bytes) -> bytes:
        """Return the whole frame for a request with this number, in decimal, and count it."""
        self._tally.buckets[self._tally_at] += 1
        self._tally.total += self.body_bytes
        size = len(opaque)
        prefix = _pack_prefix(self._length + size, self._header_bytes + size)
        return b"".join((prefix, self._header, opaque, self._tail))

    def drop(self) -> None:
        """Tell that it is no longer true; whoever still knows it keeps no bytes of it."""
        self.is_true = False
        self._tail = b""


def _header_around_opaque(ext_fields: Mapping[str, str] | None) -> tuple[bytes, bytes]:
    """Return the header of a success up to its opaque, and behind it."""
    text = encode(RemotingCommand(0, _OPAQUE, FLAG_RESPONSE, ext_fields=ext_fields))[_PREFIX_BYTES:]
    before, opaque, after = text.rpartition(b"%b%d" % (_JSON_OPAQUE, _OPAQUE))
    return before + opaque[: len(_JSON_OPAQUE)], after


@cache
def _around_opaque() -> tuple[bytes, bytes]:
    """Return the same for the answers that have no fields, which are nearly all, once."""
    return _header_around_opaque(None)


class KnownRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that need not be decoded as long as its answer is true when its turn comes."""

    prepared: PreparedAnswer
    #: In decimal.
    opaque: bytes
    #: Where its frame is, as `decode` takes it.
    data: bytes
    at: int
    length: int


class KnownRequests:
    """Requests of one code, by their bytes without the opaque, and the answers they had."""

    def __init__(self, code: int, statistics: ServerStatistics, bytes_max: int = KNOWN_BYTES_MAX) -> None:
        self._code = code
        self._answers: dict[bytes, PreparedAnswer] = {}
        self._bytes = 0
        self._bytes_max = bytes_max
        self._finished = statistics.prepared
        #: The request that was looked for last and not found; None if it cannot be remembered.
        self.missed: bytes | None = None
        #: The number of the request that was found last.
        self._opaque = b""

    def find(self, data: bytes, at: int, end: int) -> KnownRequest | None:
        """Return what the frame between `at` and `end` is known to be; None if it has to be decoded."""
        prepared = self._look(data, at, end)
        return None if prepared is None else KnownRequest(prepared, self._opaque, data, at, end - at - 4)

    def answer(self, request: KnownRequest) -> bytes:
        """Return the frame that answers a request whose answer is true."""
        self._finished[self._code] += 1
        return request.prepared.frame(request.opaque)

    def reply(self, data: bytes) -> bytes | None:
        """Return the frame that answers bytes which are one known request: `find` and `answer` in one."""
        prepared = self._look(data, 0, len(data))
        if prepared is None:
            return None
        self._finished[self._code] += 1
        return prepared.frame(self._opaque)

    def _look(self, data: bytes, at: int, end: int) -> PreparedAnswer | None:
        """Look for the frame between `at` and `end`, and note its opaque, or what it would be known by.

        What does not look exactly like a request known before is not found, be it broken or only written otherwise.
        """
        self.missed = None
        if not _BINARY_BYTES_MIN <= end - at <= _REQUEST_BYTES_MAX:
            return None
        length, word = _unpack_prefix(data, at)
        if length != end - at - 4:
            return None
        if word == length - 4:
            begins = data.find(_JSON_OPAQUE, at, end) + len(_JSON_OPAQUE)
            ends = data.find(b",", begins, end)
            opaque = data[begins:ends]
            # One that begins with 0 is another number in Java's eyes, or none.
            is_number = opaque.isdigit() and len(opaque) <= _DIGITS_MAX and (opaque[0] != _ZERO or len(opaque) == 1)
            if not is_number or begins <= at + _PREFIX_BYTES or ends < 0:
                return None
            key = data[at + _PREFIX_BYTES : begins] + data[ends:end]
        elif word == SerializeType.ROCKETMQ << 24 | length - 4:
            key = data[at : at + _BINARY_OPAQUE.start] + data[at + _BINARY_OPAQUE.stop : end]
            opaque = b"%d" % int.from_bytes(data[at + _BINARY_OPAQUE.start : at + _BINARY_OPAQUE.stop], signed=True)
        else:
            return None
        prepared = self._answers.get(key)
        if prepared is None or not prepared.is_true:
            self.missed, prepared = key, None
        self._opaque = opaque
        return prepared

    def learn(self, key: bytes, request: RemotingCommand, prepared: PreparedAnswer) -> None:
        """Remember that a request, `missed` before, was answered so."""
        is_json = key.startswith(b"{")
        if request.flag or request.code != self._code or (is_json and not _tells_all_but_opaque(key, request)):
            return
        if not is_json and not key.startswith(b"\0"):
            # Neither a JSON header as all write it nor the length of a short frame.
            return
        if key not in self._answers:
            self._bytes += len(key) + _ENTRY_BYTES
            if self._bytes > self._bytes_max:
                self.forget()
                self._bytes = len(key) + _ENTRY_BYTES
        self._answers[key] = prepared

    def forget(self) -> None:
        """Let every request be decoded and carried out again."""
        self._answers.clear()
        self._bytes = 0


def _tells_all_but_opaque(key: bytes, request: RemotingCommand) -> bool:
    """Tell whether what was cut out of `key` is the opaque, whatever it is, and nothing else of the request.

    A JSON header can hold the word twice, in an extField or by a broken client; then it is tried out which one counts.
    """
    cut = key.find(_JSON_OPAQUE) + len(_JSON_OPAQUE)
    if key.find(_JSON_OPAQUE, cut) >= 0:
        return False
    other = request.opaque ^ 1
    header = b"%b%d%b" % (key[:cut], other, key[cut:])
    length = 4 + len(header)
    try:
        return decode(_PREFIX.pack(length, len(header)) + header, 0, length) == replace(request, opaque=other)
    except FrameError:
        return False
