"""What a server reports about its connections and requests; `serving` logs and counts it.

Answers to Java's `ChannelEventListener`, and to the log lines of `NettyRemotingServer`.
"""

from enum import StrEnum
from typing import Protocol

from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError


class CloseReason(StrEnum):
    """Why a connection closed; a label of `connections_closed_total`."""

    #: The peer closed it, or is gone.
    PEER = "peer"
    #: Neither side sent anything for too long.
    IDLE = "idle"
    #: The peer's bytes broke the framing, or an internal error kept a response from it.
    ERROR = "error"
    #: The peer did not read its responses.
    SLOW_READER = "slow_reader"
    #: There were too many connections, and this one was the least needed.
    EVICTED = "evicted"
    #: Known brokers held too many of all connections, and most of them were of this one's host.
    HOST_SHARE = "host_share"
    #: The server stops.
    SHUTDOWN = "shutdown"


class ConnectionKind(StrEnum):
    """The kind of a peer by the requests that it sent; a label of `connections`."""

    BROKER = "broker"
    CLIENT = "client"
    UNKNOWN = "unknown"


class Rejection(StrEnum):
    """Why a frame, a request or a connection was rejected; a label of `requests_rejected_total`."""

    BUSY = "busy"
    BAD_FRAME = "bad_frame"
    TOO_LARGE = "too_large"
    #: Partial frames of all connections exceeded their limit, and this was among the largest.
    PARTIAL_FRAME_BYTES = "partial_frame_bytes"
    #: The body or a field of one request is invalid.
    BAD_REQUEST = "bad_request"
    DRAINING = "draining"
    #: A connection beyond the limit, closed before its first byte.
    CONNECTIONS = "connections"


class Peer(Protocol):
    """A connection as handlers and observers see it."""

    @property
    def id(self) -> int:
        """A number that every later connection of the process exceeds."""

    @property
    def peer(self) -> str:
        """The "host:port" of the other end, or of the one that a proxy claims to forward for."""

    @property
    def socket_peer(self) -> str:
        """The "host:port" of the other end itself: anybody can claim to be a proxy."""

    @property
    def network(self) -> str:
        """The network of the other end itself, as `network_of`: what it takes of a limit, its whole host takes."""

    @property
    def kind(self) -> ConnectionKind:
        """Whether the peer's requests show a broker or a client."""

    @kind.setter
    def kind(self, kind: ConnectionKind) -> None: ...

    @property
    def audience(self) -> int:
        """Which answers the peer gets, of those that depend on its network; 0 for the plain ones."""

    @property
    def is_lost(self) -> bool:
        """Whether the peer is gone, or closed its side; its queued requests are still processed."""

    def close(self, reason: CloseReason) -> None:
        """End the connection; what is written to it already still leaves."""


class ServedConnection(Peer, Protocol):
    """A connection as the parts of the server see it."""

    @property
    def takes_responses(self) -> bool:
        """Whether its requests may be processed: False while its response buffer is full."""

    def send(self, frame: bytes) -> None:
        """Write frames, unless `frame` is empty."""

    def write_response(self, frame: bytes) -> None:
        """Hand a frame of the write batch to the socket, unless the connection is closing."""

    def enqueue(self, request: RemotingCommand) -> None:
        """Let a request wait for its turn."""

    def request_finished(self) -> None:
        """Continue after one of its queued requests was answered, or all were rejected."""

    def read_on(self) -> None:
        """Process its deferred input for one turn."""

    def abort(self, reason: CloseReason) -> None:
        """End the connection at once."""


class ServerObserver(Protocol):
    """Receives reports. Calls come from the event loop and must return at once."""

    def connection_opened(self, connection: Peer) -> None:
        """Report that a peer connected; `peer` may change with its first bytes, by the header of a proxy."""

    def connection_refused(self, peer: str, connections_max: int) -> None:
        """Report that a peer connected beyond the limit and was closed."""

    def connection_paused(self, connection: Peer, response_buffer_bytes: int) -> None:
        """Report that a peer reads none of its responses, so nothing is read from it; reported once a pause."""

    def connection_lost(self, connection: Peer) -> None:
        """Report that a peer is gone, or closed its side, and has queued requests.

        May be reported twice. `connection_closed` follows when its requests are processed.
        """

    def connection_closed(self, connection: Peer, reason: CloseReason) -> None:
        """Report that a connection is gone, and all its requests are processed."""

    def frame_rejected(self, connection: Peer, error: FrameError) -> None:
        """Report that a peer's bytes broke the framing, so its connection closes; reported once a connection."""

    def request_rejected(self, connection: Peer, request: RemotingCommand, reason: Rejection, error: str) -> None:
        """Report that a request got an error response because it is invalid, or the server refused it."""

    def handler_failed(self, connection: Peer, request: RemotingCommand, error: BaseException) -> None:
        """Report that a request met an internal error; `error` has its traceback."""
