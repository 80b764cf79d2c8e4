"""The listener: takes connections, looks for idle ones, and ends them in order.

Answers to `NettyRemotingServer`. What happens on one connection is in `connection.py`.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from operator import attrgetter
from types import MappingProxyType
from typing import Final

import msgspec

from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from remoting.protocol.codes import RequestCode, SerializeType
from remoting.protocol.errors import RemotingError
from remoting.server.body_limits import BodyLimits
from remoting.server.connection import Connection
from remoting.server.connection_limit import Room
from remoting.server.limits import ServerLimits
from remoting.server.observer import CloseReason, Rejection, ServerObserver
from remoting.server.oneway_fast_path import NoticeKind, Notices
from remoting.server.partial_frame import TooMuchUnfinished
from remoting.server.request_processor import Answers, Dispatcher
from remoting.server.request_queue import Turns
from remoting.server.response_cache import KnownRequests
from remoting.server.statistics import UNKNOWN_CODE, ServerStatistics
from remoting.server.write_batch import Outbox
from remoting.transport.preamble import host_and_port
from remoting.transport.tls import TlsContexts

#: Connections are looked at so many times within `idle_seconds`, at least each second.
_LOOKS_PER_SILENCE: Final = 20
_LOOK_MS_MAX: Final = 1000
_LOOK_MS_MIN: Final = 5

#: So small a part of the room for unfinished frames, or for unread answers, is made free when it is used up. To free
#: no more than needed would look at all connections again for each few bytes.
_SHARE_FREED: Final = 8

#: Connections looked at before the loop is given back; takes less than a millisecond.
_LOOK_CONNECTIONS: Final = 1000


class BindError(RemotingError):
    """The server cannot listen where it should."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        self.reason = reason
        super().__init__(f"cannot listen on {host_and_port(host, port)}: {reason}")


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server treats requests."""

    limits: ServerLimits = msgspec.field(default_factory=ServerLimits)
    #: Codes whose requests are answered at once, in the order read, before all others.
    urgent: frozenset[int] = frozenset()
    #: The urgent code whose answers stand ready, mostly; its requests are known again by their bytes. None: no answer
    #: stands ready.
    prepared: int | None = RequestCode.GET_ROUTEINFO_BY_TOPIC
    #: The urgent one-way requests that come most of all, if there are such.
    notices: NoticeKind | None = None
    #: The longest bodies that requests may have.
    body_limits: BodyLimits = msgspec.field(default_factory=BodyLimits)
    #: How headers of answers are written, whatever the request used.
    serialize_type: SerializeType = SerializeType.JSON
    #: Whether the connection of this id is that of a known broker, and stays where others make
    #: room (`connection_limit.py`).
    is_kept: Callable[[int], bool] = lambda _connection_id: False


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
        """Prepare; nothing is served before `start`. Without `tls` only plain connections are.

        Answers that take a while are waited for in `tasks`, which must outlive `close`.
        """
        self.limits = options.limits
        self.observer = observer
        self.tls = tls
        self.statistics = ServerStatistics()
        self.urgent = {code: self.statistics.latencies_of(code) for code in options.urgent}
        self.known_latencies = self.statistics.latencies_of(
            UNKNOWN_CODE if options.prepared is None else options.prepared
        )
        self.outbox = Outbox(asyncio.get_running_loop().call_soon, self.known_latencies, self.statistics)
        # The frames that stand ready have JSON headers.
        is_json = options.serialize_type is SerializeType.JSON
        prepared = options.prepared if is_json else None
        known = None if prepared is None else KnownRequests(prepared, self.statistics)
        notices = None if options.notices is None else Notices(options.notices, self.statistics)
        self.answers = Answers(dispatcher, options.serialize_type, observer, self.statistics, known, notices)
        self.answers.body_limits = options.body_limits
        self.turns = Turns(self.answers, options.limits, self.statistics, tasks)
        #: Changeable while the server runs; 0 for never.
        self.idle_seconds = options.limits.idle_seconds
        self._clock = clock
        #: How long the server has been awake, in milliseconds: time in which the process was stopped does not count,
        #: or all peers would seem silent when it goes on.
        self.awake_ms = 0
        self._looked_ms = clock.now_ms()
        self._look_timer: asyncio.TimerHandle | None = None
        self._numbers = count(1)
        self._connections: dict[int, Connection] = {}
        self._room = Room(self._connections.values, options.is_kept, options.limits.connections_max)
        #: Where the server listens once it is started: host and port, also if the system chose the port.
        self.address: tuple[str, int] = ("", 0)
        self._listener: asyncio.Server | None = None
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
        loop = asyncio.get_running_loop()
        try:
            # Both asyncio and uvloop set SO_REUSEADDR on the listener and TCP_NODELAY on what it accepts.
            self._listener = await loop.create_server(
                lambda: Connection(self), host, port, backlog=self.limits.backlog, reuse_address=True
            )
        except (OSError, OverflowError) as error:
            raise BindError(host, port, getattr(error, "strerror", None) or str(error)) from None
        self.address = self._listener.sockets[0].getsockname()[:2]
        self._set_socket_buffers(self._listener)
        self._looked_ms = self._clock.now_ms()
        self._look_later()

    def close_connection(self, number: int, reason: CloseReason) -> None:
        """Close the connection of this id, if it is still open."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.close(reason)

    def probe_connection(self, number: int) -> None:
        """Find out whether the peer of this connection is still there; within some seconds it is lost if not."""
        connection = self._connections.get(number)
        if connection is not None:
            connection.probe()

    def drain(self) -> None:
        """Answer GO_AWAY to every peer that understands it; the others and new connections are still served."""
        self.answers.drain()

    async def close(self) -> None:
        """Stop listening, answer what was asked, and close all connections; after `close_seconds`, whatever is left."""
        self._closing = True
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections.values()):
            connection.close_when_answered()
        try:
            async with asyncio.timeout(self.limits.close_seconds):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self._connections.values()):
                connection.abort()
            await self._empty.wait()
        if self._look_timer is not None:
            self._look_timer.cancel()

    # Called by connections

    def admit(self, connection: Connection) -> int | None:
        """Take a new connection and return its id, or None if there is no room.

        Where there is none, the connection that can best be spared makes room: whoever comes may be a broker. None can
        be spared only if all others are about to end.
        """
        if self._closing:
            return None
        if len(self._connections) >= self.limits.connections_max and not self._make_room_for_one():
            self.statistics.rejected[Rejection.CONNECTIONS] += 1
            self.observer.connection_refused(connection.peer, self.limits.connections_max)
            return None
        number = next(self._numbers)
        self._connections[number] = connection
        self._empty.clear()
        return number

    def _make_room_for_one(self) -> bool:
        """Close the connection that can best be spared; return False if all are about to end."""
        chosen = self._room.next_leaving(self.awake_ms)
        if chosen is None:
            return False
        connection, reason = chosen
        connection.break_off(reason)
        return True

    def make_room(self) -> None:
        """Reject unfinished frames, the largest first, until an eighth of the room for all of them is free.

        A broker's registration must not go because others send frames without end.
        """
        all_bytes_max = self.limits.unfinished_bytes_max
        for connection in self._largest(attrgetter("unfinished_bytes", "id")):
            all_bytes = self.statistics.unfinished_bytes
            if _is_room(all_bytes, all_bytes_max):
                return
            connection.reject(TooMuchUnfinished(connection.unfinished_bytes, all_bytes, all_bytes_max))

    def make_room_for_answers(self) -> None:
        """Close the connections with the most unread answers until an eighth of the room for all of them is free.

        Each may leave some unread, but very many that read nothing would take all memory.
        """
        for connection in self._connections.values():
            connection.look_at_unsent()
        for connection in self._largest(attrgetter("unsent_bytes", "id")):
            if _is_room(self.statistics.unsent_bytes, self.limits.unread_bytes_max):
                return
            connection.break_off(CloseReason.SLOW_READER)

    def forget(self, connection: Connection) -> None:
        """Let go of a connection that is lost."""
        del self._connections[connection.id]
        if not self._connections:
            self._empty.set()

    def _largest(self, size_and_id: Callable[[Connection], tuple[int, int]]) -> list[Connection]:
        """Return the connections, the largest first, and of equal ones the youngest."""
        return sorted(self._connections.values(), key=size_and_id, reverse=True)

    # Looking for idle connections

    def _set_socket_buffers(self, listener: asyncio.Server) -> None:
        """Set the sizes on the listener; accepted sockets take them over."""
        sizes = {socket.SO_SNDBUF: self.limits.socket_send_bytes, socket.SO_RCVBUF: self.limits.socket_receive_bytes}
        for each in listener.sockets:
            for option, size in sizes.items():
                if size:
                    each.setsockopt(socket.SOL_SOCKET, option, size)

    @property
    def _look_ms(self) -> int:
        wanted = round(self.idle_seconds * 1000 / _LOOKS_PER_SILENCE) or _LOOK_MS_MAX
        return max(_LOOK_MS_MIN, min(_LOOK_MS_MAX, wanted))

    def _look_later(self) -> None:
        self._look_timer = asyncio.get_running_loop().call_later(self._look_ms / 1000, self._look)

    def _look(self) -> None:
        """Begin to look at all connections, a thousand at a time."""
        rest: Iterator[Connection] = iter(())
        try:
            now_ms = self._clock.now_ms()
            self.awake_ms += min(now_ms - self._looked_ms, 2 * self._look_ms)
            self._looked_ms = now_ms
            rest = iter(list(self._connections.values()))
        finally:
            self._look_at(rest)

    def _look_at(self, rest: Iterator[Connection]) -> None:
        # Times are known to one look: a connection is given that much more, never less.
        silence_ms_max = round(self.idle_seconds * 1000) + self._look_ms if self.idle_seconds else 0
        seen = 0
        try:
            for connection in islice(rest, _LOOK_CONNECTIONS):
                seen += 1
                self._look_at_one(connection, silence_ms_max)
            if self.statistics.unsent_bytes > self.limits.unread_bytes_max:
                self.make_room_for_answers()
        finally:
            # Whatever fails: without a next look silent connections would stay for good.
            if seen < _LOOK_CONNECTIONS:
                self._look_later()
            else:
                self._look_timer = asyncio.get_running_loop().call_later(0, self._look_at, rest)

    def _look_at_one(self, connection: Connection, silence_ms_max: int) -> None:
        try:
            connection.look_for_progress(self.awake_ms, silence_ms_max)
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends this connection only
            connection.break_off(CloseReason.ERROR)
            fault = {"message": "looking at a connection has failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(fault)


def _is_room(all_bytes: int, all_bytes_max: int) -> bool:
    return all_bytes <= all_bytes_max - all_bytes_max // _SHARE_FREED
