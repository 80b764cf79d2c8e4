"""The process of a worker: answers the requests that it knows on the connections it is given, and asks for the others.

It decides nothing, so it opens no file, reads no option and logs nothing; it ends with its server.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections import deque
from time import process_time
from typing import Final, cast

import msgspec

from remoting.background_tasks import start_task
from remoting.protocol.frame import PREFIX
from remoting.server.buffers import WriteBatch
from remoting.server.marks import Marks
from remoting.server.response_cache import ResponseCache, SharedResponse
from remoting.server.statistics import Histogram, ServerStatistics, timer_ns
from remoting.server.workers.channel import AUDIENCES, Answer, Channel, Kind, Report, Settings

#: Requests that the server is asked at a time. After a change of a route all clients of it want the new one: the first
#: answers are kept, and the others find them.
_ASKED_MAX: Final = 64
#: Bytes of keys and bodies that are kept: for the plain audience, and for each other one.
_KEPT_BYTES_MAX: Final = 128 * 1024 * 1024
_AUDIENCE_BYTES_MAX: Final = 8 * 1024 * 1024
_RECEIVE_BYTES: Final = 256 * 1024
_REPORT_S: Final = 1.0
#: So many reports in a row without a beat of the server: it stands still, and what it knew may be long untrue.
_SILENT_REPORTS_MAX: Final = 5
EXIT_SERVER_SILENT: Final = 75
#: Of prctl(2).
_PR_SET_PDEATHSIG: Final = 1


class FrontConnection(asyncio.Protocol):
    """The socket of one peer; the server's `Connection` reaches it through the channel."""

    __slots__ = (
        "_is_ended",
        "_is_full",
        "_is_reading",
        "_is_returning",
        "_is_waiting",
        "_rest",
        "_transport",
        "_worker",
        "asked",
        "audience",
        "cache",
        "id",
        "is_active",
    )

    def __init__(self, worker: "Worker", number: int, audience: int) -> None:
        self._worker = worker
        self.id = number
        self.audience = audience
        self.cache = worker.cache_of(audience)
        #: Whether the peer sent or read something since the last report.
        self.is_active = True
        #: Bytes that were read and are not processed; nothing more is read until they are.
        self._rest = b""
        #: The frame that the server is asked, or will be.
        self.asked = b""
        #: Whether an answer, or a turn, is waited for; whether the peer has to read first.
        self._is_waiting = self._is_full = False
        #: Whether the socket goes back to the server once all is written; whether the peer closed its side.
        self._is_returning = self._is_ended = False
        self._is_reading = True
        self._transport: asyncio.Transport

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = self._worker.settings
        self._transport.set_write_buffer_limits(settings.response_buffer_high_bytes, settings.response_buffer_low_bytes)
        self._worker.opened(self)

    def data_received(self, data: bytes) -> None:
        self.is_active = True
        response = self.cache.reply(data)
        if response is None:
            self._rest += data
            self._go_on()
            return
        worker = self._worker
        worker.statistics.received_bytes += len(data)
        worker.batch.put(self, response)

    def eof_received(self) -> bool:
        self._is_ended = True
        self._go_on()
        return True

    def pause_writing(self) -> None:
        self._is_full = True
        if not self._is_returning:
            self._worker.send_number(Kind.PAUSED, self.id, self.unread_bytes)
        self._follow()

    def resume_writing(self) -> None:
        self.is_active = True
        self._is_full = False
        if self._is_returning:
            self._leave()
            return
        self._worker.send_number(Kind.RESUMED, self.id, self.unread_bytes)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._worker.closed(self)

    # Requests

    @property
    def _is_blocked(self) -> bool:
        return self._is_waiting or self._is_full or self._is_returning

    def _go_on(self) -> None:
        """Process what was read, one turn of it, and then do what the state requires."""
        at, data, began_ns = 0, self._rest, timer_ns()
        settings = self._worker.settings
        responses: list[bytes] = []
        size = 0
        asked = b""
        while at < len(data) and not self._is_blocked:
            if at >= settings.turn_bytes or size > settings.response_buffer_high_bytes:
                self._is_waiting = True
                self._worker.call_soon(self._turn_came)
                break
            end = at + 4 + PREFIX.unpack_from(data, at)[0] if len(data) - at >= PREFIX.size else 0
            frame = data[at:end]
            if at < end <= len(data) and (response := self.cache.reply(frame)) is not None:
                responses.append(response)
                size += len(response)
            elif at < end <= len(data) and self.cache.missed_key is not None:
                asked = self.asked = frame
                self._is_waiting = True
            else:
                # No short request: the server reads it.
                self._is_returning = True
                break
            at = end
        self._rest = data[at:]
        if responses:
            self._worker.write_together(self, responses, at - len(asked), began_ns)
        if asked:
            self._worker.ask(self)
        self._follow()

    def _turn_came(self) -> None:
        self._is_waiting = False
        self._go_on()

    def _follow(self) -> None:
        """Start or stop reading, close, or give the socket back, as the state requires."""
        if self._transport.is_closing():
            return
        wanted = not (self._is_blocked or self._rest or self._is_ended)
        if wanted is not self._is_reading:
            self._is_reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()
        if self._is_returning:
            self._worker.batch.flush()
            if self.unread_bytes:
                # The loop tells when nothing is left.
                self._transport.set_write_buffer_limits(0, 0)
            else:
                self._leave()
        elif self._is_ended and not self._is_blocked and not self._rest:
            self.close()

    # Called for the server

    @property
    def unread_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def ask_again(self) -> bool:
        """Return True if the server still has to be asked; else it is answered, by what others asked for."""
        if (response := self.cache.reply(self.asked)) is None:
            return True
        self._worker.statistics.received_bytes += len(self.asked)
        self._worker.batch.put(self, response)
        self._proceed()
        return False

    def take_answer(self, answer: Answer) -> None:
        """Keep a response, and answer the request for which it came."""
        if answer.audience != self.audience:
            self.audience, self.cache = answer.audience, self._worker.cache_of(answer.audience)
        self._worker.statistics.received_bytes += len(self.asked)
        self._worker.batch.put(self, self.cache.keep(self.asked, self._worker.response_of(answer)))
        self._proceed()

    def take_bytes(self, data: bytes) -> None:
        """Write what the server answered to the request."""
        if data:
            self._worker.batch.flush()
            self.write_response(data)
        self._proceed()

    def _proceed(self) -> None:
        self._is_waiting, self.asked = False, b""
        self._go_on()

    def write_response(self, frame: bytes) -> None:
        self._transport.write(frame)

    def close(self) -> None:
        self._worker.batch.flush()
        self._transport.close()

    def abort(self, _: object = None) -> None:
        self._transport.abort()

    def go_back(self) -> None:
        """Give the socket back, with the request that the server has to read."""
        self._rest = self.asked + self._rest
        self._is_waiting, self.asked = False, b""
        self._is_returning = True
        self._follow()

    def _leave(self) -> None:
        try:
            file = os.dup(self._transport.get_extra_info("socket").fileno())
        except OSError:
            # No room for another file.
            self.abort()
            return
        self._worker.connections.pop(self.id, None)
        self._transport.set_protocol(asyncio.Protocol())
        self._transport.abort()
        self._worker.channel.send(Kind.BACK, self.id, self._rest, file)


