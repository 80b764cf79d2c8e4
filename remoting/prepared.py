"""Answers that stand ready, and the requests that are known to ask for them.

A client asks the same thing again and again in the same bytes, but for its number of the request. So the bytes without
that number are remembered with the answer they had, and while it is true a request is neither decoded nor carried out.
Whoever prepared an answer tells when it is no longer true, in the step that makes it so.
"""

import struct
from typing import Final

import msgspec
from msgspec.structs import replace

from remoting.codes import FLAG_RESPONSE, SerializeType
from remoting.command import RemotingCommand
from remoting.errors import FrameError
from remoting.frame import decode, encode
from remoting.statistics import ServerStatistics, SizeTally

#: Bytes of remembered requests; beyond them all are forgotten, and remembered anew as they come.
KNOWN_BYTES_MAX: Final = 32 * 1024 * 1024
#: What remembering costs beside the bytes.
_ENTRY_BYTES: Final = 150
#: Longer requests are not remembered: a route query has about 150 bytes.
_REQUEST_BYTES_MAX: Final = 1024

_PREFIX: Final = struct.Struct(">II")
_PREFIX_BYTES: Final = _PREFIX.size
_unpack_prefix: Final = _PREFIX.unpack_from
_pack_length: Final = struct.Struct(">I").pack

# Java's text of a success without fields, around its opaque.
_OPAQUE: Final = b"7777777"
_BEFORE, _AFTER = encode(RemotingCommand(0, int(_OPAQUE), FLAG_RESPONSE))[_PREFIX_BYTES:].split(_OPAQUE)
#: The header word and the header up to the opaque, by the opaque's number of characters.
_HEADS: Final = tuple(_pack_length(len(_BEFORE) + size + len(_AFTER)) + _BEFORE for size in range(12))
#: What the length of a frame counts beside the opaque and the body.
_FRAME_BYTES: Final = 4 + len(_BEFORE) + len(_AFTER)

_JSON_OPAQUE: Final = b'"opaque":'
#: Up to so many digits a number is surely one of 32 bits.
_DIGITS_MAX: Final = 9
_ZERO: Final = ord("0")
#: Where a ROCKETMQ header has its opaque: 4 bytes behind code, language and version.
_BINARY_OPAQUE: Final = slice(_PREFIX_BYTES + 5, _PREFIX_BYTES + 9)
_BINARY_BYTES_MIN: Final = _PREFIX_BYTES + 21


class PreparedAnswer:
    """A success without fields whose frame is ready but for the opaque; sent until `drop` is called."""

    __slots__ = ("_length", "_tail", "_tally", "_tally_at", "body_bytes", "is_true")

    def __init__(self, body: bytes, tally: SizeTally) -> None:
        """Take the body; each time it is sent is counted in `tally`."""
        self.body_bytes = len(body)
        self.is_true = True
        self._tail = _AFTER + body
        self._length = _FRAME_BYTES + len(body)
        self._tally = tally
        self._tally_at = tally.position(len(body))

    @property
    def body(self) -> bytes:
        """What is answered."""
        return self._tail[len(_AFTER) :]

    def frame(self, opaque: bytes) -> bytes:
        """Return the whole frame for a request with this number, in decimal, and count it."""
        self._tally.buckets[self._tally_at] += 1
        self._tally.total += self.body_bytes
        size = len(opaque)
        return b"".join((_pack_length(self._length + size), _HEADS[size], opaque, self._tail))

    def drop(self) -> None:
        """Tell that it is no longer true; whoever still knows it keeps no bytes of it."""
        self.is_true = False
        self._tail = b""


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
