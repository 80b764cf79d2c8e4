"""Caches prepared responses by the bytes of their requests.

A client sends the same request again and again in the same bytes, but for its opaque. So the bytes without the opaque
are the key of the response, and while that is valid a request is neither decoded nor processed. Whoever prepared a
response invalidates it, in the step that changes what it holds.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec
from msgspec.structs import replace

from remoting.protocol.codes import FLAG_RESPONSE, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError
from remoting.protocol.frame import PREFIX, decode, encode
from remoting.server.marks import Marks
from remoting.server.statistics import Histogram, ServerStatistics

#: Bytes of cached keys; beyond them the cache is cleared, and filled again as requests come.
CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
#: The same for each audience but the plain one; there can be a hundred of them.
AUDIENCE_CACHE_BYTES_MAX: Final = 4 * 1024 * 1024
#: Memory of an entry beside its key.
_ENTRY_BYTES: Final = 150
#: Longer requests are not cached: a route query has about 150 bytes.
_REQUEST_BYTES_MAX: Final = 1024

_PREFIX_BYTES: Final = PREFIX.size
_unpack_prefix: Final = PREFIX.unpack_from
_pack_prefix: Final = PREFIX.pack

# Placeholder of the opaque while a header is made.
_OPAQUE: Final = 7777777

_JSON_OPAQUE: Final = b'"opaque":'
#: A number of so many digits always fits 32 bits.
_DIGITS_MAX: Final = 9
_ZERO: Final = ord("0")
#: Where a ROCKETMQ header has its opaque: 4 bytes behind code, language and version.
_BINARY_OPAQUE: Final = slice(_PREFIX_BYTES + 5, _PREFIX_BYTES + 9)
_BINARY_BYTES_MIN: Final = _PREFIX_BYTES + 21


class EncodedResponse:
    """A success whose frame is encoded but for the opaque."""

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
    )

    def __init__(self, body: bytes, tally: Histogram, ext_fields: Mapping[str, str] | None = None) -> None:
        """Take the response; each time it is sent counts in `tally`."""
        self.body_bytes = len(body)
        self.ext_fields = ext_fields
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
        return self._tail[self._body_at :]

    def frame(self, opaque: bytes) -> bytes:
        """Return the whole frame for a request with this opaque, in decimal, and count it."""
        self._tally.buckets[self._tally_at] += 1
        self._tally.sum += self.body_bytes
        size = len(opaque)
        prefix = _pack_prefix(self._length + size, self._header_bytes + size)
        return b"".join((prefix, self._header, opaque, self._tail))


class PreparedResponse(EncodedResponse):
    """One that is sent until `invalidate` is called."""

    __slots__ = ("_mark", "_marks", "is_valid")

    def __init__(self, body: bytes, tally: Histogram, ext_fields: Mapping[str, str] | None = None) -> None:
        super().__init__(body, tally, ext_fields)
        self.is_valid = True
        #: None while no worker knows the response.
        self._marks: Marks | None = None
        self._mark = 0

    def shared(self, marks: Marks) -> tuple[int, int]:
        """Return a mark and its value: until it moves, the response is valid in other processes too."""
        if self._marks is None:
            self._marks, self._mark = marks, marks.next_mark()
        return self._mark, marks.get(self._mark)

    def invalidate(self) -> None:
        """Have the response sent no more, and drop its bytes: caches may hold it for long."""
        self.is_valid = False
        self._tail = b""
        if self._marks is not None:
            self._marks.move(self._mark)


class SharedResponse(EncodedResponse):
    """One that another process prepared, as a worker keeps it."""

    __slots__ = ("_get", "_mark", "_value")

    def __init__(
        self,
        body: bytes,
        tally: Histogram,
        ext_fields: Mapping[str, str] | None,
        marks: Marks,
        mark: int,
        value: int,
    ) -> None:
        super().__init__(body, tally, ext_fields)
        self._get, self._mark, self._value = marks.get, mark, value

    @property
    def is_valid(self) -> bool:
        return self._get(self._mark) == self._value


def _header_around_opaque(ext_fields: Mapping[str, str] | None) -> tuple[bytes, bytes]:
    text = encode(RemotingCommand(0, _OPAQUE, FLAG_RESPONSE, ext_fields=ext_fields))[_PREFIX_BYTES:]
    before, opaque, after = text.rpartition(b"%b%d" % (_JSON_OPAQUE, _OPAQUE))
    return before + opaque[: len(_JSON_OPAQUE)], after


@cache
def _around_opaque() -> tuple[bytes, bytes]:
    """Return the same for responses without fields, which are nearly all, made once."""
    return _header_around_opaque(None)


class CachedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request with a cached response; it is decoded only if that is invalid when its turn comes."""

    prepared: PreparedResponse | SharedResponse
    #: In decimal.
    opaque: bytes
    #: Where its frame is, as `decode` takes it.
    data: bytes
    at: int
    length: int


