"""The listener: accepts connections, closes idle ones, enforces what all together may use, and shuts down in order.

Answers to `NettyRemotingServer`. What happens on one connection is in `connection.py`.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from remoting.protocol.addresses import host_and_port
from remoting.protocol.errors import RemotingError
from remoting.server.buffers import TooManyPartialFrameBytes, WriteBatch, abort_after_fault
from remoting.server.connection import Connection, PlainConnection
from remoting.server.connection_limit import ConnectionLimit
from remoting.server.limits import ServerOptions
from remoting.server.observer import CloseReason, Rejection, ServerObserver
from remoting.server.request_processor import Dispatcher, RequestProcessor
from remoting.server.request_queue import RequestQueue
from remoting.server.statistics import UNKNOWN_CODE, ServerStatistics
from remoting.transport.tls import TlsContexts

if TYPE_CHECKING:
    from remoting.server.workers.pool import WorkerPool

#: Connections are checked so many times within `idle_seconds`, at least each second.
_CHECKS_PER_IDLE_TIME: Final = 20
_CHECK_MS_MAX: Final = 1000
_CHECK_MS_MIN: Final = 5

#: Such a part of the limit of partial frames, or of response buffers, is freed when it is exceeded. To free no more
#: than needed would walk over all connections again for each few bytes.
_SHARE_FREED: Final = 8

#: Connections checked before the loop is given back; takes less than a millisecond.
_CHECKED_AT_ONCE: Final = 1000


class BindError(RemotingError):
    """The server cannot listen on its address."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        self.reason = reason
        super().__init__(f"cannot listen on {host_and_port(host, port)}: {reason}")


