"""Parses the first bytes of a connection: one PROXY header perhaps, then TLS or plain frames; no socket here.

Answers to Java's `HandshakeHandler`, `TlsModeHandler` and Netty's `HAProxyMessageDecoder` (docs/protocol/remoting.md
11.1 and 11.2). Whether TLS is allowed is decided in `filter.py`.
"""

import struct
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

import msgspec

from remoting.protocol.addresses import host_and_port
from remoting.protocol.errors import FrameError

#: Parsing begins with so many bytes: the signature of PROXY version 2. No real frame is shorter.
PREAMBLE_BYTES_MIN: Final = 12

#: The longest line of PROXY version 1, with its line end, that its specification knows.
PROXY_V1_BYTES_MAX: Final = 107

#: The longest PROXY version 2 header that is accepted: addresses, then additions (TLVs) that are skipped, such as the
#: certificate of the proxy's own peer.
PROXY_V2_BYTES_MAX: Final = 16 * 1024

_PROXY_V1: Final = b"PROXY"
_PROXY_V2: Final = b"\r\n\r\n\0\r\nQUIT\n"
_PROXY_V2_REST: Final = struct.Struct(">BBH")
_PROXY_V2_FIXED_BYTES: Final = 16
_PORTS: Final = struct.Struct(">HH")
_PROXY_V1_WORDS: Final = 6
_PORT_MAX: Final = 65535

# Version and command of the second version's thirteenth byte.
_V2_LOCAL: Final = 0x20
_V2_PROXY: Final = 0x21
# Family and transport of its fourteenth byte -> how an address is read, and the bytes of two of them with their ports.
# Unspecified addresses and those of Unix sockets are skipped.
_V2_FAMILIES: Final[Mapping[int, tuple[type[IPv4Address | IPv6Address] | None, int]]] = {
    0x00: (None, 0),
    0x11: (IPv4Address, 12),
    0x12: (IPv4Address, 12),
    0x21: (IPv6Address, 36),
    0x22: (IPv6Address, 36),
    0x31: (None, 216),
    0x32: (None, 216),
}

_TLS_HANDSHAKE: Final = 0x16

_HTTP_METHODS: Final = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT")
_OTHER_PROTOCOLS: Final = (
    (b"PRI * HTTP/2", "an HTTP/2 (or gRPC) client"),
    *((b"%b " % method, "an HTTP client") for method in _HTTP_METHODS),
    (b"HTTP/", "an HTTP server"),
    (b"SSH-", "an SSH peer"),
    (b"AMQP", "an AMQP client"),
    (b"\x15\x03", "a TLS alert"),
    (_PROXY_V1, "a second PROXY header"),
    (_PROXY_V2, "a second PROXY header"),
)

_KAFKA: Final = struct.Struct(">ihh")
_KAFKA_API_KEY_MAX: Final = 127
_KAFKA_VERSION_MAX: Final = 31
_JSON_HEADER_LIMIT_BITS: Final = 16


class ParsedPreamble(msgspec.Struct, frozen=True):
    """What the preamble says, and the bytes after it."""

    #: A TLS handshake begins with `rest`; otherwise frames do.
    tls: bool
    #: The "host:port" that a proxy claims to forward for; None without a proxy, or if it names none.
    source: str | None
    #: The bytes after the preamble that came with it.
    rest: bytes


