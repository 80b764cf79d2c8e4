"""How much a server grants its peers. Answers to Java's `NettyServerConfig` and the system properties beside it."""

import msgspec

from remoting.protocol.frame import FRAME_BYTES_MAX_DEFAULT


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that has an end, of one server."""

    #: A frame with its length prefix (`com.rocketmq.remoting.frameMaxLength`).
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    #: Unfinished frames of all connections together; beyond it those with the largest are closed.
    unfinished_bytes_max: int = 512 * 1024 * 1024
    #: Open connections; the next one is closed at once.
    connections_max: int = 16_384
    #: Connections that wait to be accepted.
    backlog: int = 1024
    #: Without a byte in either direction for so long, or with a frame unfinished for so long, a connection is closed;
    #: 0 for never (`serverChannelMaxIdleTimeSeconds`).
    idle_seconds: float = 120
    #: Answers of one connection that its peer has not taken: above `high` its requests wait, below `low` they go on.
    unsent_bytes_high: int = 256 * 1024
    unsent_bytes_low: int = 64 * 1024
    #: Answers that peers have not taken, of all connections together; beyond it those with the most are closed.
    unread_bytes_max: int = 512 * 1024 * 1024
    #: Requests of all connections that wait for their turn; beyond it SYSTEM_BUSY (`defaultThreadPoolQueueCapacity`),
    #: those first whose peers leave answers unread.
    queued_requests_max: int = 10_000
    #: Bodies of those; beyond it SYSTEM_BUSY too.
    queued_bytes_max: int = 512 * 1024 * 1024
    #: Requests of one connection that wait for their turn: with so many nothing more is read from it.
    queued_requests_per_connection: int = 256
    #: Bodies of those.
    queued_bytes_per_connection: int = 4 * 1024 * 1024
    #: What a connection sent more than this at once is read on when the others had their turn.
    turn_bytes: int = 16 * 1024
    #: The longest that what waits for its turn is worked on before sockets are looked at again.
    turn_ms: float = 2
    #: How long answers may take to leave when the server closes.
    close_seconds: float = 5
    #: Kernel buffers of a connection; 0 for the system's own (`serverSocketSndBufSize`, `serverSocketRcvBufSize`).
    socket_send_bytes: int = 0
    socket_receive_bytes: int = 0
