"""One peer's connection: bytes in, requests carried out or queued, answers out, and when to stop reading or to close.

Answers to `NettyServerHandler`, `IdleStateHandler` and `NettyConnectManageHandler`. How bytes become frames, what
becomes of a request, and whose turn it is, are decided elsewhere; this is the contact with the event loop.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, cast

from remoting.protocol.codes import FLAG_RESPONSE
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError
from remoting.protocol.frame import FrameReader, decode
from remoting.server import probing
from remoting.server.connection_limit import network_of
from remoting.server.limits import ServerLimits
from remoting.server.observer import CloseReason, ConnectionKind, Rejection, ServerObserver
from remoting.server.partial_frame import UnfinishedFrame
from remoting.server.request_processor import Answers, Received
from remoting.server.request_queue import Lane, Turns
from remoting.server.response_cache import KnownRequest
from remoting.server.statistics import Latencies, ServerStatistics, timer_ns
from remoting.server.write_batch import Outbox
from remoting.transport.filter import Gate
from remoting.transport.preamble import host_and_port
from remoting.transport.tls import TlsContexts


class Host(Protocol):
    """What the connections of one server share."""

    limits: ServerLimits
    answers: Answers
    turns: Turns
    observer: ServerObserver
    statistics: ServerStatistics
    tls: TlsContexts | None
    #: Codes whose requests are answered at once, in the order read, and how long those took.
    urgent: dict[int, Latencies]
    #: Where the time is counted that requests take whose answer stood ready, and by what those answers leave.
    known_latencies: Latencies
    outbox: Outbox
    #: How long the server has been awake, in milliseconds; moves on with every look for idle connections.
    awake_ms: int

    def make_room(self) -> None:
        """Reject unfinished frames until all together are within their limit."""

    def make_room_for_answers(self) -> None:
        """Close slow readers until unread answers of all together are within their limit."""

    def admit(self, connection: "Connection") -> int | None:
        """Take a new connection and return its id, or None if there is no room."""

    def forget(self, connection: "Connection") -> None:
        """Let go of a connection that is lost."""


class Connection(asyncio.Protocol):
    """The server's end of one connection; handlers and observers know it as a `Peer`."""

    # Many thousands of these are idle at a time.
    __slots__ = (
        "_close_reason",
        "_ended",
        "_gate",
        "_host",
        "_is_plain",
        "_kind",
        "_lane",
        "_listed",
        "_lost",
        "_moved_ms",
        "_pause_told",
        "_probed",
        "_reader",
        "_reading",
        "_seen_paused",
        "_transport",
        "_unfinished",
        "_unread",
        "_unread_at",
        "_unsent_bytes",
        "_unwritable",
        "_waiting",
        "id",
        "network",
        "peer",
        "socket_peer",
    )

    def __init__(self, host: Host) -> None:
        self._host = host
        self.id = 0
        self.peer = self.socket_peer = "unknown"
        #: Where the other end is, whoever it speaks for.
        self.network = ""
        self._kind = ConnectionKind.UNKNOWN
        self._transport: asyncio.Transport
        self._gate: Gate | None = Gate(host.tls)
        #: Frames come unchanged, and none is unfinished.
        self._is_plain = False
        self._reader = self._new_reader()
        #: The requests that wait for their turn; made for the first.
        self._lane: Lane | None = None
        #: Requests and bytes that were received, but nothing was done about yet; no more are received meanwhile.
        self._waiting: Sequence[Received] = ()
        self._unread = b""
        self._unread_at = 0
        #: Stands among those that read on when it is their turn.
        self._listed = False
        #: Set once the connection is to end, when what was asked is answered.
        self._close_reason: CloseReason | None = None
        #: Nothing more is written.
        self._ended = False
        self._lost = False
        self._reading = True
        #: The peer leaves too many answers unread.
        self._unwritable = False
        self._pause_told = False
        #: It was so when last looked at.
        self._seen_paused = False
        #: When the peer last sent or took something, on the server's `awake_ms`.
        self._moved_ms = host.awake_ms
        self._unfinished = UnfinishedFrame(host.statistics)
        #: As of the last look.
        self._unsent_bytes = 0
        #: Ends the probe that is under way.
        self._probed: asyncio.TimerHandle | None = None

    @property
    def kind(self) -> ConnectionKind:
        """What the other end has shown itself to be."""
        return self._kind

    @kind.setter
    def kind(self, kind: ConnectionKind) -> None:
        if kind is not self._kind and not self._lost:
            self._host.statistics.connections[self._kind] -= 1
            self._host.statistics.connections[kind] += 1
        self._kind = kind

    @property
    def is_lost(self) -> bool:
        """Whether the peer is gone, or closed its side."""
        return self._lost or self._close_reason is CloseReason.PEER

    @property
    def moved_ms(self) -> int:
        """When the peer last sent or took something, on the server's `awake_ms`."""
        return self._moved_ms

    @property
    def said_host(self) -> str:
        """For which host the peer, or the proxy in between, says that it speaks."""
        return self.peer.rpartition(":")[0]

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is written."""
        return self._ended

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes came of a frame that is not whole."""
        return self._unfinished.bytes

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of answers the peer left unread, as of the last look."""
        return self._unsent_bytes

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or close it at once if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        if address:
            self.peer = self.socket_peer = host_and_port(address[0], address[1])
            self.network = network_of(address[0])
        number = self._host.admit(self)
        if number is None:
            self._lost = True
            self._transport.abort()
            return
        self.id = number
        limits = self._host.limits
        self._transport.set_write_buffer_limits(high=limits.unsent_bytes_high, low=limits.unsent_bytes_low)
        self._host.statistics.connections[self._kind] += 1
        self._host.observer.connection_opened(self)

    def data_received(self, data: bytes) -> None:
        """Carry out what the bytes ask for.

        uvloop reads into one buffer that all connections share and hands over exactly what came, so an idle
        connection has none of its own.
        """
        host = self._host
        # A long frame may come as it wants to: until it is whole there is nothing to do.
        if len(data) > host.limits.turn_bytes and (
            self._gate is not None or len(data) > self._reader.missing_bytes(data)
        ):
            self._put_aside(data)
            return
        self._moved_ms = host.awake_ms
        host.statistics.received_bytes += len(data)
        if not self._is_plain or not self._take_at_once(data):
            self._receive(data, timer_ns())

    def _take_at_once(self, data: bytes) -> bool:
        """Tell whether the bytes are what nearly all are, and done with: known route queries, or a heartbeat."""
        answers = self._host.answers
        if (known := answers.known) is not None and (answer := known.reply(data)) is not None:
            self._host.outbox.put(self, answer)
            return True
        # By its first request a connection shows whose it is.
        is_brokers = self._kind is ConnectionKind.BROKER
        return is_brokers and (notices := answers.notices) is not None and notices.take(data, self)

    def _receive(self, data: bytes, began_ns: int) -> None:
        if self._gate is not None:
            data = self._pass_gate(data)
        reader = self._reader
        frames = reader.receive(data)
        if frames:
            self._carry_out(frames, began_ns)
        # False for a plain connection whose frames come whole, which is nearly always.
        is_within = reader.unfinished_bytes or reader.skipped_bytes_left
        self._is_plain = not (is_within or self._gate is not None or reader.error)
        if not self._is_plain or self._unfinished.is_arriving:
            self._look_at_unfinished(len(frames))

    def eof_received(self) -> bool:
        """End the connection as soon as what the peer asked before is answered."""
        self._finish(CloseReason.PEER)
        return True

    def pause_writing(self) -> None:
        """Stop carrying out requests of a peer that does not read the answers."""
        self._unwritable = True
        if not self._lost:
            self._host.statistics.paused += 1
            self._host.statistics.pauses += 1
            # Very many peers could ask for very much between two looks.
            self._note_unsent(self._transport.get_write_buffer_size())
            if self._host.statistics.unsent_bytes > self._host.limits.unread_bytes_max:
                self._host.make_room_for_answers()
        self._go_on()

    def resume_writing(self) -> None:
        """Go on: the peer has read most of what it was sent."""
        self._unwritable = self._seen_paused = self._pause_told = False
        if not self._lost:
            self._host.statistics.paused -= 1
            self._note_unsent(self._transport.get_write_buffer_size())
        self._moved_ms = self._host.awake_ms
        if self._lane is not None:
            self._host.turns.list_(self._lane)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything; what waits for its turn is still carried out, and the close is told after it."""
        del exc
        if self._lost:
            return
        self._lost = self._ended = True
        if self._probed is not None:
            self._probed.cancel()
        host = self._host
        self._tell_lost()
        self._close_reason = self._close_reason or CloseReason.PEER
        self._drop_unread()
        self._unfinished.set(0, is_new=False, now_ms=host.awake_ms)
        self._note_unsent(0)
        host.statistics.paused -= self._unwritable
        host.statistics.connections[self._kind] -= 1
        host.statistics.closed[self._close_reason] += 1
        host.forget(self)
        if self._lane is not None:
            host.turns.list_(self._lane)
        self._tell_if_over()

    # Called by handlers and the server

    def close(self, reason: CloseReason) -> None:
        """End the connection; what is written to it already still leaves."""
        if self._close_reason is None:
            self._close_reason = reason
        self._drop_unread()
        self._close_transport()

    def close_when_answered(self) -> None:
        """Read nothing more, and end the connection when everything asked before is answered; the server stops."""
        self._finish(CloseReason.SHUTDOWN)

    def abort(self) -> None:
        """End the connection at once, whatever is not sent yet."""
        self._transport.abort()

    def break_off(self, reason: CloseReason) -> None:
        """End the connection at once, and write nothing more to it; what it asked is still carried out."""
        if self._close_reason is None:
            self._close_reason = reason
        self._ended = True
        # Nobody touches the transport between here and `connection_lost`.
        self._reading = False
        self._note_unsent(0)
        self._transport.abort()

    def probe(self) -> None:
        """Find out within some seconds whether the peer's host still knows the connection; lose it if not."""
        if self._ended or self._probed is not None:
            return
        with suppress(OSError):
            probing.begin(self._transport.get_extra_info("socket"))
        self._probed = asyncio.get_running_loop().call_later(probing.PROBE_S, self._end_probe)

    def _end_probe(self) -> None:
        self._probed = None
        if not self._ended:
            with suppress(OSError):
                probing.end(self._transport.get_extra_info("socket"))

    def look_at_unsent(self) -> int:
        """Note how many bytes of answers the peer has not taken, and that it moved if those are fewer; return them."""
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._moved_ms = self._host.awake_ms
        self._note_unsent(unsent_bytes)
        return unsent_bytes

    def look_for_progress(self, now_ms: int, silence_ms_max: int) -> None:
        """Close the connection if nothing moved for `silence_ms_max`, or if a frame has been unfinished for so long.

        With 0 it is only counted what is unsent.
        """
        if self._lost:
            return
        unsent_before = self._unsent_bytes
        unsent_bytes = self.look_at_unsent()
        if self._seen_paused and unsent_bytes == unsent_before and not self._pause_told:
            # Others are paused for a moment again and again, and read as fast as they can.
            self._pause_told = True
            self._host.observer.connection_paused(self, unsent_bytes)
        self._seen_paused = self._unwritable
        if not silence_ms_max:
            return
        if now_ms - self._moved_ms > silence_ms_max:
            self._close_reason = self._close_reason or (CloseReason.SLOW_READER if unsent_bytes else CloseReason.IDLE)
            # A peer that does not read would keep the farewell waiting for ever.
            self._close_transport()
            if unsent_bytes:
                self._transport.abort()
        elif self._reading and (age_ms := self._unfinished.age_ms(now_ms)) > silence_ms_max:
            self.reject(self._unfinished.too_old(age_ms))

    # Called by Turns

    @property
    def takes_answers(self) -> bool:
        """Whether requests may be carried out; those of a lost connection are, though nobody reads the answers."""
        return not self._unwritable or self._lost

    def send(self, frame: bytes) -> None:
        """Write frames, if there are any, and still somebody to read them."""
        if self._ended or not frame:
            return
        if self._gate is not None:
            frame = self._gate.send(frame)
            if self._gate.failed:
                self.break_off(CloseReason.ERROR)
                return
        # What was answered before leaves before.
        self._host.outbox.flush()
        self._host.statistics.sent_bytes += len(frame)
        self._transport.write(frame)

    def write_answer(self, frame: bytes) -> None:
        """Hand a frame of the outbox to the socket, if there is still somebody to read it."""
        if not self._ended:
            self._transport.write(frame)

    def request_finished(self) -> None:
        """Go on reading where too many requests waited, and end the connection where this was the last."""
        # Whose answers lie unread has to read, whatever else happens.
        if not self._unwritable:
            self._moved_ms = self._host.awake_ms
        self._go_on()
        self._tell_if_over()

    def read_on(self) -> None:
        """Carry out what waits, or what the next bytes ask for: one peer's share of a turn."""
        self._listed = False
        if self._is_blocked():
            return
        if self._waiting:
            frames, self._waiting = self._waiting, ()
            self._host.statistics.in_flight -= len(frames)
            self._carry_out(frames, timer_ns())
        elif self._unread:
            at = self._unread_at
            size = self._host.limits.turn_bytes
            if self._gate is None:
                size = max(size, self._reader.missing_bytes(self._unread[at : at + 4]))
            end = at + size
            piece = self._unread[at:end]
            self._unread_at = end
            if end >= len(self._unread):
                self._unread = b""
            self.data_received(piece)
        self._go_on()

    # Requests

    def _put_aside(self, data: bytes) -> None:
        """Keep very many bytes, and go through them in pieces."""
        assert not self._unread, "nothing is received while bytes are unread"
        self._unread, self._unread_at = data, 0
        self.read_on()

    def _carry_out(self, frames: Sequence[Received], began_ns: int) -> None:
        """Answer urgent requests and queue the others, until the peer has enough to read; the rest waits.

        All answers leave in one write, and one look at the time does for all.
        """
        unsent_bytes_max = self._host.limits.unsent_bytes_high
        answers: list[bytes] = []
        asked: list[Latencies] = []
        done = unsent_bytes = 0
        for done, frame in enumerate(frames, 1):  # noqa: B007  # tells below where it ended
            answer = self._answer(frame, asked)
            answers.append(answer)
            unsent_bytes += len(answer)
            if unsent_bytes > unsent_bytes_max:
                break
        self.send(answers[0] if len(answers) == 1 else b"".join(answers))
        if asked:
            Latencies.add_batch(asked, timer_ns() - began_ns)
        if self._kind is ConnectionKind.UNKNOWN and isinstance(frames[0], KnownRequest):
            # Who asks first what others have asked is a client.
            self.kind = ConnectionKind.CLIENT
        if done < len(frames):
            self._waiting = frames[done:]
            self._host.statistics.in_flight += len(self._waiting)
            self._go_on()

    def _answer(self, frame: Received, asked: list[Latencies]) -> bytes:
        """Return the answer to an urgent request, `b""` for one that waits for its turn."""
        if isinstance(frame, KnownRequest):
            answer = self._host.answers.ready(frame)
            if answer is not None:
                asked.append(self._host.known_latencies)
                return answer
            # Its answer stopped being true while it waited.
            frame = (decode(frame.data, frame.at, frame.length), None)
        return self._begin(*frame, asked)

    def _begin(self, request: RemotingCommand, key: bytes | None, asked: list[Latencies]) -> bytes:
        latencies = self._host.urgent.get(request.code)
        if latencies is None or request.flag & FLAG_RESPONSE:
            self._queue(request)
            return b""
        asked.append(latencies)
        answer = self._host.answers.begin(request, self, key)
        assert isinstance(answer, bytes), "an urgent request is answered at once"
        return answer

    def _queue(self, request: RemotingCommand) -> None:
        """Let a request wait for its turn, or tell its sender that there is no room."""
        # Nobody here sends requests on these connections, so nobody waits for responses.
        if request.is_response:
            return
        if self._lane is None:
            self._lane = Lane(self)
        if not self._host.turns.put(request, self._lane):
            self.send(self._host.answers.busy(request, self))
        elif self._lane_is_full():
            self._go_on()

    def _drop_unread(self) -> None:
        self._host.statistics.in_flight -= len(self._waiting)
        self._waiting, self._unread = (), b""

    def _lane_is_full(self) -> bool:
        lane, limits = self._lane, self._host.limits
        return lane is not None and (
            len(lane.requests) >= limits.queued_requests_per_connection
            or lane.body_bytes >= limits.queued_bytes_per_connection
        )

    def _is_blocked(self) -> bool:
        """Tell whether the peer has to take answers first, or its requests their turn."""
        return self._unwritable or self._lane_is_full()

    def _go_on(self) -> None:
        """Do what the state asks for: read on in a later turn, receive more or nothing, close."""
        has_more = bool(self._waiting or self._unread)
        is_blocked = self._is_blocked()
        if has_more and not is_blocked and not self._listed:
            self._listed = True
            self._host.turns.read_on_later(self)
        wanted = not (has_more or is_blocked or self._close_reason)
        if wanted is not self._reading:
            self._reading = wanted
            if wanted:
                # While nothing was received its frame could not go on.
                self._unfinished.restart(self._host.awake_ms)
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        self._close_if_answered()

    # Bytes that are no requests (yet)

    def _pass_gate(self, data: bytes) -> bytes:
        """Return the bytes of frames within `data`; without a gate from then on if the connection is plain."""
        gate = self._gate
        assert gate is not None, "the caller looked"
        try:
            data = gate.receive(data)
        except FrameError as error:
            self.reject(error)
            return b""
        self._write_raw(gate.take_output())
        if gate.source is not None:
            self.peer = gate.source
        if gate.is_plain:
            self._gate = None
        elif gate.ended:
            self._finish(CloseReason.PEER)
        return data

    def _look_at_unfinished(self, frames: int) -> None:
        """Keep account of a frame that is not whole yet, and end the connection if its bytes make no sense.

        So many `frames` were just read. If the only one is refused and not at its end, it is the one that had begun.
        """
        gate_bytes = self._gate.unfinished_bytes if self._gate is not None else 0
        refused_bytes_left = self._reader.skipped_bytes_left
        goes_on = frames == 1 and refused_bytes_left and self._unfinished.bytes
        self._unfinished.set(
            self._reader.unfinished_bytes + gate_bytes,
            is_new=bool(frames and not goes_on),
            now_ms=self._host.awake_ms,
            refused_bytes_left=refused_bytes_left,
        )
        if self._reader.error is not None:
            self.reject(self._reader.error)
        elif self._host.statistics.unfinished_bytes > self._host.limits.unfinished_bytes_max:
            self._host.make_room()

    def reject(self, error: FrameError) -> None:
        """Tell that the peer's bytes are not followed, and end the connection when what came before is answered."""
        if self._close_reason is None:
            self._host.statistics.rejected[Rejection(error.kind)] += 1
            self._host.observer.frame_rejected(self, error)
            if self._gate is not None:
                self._write_raw(self._gate.take_output())
        # It may take long until the peer has read what it is still owed.
        self._drop_unfinished()
        self._finish(CloseReason.ERROR)

    def _drop_unfinished(self) -> None:
        """Keep nothing of what will never be carried out."""
        self._unread = b""
        self._reader = self._new_reader()
        self._unfinished.set(0, is_new=False, now_ms=self._host.awake_ms)

    def _note_unsent(self, size: int) -> None:
        self._host.statistics.unsent_bytes += size - self._unsent_bytes
        self._unsent_bytes = size

    def _new_reader(self) -> FrameReader[Received]:
        answers = self._host.answers
        return FrameReader(answers.read, answers.read_pieces, self._host.limits.frame_bytes_max, answers.refuse)

    def _write_raw(self, data: bytes) -> None:
        if data:
            self._host.statistics.sent_bytes += len(data)
            self._transport.write(data)

    # The end

    def _finish(self, reason: CloseReason) -> None:
        """Read nothing more, and close when everything asked before is answered."""
        if reason is CloseReason.PEER:
            self._tell_lost()
        if self._close_reason is None:
            self._close_reason = reason
        self._go_on()

    def _close_if_answered(self) -> None:
        if self._close_reason is None or self._waiting or self._unread:
            return
        if self._lane is None or not self._lane.unfinished:
            self._close_transport()

    def _close_transport(self) -> None:
        if self._ended:
            return
        self._host.outbox.flush()
        self._ended = True
        if self._gate is not None:
            self._write_raw(self._gate.close())
        self._transport.close()

    def _tell_lost(self) -> None:
        """Tell that the peer is gone if what it asked is not done yet: that can wait long for its turn."""
        if self._close_reason is not CloseReason.PEER and self._lane is not None and self._lane.unfinished:
            self._host.observer.connection_lost(self)

    def _tell_if_over(self) -> None:
        """Tell that the connection is closed, once nothing that it asked for is left to do."""
        if self._lost and self._lane is not None and self._lane.unfinished:
            return
        if self._lost and self._close_reason is not None:
            self._lane = None
            self._host.observer.connection_closed(self, self._close_reason)