class ResponseCache:
    """Prepared responses of one request code, by the bytes of requests without the opaque."""

    def __init__(self, code: int, statistics: ServerStatistics, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._code = code
        self._responses: dict[bytes, PreparedResponse | SharedResponse] = {}
        self._bytes = 0
        self._bytes_max = bytes_max
        self._finished = statistics.prepared
        #: Latencies of the requests with a cached response.
        self.latencies = statistics.latencies_of(code)
        #: The key of the last request without a valid response; None if it cannot be cached.
        self.missed_key: bytes | None = None
        #: The opaque of the last request that was looked up, in decimal.
        self._opaque = b""

    def find(self, data: bytes, at: int, end: int) -> CachedRequest | None:
        """Return the frame between `at` and `end` with its cached response; None if it has to be decoded."""
        prepared = self._look_up(data, at, end)
        return None if prepared is None else CachedRequest(prepared, self._opaque, data, at, end - at - 4)

    def response(self, request: CachedRequest) -> bytes:
        self._finished[self._code] += 1
        return request.prepared.frame(request.opaque)

    def reply(self, data: bytes) -> bytes | None:
        """Return the response frame if `data` is exactly one cached request: `find` and `response` in one."""
        prepared = self._look_up(data, 0, len(data))
        if prepared is None:
            return None
        self._finished[self._code] += 1
        return prepared.frame(self._opaque)

    def _look_up(self, data: bytes, at: int, end: int) -> PreparedResponse | SharedResponse | None:
        """Return the valid response to the frame between `at` and `end`; set its opaque, and `missed_key` if none.

        A request that differs in any other byte from the cached one is not found, be it broken or written otherwise.
        """
        self.missed_key = None
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
        prepared = self._responses.get(key)
        if prepared is None or not prepared.is_valid:
            self.missed_key, prepared = key, None
        self._opaque = opaque
        return prepared

    def store(self, key: bytes, request: RemotingCommand, prepared: PreparedResponse) -> None:
        """Cache the response to a request under its `missed_key`."""
        is_json = key.startswith(b"{")
        if request.flag or request.code != self._code or (is_json and not _lacks_only_opaque(key, request)):
            return
        if not is_json and not key.startswith(b"\0"):
            # Neither a JSON header as all write it nor the length of a short frame.
            return
        if key not in self._responses:
            self._count(len(key) + _ENTRY_BYTES)
        self._responses[key] = prepared

    def keep(self, request: bytes, response: SharedResponse) -> bytes:
        """Cache a response that another process has cached for this request, and return its frame.

        Its body counts as well: no other cache has it.
        """
        self._look_up(request, 0, len(request))
        if (key := self.missed_key) is not None:
            former = self._responses.pop(key, None)
            size = response.body_bytes
            self._count(size - former.body_bytes if former else size + len(key) + _ENTRY_BYTES)
            self._responses[key] = response
        self._finished[self._code] += 1
        return response.frame(self._opaque)

    def _count(self, more_bytes: int) -> None:
        """Count what is to be cached, after clearing the cache if there is no room for it."""
        self._bytes += more_bytes
        if self._bytes > self._bytes_max:
            self.clear()
            self._bytes = max(more_bytes, 0)

    def clear(self) -> None:
        self._responses.clear()
        self._bytes = 0


def _lacks_only_opaque(key: bytes, request: RemotingCommand) -> bool:
    """Return True if what was cut out of `key` is the opaque, whatever it is, and nothing else of the request.

    A JSON header can hold the word twice, in an extField or by a broken client; decoding shows which one counts.
    """
    cut = key.find(_JSON_OPAQUE) + len(_JSON_OPAQUE)
    if key.find(_JSON_OPAQUE, cut) >= 0:
        return False
    other = request.opaque ^ 1
    header = b"%b%d%b" % (key[:cut], other, key[cut:])
    length = 4 + len(header)
    try:
        return decode(PREFIX.pack(length, len(header)) + header, 0, length) == replace(request, opaque=other)
    except FrameError:
        return False
