"""Processes frequent one-way requests of one code without decoding them to commands first.

Thousands of brokers send their heartbeat each second, and nobody waits for a response: what counts is how little each
costs. Whatever is not exactly such a request, or fails, is processed as any other, which reports it.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from remoting.protocol.codes import FLAG_ONEWAY
from remoting.protocol.frame import PREFIX
from remoting.protocol.shapes.integers import Int32
from remoting.server.observer import Peer
from remoting.server.statistics import ServerStatistics, timer_ns

_PREFIX_BYTES: Final = PREFIX.size
_unpack_prefix: Final = PREFIX.unpack_from


class OnewayKind(msgspec.Struct, frozen=True):
    """The request code of the fast path, the shape of its fields, and its handler."""

    code: int
    #: The shape of their extFields. It has no Booleans, which msgspec reads unlike Java.
    shape: type[msgspec.Struct]
    #: Handles the fields of one request; where it raises, the request is processed again, which must change nothing.
    take: Callable[[Any, Peer], None]


class OnewayFastPath:
    """Processes the one-way requests of one kind."""

    def __init__(self, kind: OnewayKind, statistics: ServerStatistics) -> None:
        #: How Java writes the header of such a request: with the code first.
        self.beginning = b'{"code":%d,' % kind.code
        self._code = kind.code
        self._take = kind.take
        self._finished = statistics.prepared
        self._latencies = statistics.latencies_of(kind.code)
        header = msgspec.defstruct(
            "_OnewayHeader", [("code", Int32), ("flag", Int32), ("extFields", kind.shape)], frozen=True, gc=False
        )
        # Numbers stand as text in extFields. msgspec also reads "1e3", "1.0" and numbers without quotes, which the
        # codec does not; no broker writes them, and to look for them would double the cost of a request.
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(header, strict=False).decode

    def take(self, data: bytes, peer: Peer) -> bool:
        """Process `data` if it is exactly one such request, with a JSON header and no body; False if it is not."""
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
        except Exception:  # noqa: BLE001  # whatever it is, the request is processed as any other, which reports it
            return False
        self._finished[self._code] += 1
        self._latencies.add(timer_ns() - began_ns, 1)
        return True
