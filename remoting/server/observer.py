"""What the server tells about its connections and requests, and in which words; who logs it is not decided here.

Answers to Java's `ChannelEventListener`, and to the log lines of `NettyRemotingServer`.
"""

from enum import StrEnum
from typing import Protocol

from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError


class CloseReason(StrEnum):
    """Why a connection ended; a label in the metrics."""

    #: The peer closed it, or went away.
    PEER = "peer"
    #: Neither side sent anything for too long.
    IDLE = "idle"
    #: The peer's bytes could not be followed, or a fault of ours kept it from its answer.
    ERROR = "error"
    #: The peer did not read its answers.
    SLOW_READER = "slow_reader"
    #: There were too many connections, and this was the one that could best be spared.
    MADE_ROOM = "made_room"
    #: Known brokers held too many of all connections, and most of them were of this one's host.
    HOST_SHARE = "host_share"
    #: We stop.
    SHUTDOWN = "shutdown"


class ConnectionKind(StrEnum):
    """What the other end has shown itself to be; a label in the metrics."""

    BROKER = "broker"
    CLIENT = "client"
    UNKNOWN = "unknown"


class Rejection(StrEnum):
    """Why something of a peer was not carried out; a label in the metrics."""

    BUSY = "busy"
    BAD_FRAME = "bad_frame"
    TOO_LARGE = "too_large"
    #: Unfinished frames of all connections were over their limit, and this was among the largest.
    UNFINISHED_BYTES = "unfinished_bytes"
    #: The body or a field of one request could not be read.
    BAD_REQUEST = "bad_request"
    DRAINING = "draining"
    #: A connection over the limit, closed before its first byte.
    CONNECTIONS = "connections"


class Peer(Protocol):
    """What a handler or an observer may know of a connection, and do with it."""

    @property
    def id(self) -> int:
        """A number that every later connection of the process exceeds."""

    @property
    def peer(self) -> str:
        """The "host:port" of the other end, or of the one that a proxy speaks for."""

    @property
    def socket_peer(self) -> str:
        """The "host:port" of the other end itself: anybody can say that it is a proxy."""

    @property
    def kind(self) -> ConnectionKind:
        """What the other end has shown itself to be."""

    @kind.setter
    def kind(self, kind: ConnectionKind) -> None: ...

    @property
    def is_lost(self) -> bool:
        """Whether the peer is gone, or closed its side; what it asked before is still carried out."""

    def close(self, reason: CloseReason) -> None:
        """End the connection; what is written to it already still leaves."""


class ServerObserver(Protocol):
    """Who is told. Calls come from the event loop and must return at once."""

    def connection_opened(self, connection: Peer) -> None:
        """Note that a peer connected; for whom a proxy speaks may become known later."""

    def connection_refused(self, peer: str, connections_max: int) -> None:
        """Note that a peer connected beyond the limit and was closed."""

    def connection_paused(self, connection: Peer, unread_bytes: int) -> None:
        """Note that a peer leaves too many answers unread and takes none, so nothing is read from it; once a pause."""

    def connection_lost(self, connection: Peer) -> None:
        """Note that a peer is gone, or closed its side, and what it asked is still to be done.

        May be told twice. `connection_closed` follows when all is done.
        """

    def connection_closed(self, connection: Peer, reason: CloseReason) -> None:
        """Note that a connection is gone, and all that came over it has been carried out."""

    def frame_rejected(self, connection: Peer, error: FrameError) -> None:
        """Note that a peer's bytes could not be followed, so its connection closes; told once a connection."""

    def request_rejected(self, connection: Peer, request: RemotingCommand, reason: Rejection, error: str) -> None:
        """Note that a request was answered with an error because it could not be read, or was not served."""

    def handler_failed(self, connection: Peer, request: RemotingCommand, error: BaseException) -> None:
        """Note that a request met a fault of ours; `error` has its traceback."""
