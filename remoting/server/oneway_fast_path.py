"""One-way requests of one code that come again and again, handed over without becoming commands first.

Thousands of brokers send their heartbeat each second, and nobody waits for an answer: what counts is how little each
costs. Whatever is not exactly such a request, or cannot be carried out, goes the way of all others and is told there.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from remoting.protocol.codes import FLAG_ONEWAY
from remoting.protocol.shapes.integers import Int32
from remoting.server.observer import Peer
from remoting.server.statistics import ServerStatistics, timer_ns

_PREFIX: Final = struct.Struct(">II")
_PREFIX_BYTES: Final = _PREFIX.size
_unpack_prefix: Final = _PREFIX.unpack_from


class NoticeKind(msgspec.Struct, frozen=True):
    """Which requests these are, and who takes them."""

    code: int
    #: The shape of their extFields. It has no Booleans, which msgspec reads unlike Java.
    shape: type[msgspec.Struct]
    #: Takes the fields of one; what it raises must leave everything as it was, or as the same fields leave it again.
    take: Callable[[Any, Peer], None]


class Notices:
    """Takes the one-way requests of one kind."""

    def __init__(self, kind: NoticeKind, statistics: ServerStatistics) -> None:
        self._code = kind.code
        self._take = kind.take
        self._statistics = statistics
        self._latencies = statistics.latencies_of(kind.code)
        header = msgspec.defstruct(
            "_NoticeHeader", [("code", Int32), ("flag", Int32), ("extFields", kind.shape)], frozen=True, gc=False
        )
        # Numbers stand as text in extFields. msgspec also reads "1e3", "1.0" and numbers without quotes, which the
        # usual way does not; no broker writes them, and to look for them would double what a notice costs.
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(header, strict=False).decode

    def take(self, data: bytes, peer: Peer) -> bool:
        """Tell whether the bytes were one such request, with a JSON header and no body, and it is carried out."""
        began_ns = timer_ns()
        if len(data) < _PREFIX_BYTES:
            return False
        length, word = _unpack_prefix(data)
        if length != len(data) - 4 or word != length - 4:
            return False
        try:
            header = self._decode(data[_PREFIX_BYTES:])
            if header.code != self._code or header.flag != FLAG_ONEWAY:
                return False
            self._take(header.extFields, peer)
        except Exception:  # noqa: BLE001  # whatever it is, the request is carried out the usual way, which tells it
            return False
        self._statistics.count_finished(self._code, 0)
        self._latencies.add(timer_ns() - began_ns, 1)
        return True
