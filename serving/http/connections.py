"""The connections of the HTTP side: health probes find a place among them, whatever others hold.

Where all places are taken, the host with most connections loses one: of its idle ones or of those that are at work,
whichever are more, the one that has done nothing for longest. So a newcomer is safe for a moment, even if others of its
host connect without end.

Answers that clients do not read have a limit in time and, all together, in bytes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from operator import attrgetter
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from yarl import URL

from remoting.protocol.addresses import host_and_port
from remoting.server.connection_limit import from_largest_hosts, network_of

#: Connections at one time, unless a server says otherwise; each costs a descriptor that brokers and clients need too.
CONNECTIONS_MAX: Final = 256
#: Such a part of them is chosen to be closed with one walk over all.
_SHARE_CHOSEN: Final = 8

#: Seconds in which a connection has to have sent its first request.
FIRST_REQUEST_S: Final = 5
#: Seconds for which a client may read nothing of what was sent to it; then its connection is closed.
STALL_S: Final = 60.0
#: Answers of all connections together that were not read, in bytes. What pages and programs read is far shorter.
UNREAD_BYTES_MAX: Final = 32 * 1024 * 1024
#: Bytes of answers in one turn of the event loop, if one is not longer: what is not read shows between turns alone.
TURN_BYTES_MAX: Final = 1024 * 1024

Handler = web.RequestHandler


class HttpConnections:
    def __init__(
        self,
        make: Callable[[], Handler],
        of_app: dict[Handler, "HttpConnection"],
        connections_max: int = 0,
        rejected: Callable[[str, str], None] = lambda _peer, _problem: None,
    ) -> None:
        """Take what makes the handler of a connection, and the connections of all ports of the application.

        `connections_max` is 0 for the usual limit; `rejected` gets the address of a slow reader and a sentence.
        """
        self._make = make
        self._of_app = of_app
        self._connections_max = connections_max or CONNECTIONS_MAX
        self._rejected = rejected
        #: Downwards: of those that did something in the same moment the oldest is to go.
        self._numbers = count(0, -1)
        self._open: dict[Handler, HttpConnection] = {}
        #: Those to close for a new one, the next one last, each with its last activity as it was chosen.
        self._chosen: list[tuple[HttpConnection, int]] = []
        #: Those with answers that wait to be read, with the timers that end them.
        self._unread: dict[HttpConnection, asyncio.TimerHandle] = {}
        self._turn_bytes = 0

    def __call__(self) -> asyncio.Protocol:
        return HttpConnection(self._make(), self, next(self._numbers))

    def opened(self, connection: "HttpConnection") -> None:
        """Give a new connection a place, and a moment for its first request."""
        if len(self._open) >= self._connections_max:
            self._next_to_close().abort()
        self._open[connection.handler] = self._of_app[connection.handler] = connection
        asyncio.get_running_loop().call_later(FIRST_REQUEST_S, connection.close_unused)

    def closed(self, connection: "HttpConnection") -> None:
        self._open.pop(connection.handler, None)
        self._of_app.pop(connection.handler, None)
        self.is_read(connection)
        if connection.task is not None:
            connection.task.cancel()
            connection.task = None

    def is_unread(self, connection: "HttpConnection") -> None:
        """Note that the client leaves much unread; it has STALL_S to read some of it."""
        loop = asyncio.get_running_loop()
        self._unread[connection] = loop.call_later(STALL_S, self._check_stall, connection, connection.unread_bytes)
        # The transport is in the middle of a write.
        loop.call_soon(self._check_unread)

    def is_read(self, connection: "HttpConnection") -> None:
        """Note that the client has read enough, or is gone."""
        if (timer := self._unread.pop(connection, None)) is not None:
            timer.cancel()

    async def in_turn(self, encode: Callable[[], bytes]) -> bytes:
        """Return the body of an answer, encoded once it has a place in a turn of the event loop."""
        while self._turn_bytes > TURN_BYTES_MAX:  # noqa: ASYNC110  # the next turn is waited for, and nothing else
            await asyncio.sleep(0)
        body = encode()
        if not self._turn_bytes:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._turn_bytes += len(body)
        return body

    def _end_turn(self) -> None:
        self._turn_bytes = 0

    def _next_to_close(self) -> "HttpConnection":
        while True:
            while self._chosen:
                connection, last_activity_ms = self._chosen.pop()
                if connection.handler in self._open and connection.last_activity_ms == last_activity_ms:
                    return connection
            number = max(1, self._connections_max // _SHARE_CHOSEN)
            losers = from_largest_hosts(self._open.values(), number, (attrgetter("network"), attrgetter("is_working")))
            self._chosen = [(each, each.last_activity_ms) for each in reversed(losers)]

    def _check_stall(self, connection: "HttpConnection", bytes_before: int) -> None:
        del self._unread[connection]
        if connection.unread_bytes < bytes_before:
            self.is_unread(connection)
            return
        self._rejected(connection.peer, f"an answer was not read for {STALL_S:.0f} s")
        connection.abort()

    def _check_unread(self) -> None:
        """Close connections until what all leave unread is within its limit: the largest of the host with most."""
        sizes = {connection: connection.unread_bytes for connection in self._unread}
        total = sum(sizes.values())
        while total > UNREAD_BYTES_MAX and len(sizes) > 1:
            hosts: Counter[str] = Counter()
            for connection, size in sizes.items():
                hosts[connection.network] += size
            ((host, _),) = hosts.most_common(1)
            largest = max((each for each in sizes if each.network == host), key=sizes.__getitem__)
            size = sizes.pop(largest)
            self._rejected(
                largest.peer,
                f"answers that clients have not read have {total} bytes, over the limit of {UNREAD_BYTES_MAX}; "
                f"{size} of them are of this one",
            )
            total -= size
            largest.abort()


class HttpConnection(asyncio.Protocol):
    """Hands all that happens on one connection to its handler."""

    def __init__(self, handler: Handler, connections: HttpConnections, number: int) -> None:
        self.handler = handler
        self.connections = connections
        self.id = number
        self.peer = self.network = ""
        #: When it was opened, or a request of it began or ended.
        self.last_activity_ms = 0
        self.is_working = False
        #: Whether it has sent a request.
        self.is_used = False
        #: What waits for something to happen, for a client that may be gone before it does.
        self.task: asyncio.Task[Any] | None = None

    @property
    def unread_bytes(self) -> int:
        """What was written and is not on its way to the client."""
        transport = self.handler.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    def begin(self) -> None:
        """Work on a request."""
        self.is_used = self.is_working = True
        self.touch()

    def end(self) -> None:
        """Be idle."""
        self.is_working = False
        self.touch()

    def touch(self) -> None:
        self.last_activity_ms = int(asyncio.get_running_loop().time() * 1000)

    def abort(self) -> None:
        """Close it at once: an orderly close would wait for a client that does not read."""
        self.connections.closed(self)
        if self.handler.transport is not None:
            self.handler.transport.abort()

    def close_unused(self) -> None:
        if not self.is_used:
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer, self.network = host_and_port(*peer[:2]), network_of(peer[0])
        self.touch()
        self.handler.connection_made(cast("asyncio.Transport", transport))
        self.connections.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.closed(self)
        self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.handler.data_received(data)
        messages = self.handler._messages  # noqa: SLF001  # there is no other way to what was received
        if not messages:
            return
        message, payload = messages[-1]
        # aiohttp keeps the error of a bad request in a list of the frame that its traceback holds: that circle, with
        # what has come on the connection, would wait for the collector, which may not come for hours.
        error = getattr(message, "exc", None)
        while error is not None:
            error.__traceback__, error = None, error.__context__
        if isinstance(message, RawRequestMessage) and not message.path:
            # A CONNECT without a target, which aiohttp would fail on.
            messages[-1] = message._replace(path="/", url=URL("/")), payload

    def eof_received(self) -> None:
        self.handler.eof_received()

    def pause_writing(self) -> None:
        self.handler.pause_writing()
        self.connections.is_unread(self)

    def resume_writing(self) -> None:
        self.handler.resume_writing()
        self.connections.is_read(self)


#: The open connections of all ports at which the application is served.
CONNECTIONS: Final = web.AppKey("connections", dict[Handler, HttpConnection])


@contextmanager
def cancelled_with_client(request: web.Request) -> Iterator[None]:
    """Cancel the present task, which answers a request, if its connection closes: nobody would read the answer."""
    connection = request.app[CONNECTIONS].get(request.protocol)
    if connection is None:
        yield
        return
    connection.task = asyncio.current_task()
    try:
        yield
    finally:
        connection.task = None
