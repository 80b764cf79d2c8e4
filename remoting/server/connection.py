"""One peer's connection: bytes in, requests processed or queued, responses out; when it stops reading or closes.

Answers to `NettyServerHandler`, `IdleStateHandler` and `NettyConnectManageHandler`. This is the contact with the event
loop: how bytes become frames, how a request is processed and whose turn it is are decided elsewhere.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from sys import intern
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from remoting.protocol.addresses import host_and_port
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError
from remoting.protocol.frame import PREFIX
from remoting.server.buffers import ConnectionInput, ResponseBuffer, WriteBatch
from remoting.server.connection_limit import network_of
from remoting.server.limits import ServerLimits
from remoting.server.observer import CloseReason, ConnectionKind, Rejection, ServerObserver
from remoting.server.request_processor import Received, RequestProcessor
from remoting.server.request_queue import ConnectionQueue, RequestQueue
from remoting.server.response_cache import CachedRequest
from remoting.server.statistics import ServerStatistics, timer_ns
from remoting.transport.filter import ConnectionFilter
from remoting.transport.tcp_probe import TcpProbe
from remoting.transport.tls import TlsContexts

if TYPE_CHECKING:
    from remoting.server.workers.pool import WorkerPool, WorkerTransport


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
    #: Processes that serve clients; None without any.
    workers: "WorkerPool | None"

    def reject_partial_frames(self) -> None:
        """Reject the largest partial frames until all together are within their limit."""

    def abort_slow_readers(self) -> None:
        """Abort the connections with the largest response buffers until all together are within their limit."""

    def admit(self, connection: Any) -> int | None:
        """Take a new connection and return its id; None if it is refused."""

    def remove(self, connection: Any) -> None:
        """Remove a connection that is lost."""


_OPEN: Final = ConnectionState.OPEN
_CLOSING: Final = ConnectionState.CLOSING
_LOST: Final = ConnectionState.LOST


class Connection(asyncio.Protocol):
    """The server's end of one connection; handlers and observers know it as a `Peer`."""

    # Many thousands of these are idle at a time.
    __slots__ = (
        "_close_reason",
        "_context",
        "_is_reading",
        "_kind",
        "_probe",
        "_queue",
        "_state",
        "_transport",
        "audience",
        "cache",
        "id",
        "input",
        "last_activity_ms",
        "network",
        "peer",
        "responses",
        "socket_peer",
    )

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self.id = 0
        self.peer = self.socket_peer = "unknown"
        #: The network of the other end itself, whatever a proxy there claims.
        self.network = ""
        #: Which answers the peer gets, and where those are that are known by the bytes of its requests.
        self.audience = 0
        self.cache = context.processor.cache
        #: When the peer last sent or read something, on the server's `awake_ms`.
        self.last_activity_ms = context.awake_ms
        self._kind = ConnectionKind.UNKNOWN
        self._state = _OPEN
        #: Set when the connection leaves OPEN.
        self._close_reason: CloseReason | None = None
        self._transport: asyncio.Transport
        self._is_reading = True
        self.input = ConnectionInput(context.processor.new_plain_reader, context.tls, context.statistics)
        #: The requests that wait for their turn, or are processed; None without any.
        self._queue: ConnectionQueue | None = None
        self.responses = ResponseBuffer(context.statistics)
        self._probe: TcpProbe | None = None

    @property
    def kind(self) -> ConnectionKind:
        return self._kind

    @kind.setter
    def kind(self, kind: ConnectionKind) -> None:
        if kind is not self._kind and self._state is not _LOST:
            self._context.statistics.connections[self._kind] -= 1
            self._context.statistics.connections[kind] += 1
            if kind is ConnectionKind.CLIENT and self._context.workers is not None:
                self._context.workers.became_client(self)
        self._kind = kind

    @property
    def is_lost(self) -> bool:
        """Whether the transport is gone, or the peer closed its side."""
        return self._state is _LOST or self._close_reason is CloseReason.PEER

    @property
    def is_closing(self) -> bool:
        return self._state >= _CLOSING

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or abort it if the server refuses it."""
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        if address:
            self.peer = self.socket_peer = host_and_port(address[0], address[1])
            # Thousands may come from one.
            self.network = intern(network_of(address[0]))
        if (number := self._context.admit(self)) is None:
            self._state = _LOST
            self._transport.abort()
            return
        self.id = number
        if self._context.audience_of is not None:
            self.classify()
        self._set_write_buffer_limits()
        self._context.statistics.connections[self._kind] += 1
        self._context.observer.connection_opened(self)

    def _set_write_buffer_limits(self) -> None:
        limits = self._context.limits
        self._transport.set_write_buffer_limits(limits.response_buffer_high_bytes, limits.response_buffer_low_bytes)

    def data_received(self, data: bytes) -> None:
        """Process or queue the requests in `data`; more than `turn_bytes` are processed in several turns.

        uvloop reads into one buffer that all connections share and hands over exactly what came, so an idle
        connection has none of its own.
        """
        context = self._context
        if len(data) > context.limits.turn_bytes and self.input.exceeds_turn(data, context.limits.turn_bytes):
            self.input.defer_bytes(data)
            self.read_on()
            return
        self.last_activity_ms = context.awake_ms
        context.statistics.received_bytes += len(data)
        if self.input.is_plain:
            oneway = context.processor.oneway
            if oneway is not None and data.startswith(oneway.beginning, PREFIX.size):
                # The first request of a connection takes the other path, which shows its kind.
                if self._kind is ConnectionKind.BROKER and oneway.take(data, self):
                    return
            elif (cache := self.cache) is not None and (response := cache.reply(data)) is not None:
                context.write_batch.put(self, response)
                return
        self._receive(data, timer_ns())

    def _receive(self, data: bytes, began_ns: int) -> None:
        incoming, context = self.input, self._context
        if incoming.filter is not None:
            data = self._filtered(incoming.filter, data)
        frames = incoming.read(data)
        if frames:
            self._process(frames, began_ns)
        incoming.update_partial(len(frames), context.awake_ms)
        if incoming.is_plain:
            return
        if incoming.error is not None:
            self.reject(incoming.error)
        elif context.statistics.partial_frame_bytes > context.limits.partial_frame_bytes_max:
            context.reject_partial_frames()
        # Only now: a peer may send its last requests and the end of TLS at once.
        if incoming.filter is not None and incoming.filter.ended:
            self.finish(CloseReason.PEER)

    def eof_received(self) -> bool:
        self.finish(CloseReason.PEER)
        return True

    def pause_writing(self) -> None:
        """Stop processing requests of a peer that does not read its responses."""
        if self._state is not _LOST:
            self.responses.begin_pause(self._transport.get_write_buffer_size())
            # Very many peers could request very much between two idle checks.
            if self._context.statistics.response_buffer_bytes > self._context.limits.response_buffer_bytes_max:
                self._context.abort_slow_readers()
        self._advance()

    def resume_writing(self) -> None:
        if self._state is not _LOST:
            self.responses.end_pause(self._transport.get_write_buffer_size())
        self.last_activity_ms = self._context.awake_ms
        if self._queue is not None:
            self._context.request_queue.schedule(self._queue)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything; queued requests are still processed, and the observer learns of the close after them."""
        del exc
        if self._state is _LOST:
            return
        context = self._context
        self._report_lost()
        self._state = _LOST
        if self._probe is not None:
            self._probe.cancel()
        self._close_reason = self._close_reason or CloseReason.PEER
        self.input.drop()
        self.responses.end_pause(0)
        context.statistics.connections[self._kind] -= 1
        context.statistics.closed[self._close_reason] += 1
        context.remove(self)
        if self._queue is not None:
            context.request_queue.schedule(self._queue)
        self._report_closed()

    # Called by handlers and the server

    def classify(self) -> None:
        """Let the peer be of the audience that its address, as a proxy gives it, has now."""
        audience_of, processor = self._context.audience_of, self._context.processor
        audience = 0 if audience_of is None else audience_of(self.peer)
        if audience or self.audience:
            self.input.read_with(processor.read_of(audience), partial(processor.new_reader, audience))
        self.audience = audience
        self.cache = processor.cache_of(audience)

    def close(self, reason: CloseReason) -> None:
        """End the connection; what is written to it already still leaves."""
        self._close_reason = self._close_reason or reason
        self.input.drop()
        self._close_transport()

    def finish(self, reason: CloseReason) -> None:
        """Read nothing more, and close when every request read before has its response."""
        if reason is CloseReason.PEER:
            self._report_lost()
        self._close_reason = self._close_reason or reason
        self._state = max(self._state, ConnectionState.FINISHING)
        self._advance()

    def abort(self, reason: CloseReason) -> None:
        """End the connection at once and write nothing more; its queued requests are still processed."""
        self._close_reason = self._close_reason or reason
        self._state = max(self._state, _CLOSING)
        self.responses.update(0)
        self._transport.abort()

    def probe(self) -> None:
        """Check within some seconds whether the peer's host still knows the connection; it is lost if not."""
        end = self._transport.get_extra_info("socket")
        # A worker has it: then the peer is no broker.
        if end is not None and self._state < _CLOSING and (self._probe is None or not self._probe.is_running):
            self._probe = TcpProbe(end)

    def update_response_buffer(self) -> int:
        """Return the bytes of responses that the peer has not read; fewer than before count as activity."""
        size = self._transport.get_write_buffer_size()
        if size < self.responses.bytes:
            self.last_activity_ms = self._context.awake_ms
        self.responses.update(size)
        return size

    def check_idle(self, now_ms: int, idle_ms_max: int) -> None:
        """Close the connection after `idle_ms_max` of silence, or of a partial frame; 0 only updates its buffer."""
        if self._state is _LOST:
            return
        buffered_bytes = self._transport.get_write_buffer_size()
        # Nearly always a peer has read everything.
        if buffered_bytes or self.responses.bytes or self.responses.pause:
            self._check_response_buffer()
        if not idle_ms_max:
            return
        if now_ms - self.last_activity_ms > idle_ms_max:
            self._close_reason = self._close_reason or (CloseReason.SLOW_READER if buffered_bytes else CloseReason.IDLE)
            self._close_transport()
            if buffered_bytes:
                # To a peer that does not read, the rest would never leave.
                self._transport.abort()
        elif (
            not self.input.is_plain
            and self._is_reading
            and (error := self.input.too_old(now_ms, idle_ms_max)) is not None
        ):
            self.reject(error)

    def _check_response_buffer(self) -> None:
        bytes_before = self.responses.bytes
        buffered_bytes = self.update_response_buffer()
        if self.responses.check_pause(bytes_before):
            self._context.observer.connection_paused(self, buffered_bytes)

    # Called by the request queue and the write batch

    @property
    def takes_responses(self) -> bool:
        """Whether requests may be processed; those of a lost connection may, though nobody reads the responses."""
        return not self.responses.pause

    def send(self, frame: bytes) -> None:
        """Write one or more frames; nothing if `frame` is empty or the connection is closing."""
        if self._state >= _CLOSING or not frame:
            return
        if (connection_filter := self.input.filter) is not None:
            frame = connection_filter.send(frame)
            if connection_filter.failed:
                self.abort(CloseReason.ERROR)
                return
        # Earlier responses leave earlier.
        self._context.write_batch.flush()
        self._context.statistics.sent_bytes += len(frame)
        self._transport.write(frame)

    def write_response(self, frame: bytes) -> None:
        """Hand a frame of the write batch to the socket, unless the connection is closing."""
        if self._state < _CLOSING:
            self._transport.write(frame)

    def request_finished(self) -> None:
        """Read on where too many requests were queued, and close where this was the last."""
        # A peer that does not read its responses stays idle, whatever is processed for it.
        if not self.responses.pause:
            self.last_activity_ms = self._context.awake_ms
        if not self._has_queued():
            self._queue = None
        self._advance()
        self._report_closed()

    def read_on(self) -> None:
        """Process the deferred frames, or the next `turn_bytes` of deferred bytes: one turn of this connection."""
        self.input.is_scheduled = False
        if self._is_blocked():
            return
        if frames := self.input.take_frames():
            self._process(frames, timer_ns())
        elif data := self.input.take_bytes(self._context.limits.turn_bytes):
            self.data_received(data)
        self._advance()

    # At a worker and back

    @property
    def may_move(self) -> bool:
        """Whether its socket may be read by a worker at some time; without a cache the server answers everything."""
        return self._state is _OPEN and self._kind is ConnectionKind.CLIENT and self.cache is not None

    @property
    def is_movable(self) -> bool:
        """Whether nothing is under way: it is read here, and nothing that came waits."""
        return (
            self.may_move
            and self._is_reading
            and self.input.is_plain
            and self._queue is None
            and not self.responses.pause
        )

    def hold_reading(self) -> None:
        self._transport.pause_reading()

    def read_again(self) -> None:
        """Undo `hold_reading`, unless there is another reason not to read."""
        if self._is_reading and self._state < _CLOSING:
            self._transport.resume_reading()

    def move_to(self, transport: "WorkerTransport") -> int:
        """Reach the peer by another transport; return a file descriptor of the socket. Raises OSError without one."""
        file = os.dup(self._transport.get_extra_info("socket").fileno())
        self._transport.set_protocol(asyncio.Protocol())
        self._transport.abort()
        self._transport = transport
        return file

    def come_back(self, transport: asyncio.Transport, written: bytes, rest: bytes) -> None:
        """Read the socket here again, by a transport that is paused, behind what a worker had read of it."""
        self._transport = transport
        transport.set_protocol(self)
        self._set_write_buffer_limits()
        if written:
            transport.write(written)
        if self.responses.pause:
            # The worker gave it away once all was written.
            self.resume_writing()
        if self._state >= _CLOSING:
            transport.close()
        elif self._is_reading:
            if not transport.is_reading():
                transport.resume_reading()
            if rest:
                self.data_received(rest)

    # Requests

    def _process(self, frames: Sequence[Received], began_ns: int) -> None:
        """Process or queue requests until the response buffer would be full; defer the rest."""
        context = self._context
        done = context.processor.process_frames(frames, self, context.limits.response_buffer_high_bytes, began_ns)
        if self._kind is ConnectionKind.UNKNOWN and isinstance(frames[0], CachedRequest):
            # Only clients send what is cached.
            self.kind = ConnectionKind.CLIENT
        if done < len(frames):
            self.input.defer_frames(frames[done:])
            self._advance()

    def enqueue(self, request: RemotingCommand) -> None:
        """Queue a request, or answer SYSTEM_BUSY if the queue is full; responses are ignored."""
        # The server sends no requests on these connections, so nobody waits for responses.
        if request.is_response:
            return
        queue = self._queue = self._queue or ConnectionQueue(self, self._context.limits)
        if not self._context.request_queue.put(request, queue):
            self.send(self._context.processor.busy_response(request, self))
            return
        # To make room an earlier request may have been answered, which was the last that waited.
        self._queue = queue
        if queue.is_full:
            self._advance()

    def _is_blocked(self) -> bool:
        """Return True while the peer has to read responses first, or its queued requests have to be processed."""
        return bool(self.responses.pause) or (self._queue is not None and self._queue.is_full)

    def _advance(self) -> None:
        """Do what the state requires: schedule deferred input, start or stop reading, close."""
        is_blocked, has_deferred = self._is_blocked(), self.input.has_deferred
        if has_deferred and not is_blocked and not self.input.is_scheduled:
            self.input.is_scheduled = True
            self._context.request_queue.schedule_read(self)
        wanted = self._state is _OPEN and not has_deferred and not is_blocked
        if wanted is not self._is_reading and self._state < _CLOSING:
            self._is_reading = wanted
            if wanted:
                self.input.restart_age(self._context.awake_ms)
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        if self._state is ConnectionState.FINISHING and not has_deferred and not self._has_queued():
            self._close_transport()

    def _has_queued(self) -> bool:
        return self._queue is not None and self._queue.pending > 0

    # Input that is no request yet

    def _filtered(self, connection_filter: ConnectionFilter, data: bytes) -> bytes:
        """Return the bytes of frames within `data`; drop the filter once the connection is plain."""
        try:
            data = connection_filter.receive(data)
        except FrameError as error:
            self.reject(error)
            return b""
        self._write_raw(connection_filter.take_output())
        # With TLS the filter stays, and its source with it.
        if connection_filter.source is not None and connection_filter.source != self.peer:
            self.peer = connection_filter.source
            self.classify()
        if connection_filter.is_plain:
            self.input.filter = None
        return data

    def reject(self, error: FrameError) -> None:
        """Report bytes that break the framing, drop them, and close when every request before them is answered."""
        if self._close_reason is None:
            self._context.statistics.rejected[Rejection(error.kind)] += 1
            self._context.observer.frame_rejected(self, error)
            self._write_raw(self.input.filter.take_output() if self.input.filter is not None else b"")
        # It may take long until the peer has read its responses.
        self.input.drop_bytes()
        self.finish(CloseReason.ERROR)

    def _write_raw(self, data: bytes) -> None:
        if data:
            self._context.statistics.sent_bytes += len(data)
            self._transport.write(data)

    # The end

    def _close_transport(self) -> None:
        if self._state >= _CLOSING:
            return
        self._context.write_batch.flush()
        self._state = _CLOSING
        self._write_raw(self.input.filter.close() if self.input.filter is not None else b"")
        self._transport.close()

    def _report_lost(self) -> None:
        """Report the loss of a peer with queued requests, whose turn may come late."""
        if self._close_reason is not CloseReason.PEER and self._has_queued():
            self._context.observer.connection_lost(self)

    def _report_closed(self) -> None:
        """Report the close of a lost connection once it has no queued requests."""
        if self._state is _LOST and self._close_reason is not None and not self._has_queued():
            self._context.observer.connection_closed(self, self._close_reason)


class PlainConnection(Connection):
    """A connection that came over a port on which everybody gets the plain answers."""

    __slots__ = ()

    def classify(self) -> None:
        """Stay of the plain audience."""
        self.cache = self._context.processor.cache
