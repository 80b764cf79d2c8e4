"""Checks whether the host of a peer still knows a connection, by TCP keep-alive probes.

A living host answers; the process behind it notices nothing. A host that rebooted resets the connection, and one that
is gone does not answer: in both cases the connection is lost as any other. Netty has no counterpart.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final, Protocol

#: The first probe leaves at once, or when the peer was silent for a second; so many leave, a second apart.
PROBES: Final = 2
#: Seconds until every probe is sent and answered; a connection that is open then has a living peer.
PROBE_S: Final = 2.0 + PROBES

#: macOS has another name for it.
_KEEP_IDLE: Final[int] = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", 0))


class SocketOptions(Protocol):
    """A socket, or what a transport gives out in its place."""

    def setsockopt(self, level: int, option: int, value: int, /) -> Any:
        """Set an option of the socket."""


class TcpProbe:
    """One probe of one connection, for PROBE_S seconds; no error is raised if the connection is gone."""

    __slots__ = ("_socket", "_timer")

    def __init__(self, connection: SocketOptions) -> None:
        self._socket = connection
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # The last: it lets the first probe leave.
            connection.setsockopt(socket.IPPROTO_TCP, _KEEP_IDLE, 1)
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(PROBE_S, self._end)

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def cancel(self) -> None:
        """Forget the end of the probe: the connection is closing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        # A probe without end would lose connections when the network is away for a moment.
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)
