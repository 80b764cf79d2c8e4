"""Limits and options of a server: what all peers together and each of them may use, and how long bodies may be.

Answers to Java's `NettyServerConfig` and the system properties beside it. The servers' options have these defaults.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from remoting.protocol.codes import RequestCode, SerializeType
from remoting.protocol.errors import RequestRefused
from remoting.protocol.frame import FRAME_BYTES_MAX_DEFAULT
from remoting.server.oneway_fast_path import OnewayKind
from remoting.server.statistics import Histogram

#: No body limit: longer than any frame.
UNLIMITED: Final = 2**31 - 1


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    #: A frame with its length prefix (`com.rocketmq.remoting.frameMaxLength`).
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    #: Partial frames of all connections together; beyond it the connections with the largest are closed.
    partial_frame_bytes_max: int = 512 * 1024 * 1024
    #: Open connections; for one more, one of them is evicted (`connection_limit.py`).
    connections_max: int = 16_384
    #: Connections that wait to be accepted (`serverSocketBacklog`).
    backlog: int = 1024
    #: A connection without a byte in either direction, or with a partial frame, for so long is closed; 0 for never
    #: (`serverChannelMaxIdleTimeSeconds`).
    idle_seconds: float = 120
    #: The response buffer of one connection: above `high` its requests wait, below `low` they are processed again
    #: (`writeBufferHighWaterMark`, `writeBufferLowWaterMark`).
    response_buffer_high_bytes: int = 1024 * 1024
    response_buffer_low_bytes: int = 256 * 1024
    #: Response buffers of all connections together; beyond it the connections with the largest are aborted.
    response_buffer_bytes_max: int = 512 * 1024 * 1024
    #: Queued requests of all connections; beyond it SYSTEM_BUSY (`defaultThreadPoolQueueCapacity`), first for the peers
    #: that do not read their responses.
    queued_requests_max: int = 10_000
    #: Bodies of those; beyond it SYSTEM_BUSY too.
    queued_bytes_max: int = 512 * 1024 * 1024
    #: Queued requests of one connection: with so many nothing more is read from it.
    queued_requests_per_connection: int = 256
    #: Bodies of those.
    queued_bytes_per_connection: int = 4 * 1024 * 1024
    #: Bytes that a connection processes in one turn; what it sent more at once waits for the turns of others.
    turn_bytes: int = 16 * 1024
    #: How long queued requests are processed before sockets are read again.
    turn_ms: float = 2
    #: How long responses may take to leave when the server closes.
    close_seconds: float = 5
    #: Kernel buffers of a connection; 0 for the system's own (`serverSocketSndBufSize`, `serverSocketRcvBufSize`).
    socket_send_bytes: int = 0
    socket_receive_bytes: int = 0


class BodyLimits(msgspec.Struct, frozen=True):
    """The longest body of a request by its code, in bytes; the length of a frame (`frameMaxLength`) limits it too.

    A longer body is refused by its length, and its bytes are dropped as they come.
    """

    #: For codes without a limit of their own, unknown codes too.
    other: int = UNLIMITED
    by_code: Mapping[int, int] = msgspec.field(default_factory=dict)

    def of(self, code: int) -> int:
        return self.by_code.get(code, self.other)


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server processes requests, and within which limits."""

    limits: ServerLimits = msgspec.field(default_factory=ServerLimits)
    #: The longest bodies that requests may have.
    body_limits: BodyLimits = msgspec.field(default_factory=BodyLimits)
    #: Request codes that are processed at once, in the order read, before all others.
    urgent: frozenset[int] = frozenset()
    #: The urgent code whose responses are cached by the bytes of the request; None for no cache.
    cached_code: int | None = RequestCode.GET_ROUTEINFO_BY_TOPIC
    #: Processes that serve clients, and what counts the bodies of cached responses, wherever they are sent; 0 for none.
    workers: int = 0
    tally: Histogram | None = None
    #: The urgent one-way requests that come most of all, if there are such.
    oneway: OnewayKind | None = None
    #: How headers of responses are written, whatever the request used.
    serialize_type: SerializeType = SerializeType.JSON
    #: The audience of a peer by its "host:port", and so which cached responses it shares with others; 0 for plain
    #: answers. None where answers depend on no peer's network. `RemotingServer.reclassify` applies a change of it.
    audience_of: Callable[[str], int] | None = None
    #: Whether the connection of this id is that of a known broker, which is evicted last (`connection_limit.py`).
    is_protected: Callable[[int], bool] = lambda _connection_id: False


class BodyTooLong(RequestRefused):
    """The body is longer than a request of its code can need."""

    def __init__(self, code: int, body_bytes: int, body_bytes_max: int) -> None:
        self.request_code = code
        self.body_bytes = body_bytes
        self.body_bytes_max = body_bytes_max
        super().__init__(f"{_named(code)}: a body of {body_bytes} bytes is over the limit of {body_bytes_max}")


def _named(code: int) -> str:
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"request {code}"