class RemotingServer:
    """Serves RocketMQ peers on one port."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        observer: ServerObserver,
        tasks: BackgroundTasks,
        clock: Clock,
        options: ServerOptions,
        tls: TlsContexts | None = None,
    ) -> None:
        """Serve nothing before `start`. Answers that take a while are awaited in `tasks`, which outlive `close`."""
        limits = self.limits = options.limits
        self.observer = observer
        #: None where only plain connections are served.
        self.tls = tls
        self.statistics = ServerStatistics()
        self.processor = RequestProcessor(dispatcher, options, observer, self.statistics)
        latencies = self.statistics.latencies_of(UNKNOWN_CODE if options.cached_code is None else options.cached_code)
        self.write_batch = WriteBatch(asyncio.get_running_loop().call_soon, latencies, self.statistics)
        self.request_queue = RequestQueue(self.processor, limits, self.statistics, tasks)
        self.audience_of = options.audience_of
        #: Changeable while the server runs; 0 for never.
        self.idle_seconds = limits.idle_seconds
        self._clock = clock
        #: For how long the process ran since the server's start, in ms: pauses of the process do not count, or all
        #: peers would seem idle after one.
        self.awake_ms = 0
        self._checked_ms = clock.now_ms()
        self._check_timer: asyncio.TimerHandle | None = None
        self._numbers = count(1)
        self._connections: dict[int, Connection] = {}
        opened, protected = self._connections.values, options.is_protected
        self._connection_limit = ConnectionLimit(opened, protected, limits.connections_max)
        #: Where the server listens once it is started: host and port, also if the system chose the port.
        self.address: tuple[str, int] = ("", 0)
        self._listeners: list[asyncio.Server] = []
        self.workers = self._worker_pool(options, tasks) if options.workers else None
        #: A connection may still be on its way from the listener when that is closed.
        self._closing = False
        #: Set whenever no connection is open.
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def connections(self) -> Mapping[int, Connection]:
        """The open connections by id, oldest first; not to be changed."""
        return MappingProxyType(self._connections)

    async def start(self, host: str, port: int) -> None:
        """Listen and serve from now on; port 0 takes any free one. Raises BindError."""
        if self.workers is not None:
            await self.workers.start()
        self.address = await self._listen(host, port, Connection)
        self._checked_ms = self._clock.now_ms()
        self._check_later()

    async def listen_plain(self, host: str, port: int) -> tuple[str, int]:
        """Serve also there, and each peer as one of audience 0; return the address. Raises BindError."""
        return await self._listen(host, port, PlainConnection)

    async def _listen(self, host: str, port: int, kind: type[Connection]) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        try:
            # Both asyncio and uvloop set SO_REUSEADDR on the listener and TCP_NODELAY on what it accepts.
            listener = await loop.create_server(
                lambda: kind(self), host, port, backlog=self.limits.backlog, reuse_address=True
            )
        except (OSError, OverflowError) as error:
            raise BindError(host, port, getattr(error, "strerror", None) or str(error)) from None
        self._listeners.append(listener)
        self._set_socket_buffers(listener)
        bound_host, bound_port = listener.sockets[0].getsockname()[:2]
        return bound_host, bound_port

    def close_connection(self, number: int, reason: CloseReason) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            connection.close(reason)

    def probe_connection(self, number: int) -> None:
        """Check whether the peer of this connection is still there; within some seconds it is lost if not."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.probe()

    def drain(self) -> None:
        """Answer GO_AWAY to every peer that understands it; other peers and new connections are still served."""
        self.processor.drain()
        if self.workers is not None:
            self.workers.drain()
        for connection in self._connections.values():
            connection.cache = None

    def reclassify(self) -> None:
        """Let each peer be of the audience that `audience_of` returns from now on; every cached response is another's.

        Whoever prepared responses for the former audiences has invalidated them. It takes about 5 ms for 1,000
        connections, in one step: in between some would get the answers of others.
        """
        self.processor.drop_audiences()
        if self.workers is not None:
            self.workers.reclassified()
        for connection in self._connections.values():
            connection.classify()

    async def close(self) -> None:
        """Stop listening, answer queued requests and close all connections; abort those left after `close_seconds`."""
        self._closing = True
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections.values()):
            connection.finish(CloseReason.SHUTDOWN)
        try:
            async with asyncio.timeout(self.limits.close_seconds):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self._connections.values()):
                connection.abort(CloseReason.SHUTDOWN)
            await self._empty.wait()
        if self._check_timer is not None:
            self._check_timer.cancel()
        if self.workers is not None:
            await self.workers.close()

    # Called by connections

    def admit(self, connection: Connection) -> int | None:
        """Take a new connection and return its id; None if it is refused.

        Beyond `connections_max` the least needed connection is evicted: the new one may be a broker's. The new one is
        refused only if all others are closing.
        """
        if self._closing:
            return None
        if len(self._connections) >= self.limits.connections_max and not self._evict_one():
            self.statistics.rejected[Rejection.CONNECTIONS] += 1
            self.observer.connection_refused(connection.peer, self.limits.connections_max)
            return None
        number = next(self._numbers)
        self._connections[number] = connection
        self._empty.clear()
        return number

    def _evict_one(self) -> bool:
        chosen = self._connection_limit.next_to_close(self.awake_ms)
        if chosen is None:
            return False
        connection, reason = chosen
        connection.abort(reason)
        return True

    def reject_partial_frames(self) -> None:
        """Reject partial frames, the largest first, until an eighth of their limit is free.

        A broker's registration must not fail because others send frames without end.
        """
        all_bytes_max = self.limits.partial_frame_bytes_max
        for connection in self._largest(attrgetter("input.partial_bytes", "id")):
            all_bytes = self.statistics.partial_frame_bytes
            if _is_within(all_bytes, all_bytes_max):
                return
            connection.reject(TooManyPartialFrameBytes(connection.input.partial_bytes, all_bytes, all_bytes_max))

    def abort_slow_readers(self) -> None:
        """Abort the connections with the largest response buffers until an eighth of their limit is free.

        Each may leave some unread, but very many that read nothing would take all memory.
        """
        for connection in self._connections.values():
            connection.update_response_buffer()
        for connection in self._largest(attrgetter("responses.bytes", "id")):
            if _is_within(self.statistics.response_buffer_bytes, self.limits.response_buffer_bytes_max):
                return
            connection.abort(CloseReason.SLOW_READER)

    def remove(self, connection: Connection) -> None:
        del self._connections[connection.id]
        if not self._connections:
            self._empty.set()

    def _largest(self, size_and_id: Callable[[Connection], tuple[int, int]]) -> list[Connection]:
        """Return the connections, the largest first, and of equal ones the youngest."""
        return sorted(self._connections.values(), key=size_and_id, reverse=True)

    def _worker_pool(self, options: ServerOptions, tasks: BackgroundTasks) -> "WorkerPool":
        from remoting.server.workers.pool import WorkerPool  # noqa: PLC0415  # most servers have none

        assert options.cached_code is not None, "workers answer from the cache"
        assert options.tally is not None, "as above"
        return WorkerPool(self, options.workers, options.cached_code, options.tally, tasks)

    # Idle checks

    def _set_socket_buffers(self, listener: asyncio.Server) -> None:
        sizes = {socket.SO_SNDBUF: self.limits.socket_send_bytes, socket.SO_RCVBUF: self.limits.socket_receive_bytes}
        for each in listener.sockets:
            for option, size in sizes.items():
                if size:
                    each.setsockopt(socket.SOL_SOCKET, option, size)

    @property
    def _check_ms(self) -> int:
        wanted = round(self.idle_seconds * 1000 / _CHECKS_PER_IDLE_TIME) or _CHECK_MS_MAX
        return max(_CHECK_MS_MIN, min(_CHECK_MS_MAX, wanted))

    def _check_later(self) -> None:
        self._check_timer = asyncio.get_running_loop().call_later(self._check_ms / 1000, self._check)

    def _check(self) -> None:
        rest: Iterator[Connection] = iter(())
        try:
            now_ms = self._clock.now_ms()
            self.awake_ms += min(now_ms - self._checked_ms, 2 * self._check_ms)
            self._checked_ms = now_ms
            if self.workers is not None:
                self.workers.check()
            rest = iter(list(self._connections.values()))
        finally:
            self._check_some(rest)

    def _check_some(self, rest: Iterator[Connection]) -> None:
        # Times are as precise as checks are frequent: a connection has that much more, never less.
        idle_ms_max = round(self.idle_seconds * 1000) + self._check_ms if self.idle_seconds else 0
        seen = 0
        try:
            for connection in islice(rest, _CHECKED_AT_ONCE):
                seen += 1
                try:
                    connection.check_idle(self.awake_ms, idle_ms_max)
                except Exception as error:  # noqa: BLE001  # whatever it is, it ends this connection only
                    abort_after_fault(connection, "the idle check of a connection failed", error)
            if self.statistics.response_buffer_bytes > self.limits.response_buffer_bytes_max:
                self.abort_slow_readers()
        finally:
            # Whatever fails: without a next check idle connections would stay for good.
            if seen < _CHECKED_AT_ONCE:
                self._check_later()
            else:
                self._check_timer = asyncio.get_running_loop().call_later(0, self._check_some, rest)


def _is_within(all_bytes: int, all_bytes_max: int) -> bool:
    return all_bytes <= all_bytes_max - all_bytes_max // _SHARE_FREED