class Preamble:
    """Parses the first bytes of one connection, in whatever chunks they come."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def partial_bytes(self) -> int:
        return len(self._bytes)

    def receive(self, data: bytes) -> ParsedPreamble | None:
        """Return the preamble, None while bytes are missing; raises FrameError for a bad header or another protocol."""
        self._bytes += data
        if len(self._bytes) < PREAMBLE_BYTES_MIN:
            return None
        start = bytes(self._bytes)
        source, end = None, 0
        if start.startswith(_PROXY_V2):
            source, end = _read_proxy_v2(start)
        elif start.startswith(_PROXY_V1):
            source, end = _read_proxy_v1(start)
        # A header without an end (-1), or with nothing after it.
        if not 0 <= end < len(start):
            return None
        rest = start[end:]
        self._bytes.clear()
        if rest[0] != _TLS_HANDSHAKE:
            _refuse_other_protocols(rest)
        return ParsedPreamble(rest[0] == _TLS_HANDSHAKE, source, rest)


def _read_proxy_v1(start: bytes) -> tuple[str | None, int]:
    """Return the source and where the line ends, or -1 while its end is missing."""
    end = start.find(b"\r\n", 0, PROXY_V1_BYTES_MAX)
    if end < 0:
        if len(start) >= PROXY_V1_BYTES_MAX:
            raise FrameError(f"the line of a PROXY header is over {PROXY_V1_BYTES_MAX} bytes")
        return None, -1
    words = start[:end].decode("ascii", "replace").split(" ")
    if words[0] != "PROXY" or len(words) == 1:
        raise FrameError(f"{start[:end]!r} is no PROXY header")
    if words[1] == "UNKNOWN":
        return None, end + 2
    if words[1] not in ("TCP4", "TCP6") or len(words) != _PROXY_V1_WORDS:
        raise FrameError(f"{start[:end]!r} is no PROXY header")
    try:
        return _source_of_words(words), end + 2
    except ValueError as error:
        raise FrameError(f"a PROXY header has a bad address: {error}") from None


def _source_of_words(words: list[str]) -> str:
    """Return the "host:port" of a line that is whole, or raise ValueError."""
    _, family, source, destination, source_port, destination_port = words
    read = IPv4Address if family == "TCP4" else IPv6Address
    read(destination)
    for port in (source_port, destination_port):
        if not (port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
            raise ValueError(f"port {port!r}")
    return host_and_port(str(read(source)), int(source_port))


def _read_proxy_v2(start: bytes) -> tuple[str | None, int]:
    """Return the source and where the header ends, or -1 while its end is missing."""
    if len(start) < _PROXY_V2_FIXED_BYTES:
        return None, -1
    command, kind, size = _PROXY_V2_REST.unpack_from(start, len(_PROXY_V2))
    if command not in (_V2_LOCAL, _V2_PROXY) or kind not in _V2_FAMILIES:
        raise FrameError(f"a PROXY header of version 2 has command {command:#04x} and family {kind:#04x}")
    read, addresses_bytes = _V2_FAMILIES[kind]
    end = _PROXY_V2_FIXED_BYTES + size
    if end > PROXY_V2_BYTES_MAX:
        raise FrameError(f"a PROXY header of {end} bytes is over the limit of {PROXY_V2_BYTES_MAX}")
    if command == _V2_PROXY and size < addresses_bytes:
        raise FrameError(f"a PROXY header has {size} bytes for addresses of {addresses_bytes}")
    if len(start) < end:
        return None, -1
    # LOCAL: the proxy itself is the peer, for a health check perhaps.
    if command == _V2_LOCAL or read is None:
        return None, end
    # Source and destination address, then source and destination port.
    ports_at = _PROXY_V2_FIXED_BYTES + addresses_bytes - _PORTS.size
    source_port, _ = _PORTS.unpack_from(start, ports_at)
    source = start[_PROXY_V2_FIXED_BYTES : _PROXY_V2_FIXED_BYTES + (addresses_bytes - _PORTS.size) // 2]
    return host_and_port(str(read(source)), source_port), end


def _refuse_other_protocols(rest: bytes) -> None:
    """Raise FrameError if `rest` begins as peers of other protocols begin, and as no frame of ours can."""
    for start, who in _OTHER_PROTOCOLS:
        if rest.startswith(start):
            raise FrameError(f"this looks like {who}; this port speaks RocketMQ remoting ({rest[:16]!r})")
    if len(rest) < _KAFKA.size:
        return
    size, api_key, version = _KAFKA.unpack_from(rest)
    # In a frame of ours these are the serialization type and the length of its header, here beyond the frame.
    overlong = (api_key << _JSON_HEADER_LIMIT_BITS | version) > size - 4
    if overlong and 0 < api_key <= _KAFKA_API_KEY_MAX and 0 <= version <= _KAFKA_VERSION_MAX and size > 0:
        raise FrameError(
            f"this looks like a Kafka client (api key {api_key}, version {version}); this port speaks RocketMQ remoting"
        )
