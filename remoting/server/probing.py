"""Finding out whether a peer's host still knows a connection: the system asks it, on TCP level.

Who lives answers and notices nothing, whatever the process does. A host that was booted again resets the connection,
and one that is gone does not answer: in both cases the connection ends as any that is lost. Netty knows no such thing.
"""

import socket
from typing import Any, Final, Protocol

#: The first question leaves at once, or when the peer was silent for a second; so many leave, a second apart.
QUESTIONS: Final = 2
#: When all has been asked and answered, in seconds; a connection that is open then has a living peer.
PROBE_S: Final = 2.0 + QUESTIONS

#: macOS calls it otherwise.
_KEEP_IDLE: Final[int] = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", 0))


class Optioned(Protocol):
    """A socket, or what stands for it in a transport."""

    def setsockopt(self, level: int, option: int, value: int, /) -> Any:
        """Set an option of the socket."""


def begin(connection: Optioned) -> None:
    """Ask the peer's host from now on; raises OSError if the connection is gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, QUESTIONS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # The last, as it lets the first question leave.
    connection.setsockopt(socket.IPPROTO_TCP, _KEEP_IDLE, 1)


def end(connection: Optioned) -> None:
    """Ask no longer: a moment without network would end the connection. Raises OSError if it is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