class Worker:
    def __init__(self, settings: Settings, marks: Marks, end: socket.socket) -> None:
        self.settings = settings
        self._marks = marks
        self._loop = asyncio.get_running_loop()
        self.call_soon = self._loop.call_soon
        self.statistics = ServerStatistics()
        self._latencies = self.statistics.latencies_of(settings.code)
        self._tally = Histogram(settings.tally_bounds)
        self.batch = WriteBatch(self._loop.call_soon, self._latencies, self.statistics)
        #: By audience; its numbers are never used again for others.
        self._caches: dict[int, ResponseCache] = {}
        self.connections: dict[int, FrontConnection] = {}
        #: Connections whose sockets are not read yet, and whether they are to be closed.
        self._opening: dict[int, bool] = {}
        #: Those with a request at the server, and those that have to ask.
        self._asking: set[int] = set()
        self._to_ask: deque[FrontConnection] = deque()
        self._is_asking_next = False
        self._cpu_s = process_time()
        # Not one more answer leaves after the server has ended.
        self.channel = Channel(end, self._received, lambda: os._exit(0), _RECEIVE_BYTES)

    async def run(self) -> None:
        """Serve until the server ends, or stands still; then the process ends."""
        self.channel.send(Kind.READY, 0)
        beats, silent = 0, 0
        while silent < _SILENT_REPORTS_MAX:
            await asyncio.sleep(_REPORT_S)
            # Before the first one the server starts.
            silent = silent + 1 if beats and beats == self._marks.beats else 0
            beats = self._marks.beats
            self._report()
        os._exit(EXIT_SERVER_SILENT)

    def cache_of(self, audience: int) -> ResponseCache:
        cache = self._caches.get(audience)
        if cache is None:
            generation, number = divmod(audience, AUDIENCES)
            # Earlier generations hold nothing that is valid.
            for other in [each for each in self._caches if each // AUDIENCES != generation]:
                self._caches.pop(other).clear()
            bytes_max = _AUDIENCE_BYTES_MAX if number else _KEPT_BYTES_MAX
            cache = self._caches[audience] = ResponseCache(self.settings.code, self.statistics, bytes_max)
        return cache

    def response_of(self, answer: Answer) -> SharedResponse:
        return SharedResponse(answer.body, self._tally, answer.ext_fields, self._marks, answer.mark, answer.value)

    def send_number(self, kind: Kind, connection: int, number: int) -> None:
        self.channel.send(kind, connection, number.to_bytes(8))

    def write_together(
        self, connection: FrontConnection, responses: list[bytes], request_bytes: int, began_ns: int
    ) -> None:
        """Write the responses to requests of so many bytes that came together."""
        self.batch.flush()
        data = b"".join(responses)
        self.statistics.received_bytes += request_bytes
        self.statistics.sent_bytes += len(data)
        connection.write_response(data)
        self._latencies.add(timer_ns() - began_ns, len(responses))

    # Requests that are not known

    def ask(self, connection: FrontConnection) -> None:
        """Ask the server for a request, when its turn comes."""
        self._to_ask.append(connection)
        self._ask_next()

    def _ask_next(self) -> None:
        if self._is_asking_next:
            # A connection that goes on has the next question: the loop below comes to it.
            return
        self._is_asking_next = True
        try:
            while self._to_ask and len(self._asking) < _ASKED_MAX:
                connection = self._to_ask.popleft()
                if connection.id in self.connections and connection.ask_again():
                    self._asking.add(connection.id)
                    self.channel.send(Kind.REQUEST, connection.id, connection.asked)
        finally:
            self._is_asking_next = False

    def _answered(self, number: int) -> None:
        self._asking.discard(number)
        self._ask_next()

    # Connections

    def opened(self, connection: FrontConnection) -> None:
        self.connections[connection.id] = connection
        if self._opening.pop(connection.id):
            connection.abort()

    def closed(self, connection: FrontConnection) -> None:
        if self.connections.pop(connection.id, None) is not None:
            self._answered(connection.id)
            self.channel.send(Kind.LOST, connection.id)

    def _received(self, kind: int, number: int, payload: bytes, file: int | None) -> None:
        if kind == Kind.TAKE:
            self._take(number, int.from_bytes(payload), file)
        elif number in self._opening:
            # Nothing was asked yet, so it is to be closed.
            self._opening[number] = True
        elif (connection := self.connections.get(number)) is not None:
            self._perform(kind, connection, payload)

    def _perform(self, kind: int, connection: FrontConnection, payload: bytes) -> None:
        if kind == Kind.CLOSE:
            connection.close()
            return
        if kind == Kind.ABORT:
            connection.abort()
            return
        if kind == Kind.ANSWER:
            connection.take_answer(msgspec.msgpack.decode(payload, type=Answer))
        elif kind == Kind.DONE:
            connection.take_bytes(payload)
        elif kind == Kind.RETURN:
            connection.go_back()
        self._answered(connection.id)

    def _take(self, number: int, audience: int, file: int | None) -> None:
        if file is None:
            self.channel.send(Kind.LOST, number)
            return
        connection = FrontConnection(self, number, audience)
        self._opening[number] = False
        end = socket.socket(fileno=file)
        opened = start_task(self._loop.connect_accepted_socket(lambda: connection, end))
        opened.add_done_callback(lambda task: self._not_opened(number) if task.exception() else None)

    def _not_opened(self, number: int) -> None:
        if self._opening.pop(number, None) is not None:
            self.channel.send(Kind.LOST, number)

    def _report(self) -> None:
        statistics, latencies, tally = self.statistics, self._latencies, self._tally
        code = self.settings.code
        active: list[int] = []
        unread: dict[int, int] = {}
        for connection in self.connections.values():
            if connection.is_active:
                connection.is_active = False
                active.append(connection.id)
            if size := connection.unread_bytes:
                unread[connection.id] = size
        cpu_s = process_time()
        report = Report(
            cpu_s=cpu_s - self._cpu_s,
            received_bytes=statistics.received_bytes,
            sent_bytes=statistics.sent_bytes,
            answered=statistics.prepared[code],
            latency_buckets=latencies.buckets,
            latency_ns=latencies.total_ns,
            tally_buckets=tally.buckets,
            tally_sum=tally.sum,
            active=active,
            unread=unread,
        )
        self.channel.send(Kind.REPORT, 0, msgspec.msgpack.encode(report))
        self._cpu_s = cpu_s
        statistics.received_bytes = statistics.sent_bytes = statistics.prepared[code] = 0
        latencies.buckets, latencies.total_ns = [0] * len(latencies.buckets), 0
        tally.buckets, tally.sum = [0] * len(tally.buckets), 0.0


def main() -> None:
    """Run a worker: `python -m remoting.server.workers.worker CHANNEL MARKS SERVER SETTINGS`.

    The first two are open files, the third is the process id of the server.
    """
    import uvloop  # noqa: PLC0415

    # Those who stop the server, or close its terminal, signal its workers too; they end after it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Also if this process is stopped when the server ends, and goes on when another one serves.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A worker that is woken waits until whoever runs on its core waits, often the client that woke it. Without this
    # they take turns at every request, which costs a fifth of the rate where cores are short.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    end, marks, server = (int(each) for each in sys.argv[1:4])
    if os.getppid() != server:
        return
    settings = msgspec.json.decode(sys.argv[4], type=Settings)

    async def work() -> None:
        await Worker(settings, Marks(marks), socket.socket(fileno=end)).run()

    uvloop.run(work())


if __name__ == "__main__":
    main()
