"""What the connections of one server share, and the life of each; `RemotingServer` is the context."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

from remoting.server.buffers import WriteBatch
from remoting.server.limits import ServerLimits
from remoting.server.observer import ServerObserver
from remoting.server.request_processor import RequestProcessor
from remoting.server.request_queue import RequestQueue
from remoting.server.statistics import ServerStatistics
from remoting.transport.tls import TlsContexts


class ConnectionState(IntEnum):
    """The life of a connection; it only moves forward."""

    #: Requests are read.
    OPEN = 0
    #: Nothing more is read; the connection closes when each request read before has its response.
    FINISHING = 1
    #: Nothing more is written; the transport closes.
    CLOSING = 2
    #: The transport is gone; queued requests are still processed.
    LOST = 3


class ServerContext(Protocol):
    """What the connections of one server share."""

    limits: ServerLimits
    processor: RequestProcessor
    request_queue: RequestQueue
    observer: ServerObserver
    statistics: ServerStatistics
    tls: TlsContexts | None
    #: Cached responses leave in it.
    write_batch: WriteBatch
    #: As in `ServerOptions`.
    audience_of: Callable[[str], int] | None
    #: For how long the process ran since the server's start, in ms, pauses left out; moves on with each idle check.
    awake_ms: int

    def reject_partial_frames(self) -> None:
        """Reject the largest partial frames until all together are within their limit."""

    def abort_slow_readers(self) -> None:
        """Abort the connections with the largest response buffers until all together are within their limit."""

    def admit(self, connection: Any) -> int | None:
        """Take a new connection and return its id; None if it is refused."""

    def remove(self, connection: Any) -> None:
        """Remove a connection that is lost."""
