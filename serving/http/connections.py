"""The connections of the HTTP side: health probes find a place among them, whatever others hold."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, cast

from aiohttp import web

#: Connections at one time, unless a server says otherwise; each costs a descriptor that brokers and clients need too.
CONNECTIONS_MAX: Final = 256

#: Seconds in which a connection has to have sent its first request.
FIRST_REQUEST_S: Final = 5

Handler = web.RequestHandler


class HttpConnections:
    """The open connections; where all places are taken, one is closed for a new one.

    That is the one that has done nothing for longest: it waits for a request, or for its peer to read. Only where each
    is at work on a request, the one that began first is closed.
    """

    def __init__(self, make: Callable[[], Handler], connections_max: int = 0) -> None:
        """Take what makes the handler of a connection, and how many there may be; 0 for CONNECTIONS_MAX."""
        self._make = make
        self._connections_max = connections_max or CONNECTIONS_MAX
        #: The one whose last activity is longest ago stands first; True while a request of it is worked on.
        self._open: dict[Handler, bool] = {}
        #: Those that have sent a request.
        self._used: set[Handler] = set()
        #: What waits for something to happen, for a peer that may be gone before it does.
        self._waiting: dict[Handler, asyncio.Task[Any]] = {}

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a connection that is being accepted."""
        return _HttpConnection(self._make(), self)

    def opened(self, handler: Handler) -> None:
        """Give a new connection a place, and a moment for its first request."""
        if len(self._open) >= self._connections_max:
            longest = next(iter(self._open))
            _close(next((each for each, works in self._open.items() if not works), longest), self)
        self._open[handler] = False
        asyncio.get_running_loop().call_later(FIRST_REQUEST_S, self._close_unused, handler)

    def begins(self, handler: Handler) -> None:
        """Mark a connection as working on a request."""
        if handler in self._open:
            self._used.add(handler)
            self._open[handler] = True

    def ends(self, handler: Handler) -> None:
        """Mark it as idle."""
        if self._open.pop(handler, None) is not None:
            self._open[handler] = False

    @contextmanager
    def waiting(self, handler: Handler, task: asyncio.Task[Any]) -> Iterator[None]:
        """Cancel the task that answers a request if its connection closes meanwhile: nobody would read the answer."""
        if handler in self._open:
            self._waiting[handler] = task
        try:
            yield
        finally:
            self._waiting.pop(handler, None)

    def closed(self, handler: Handler) -> None:
        """Remove a connection."""
        self._open.pop(handler, None)
        self._used.discard(handler)
        if (task := self._waiting.pop(handler, None)) is not None:
            task.cancel()

    def _close_unused(self, handler: Handler) -> None:
        if handler in self._open and handler not in self._used:
            _close(handler, self)


class _HttpConnection(asyncio.Protocol):
    """Hands all that happens on one connection to its handler."""

    def __init__(self, handler: Handler, connections: HttpConnections) -> None:
        self._handler = handler
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handler.connection_made(cast("asyncio.Transport", transport))
        self._connections.opened(self._handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.closed(self._handler)
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> None:
        self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


def _close(handler: Handler, connections: HttpConnections) -> None:
    connections.closed(handler)
    if handler.transport is not None:
        # An orderly close would wait for a peer that does not read.
        handler.transport.abort()


#: The connections of each port at which an application is served.
CONNECTIONS: Final = web.AppKey("connections", list[HttpConnections])


async def while_open(request: web.Request, value: Awaitable[Any]) -> Any:
    """Return what is awaited; whoever waits for it is cancelled once the client is gone."""
    task = asyncio.current_task()
    assert task is not None, "a view is awaited in the task of its connection"
    with ExitStack() as stack:
        for connections in request.app[CONNECTIONS]:
            stack.enter_context(connections.waiting(request.protocol, task))
        return await value
