"""The process of a worker: answers the requests that it knows on the connections it is given; passes on all others.

It decides nothing, so it opens no file, reads no option and logs nothing; it ends with its channel.
"""

import asyncio
import os
import signal
import socket
import sys
from time import process_time
from typing import Final, cast

import msgspec

from remoting.protocol.frame import PREFIX
from remoting.server.buffers import WriteBatch
from remoting.server.marks import Marks
from remoting.server.response_cache import ResponseCache, SharedResponse
from remoting.server.statistics import Histogram, ServerStatistics
from remoting.server.workers.channel import AUDIENCES, Answer, Channel, Kind, Report, Settings

#: Bytes of keys and bodies that are kept: for the plain audience, and for each other one.
_KEPT_BYTES_MAX: Final = 128 * 1024 * 1024
_AUDIENCE_BYTES_MAX: Final = 8 * 1024 * 1024
_RECEIVE_BYTES: Final = 256 * 1024
_REPORT_S: Final = 1.0
#: So many reports in a row without a beat of the server: it stands still, and what it knew may be long untrue.
_SILENT_REPORTS_MAX: Final = 5
_EXIT_SERVER_SILENT: Final = 75


class FrontConnection(asyncio.Protocol):
    """The socket of one peer; the server's `Connection` reaches it through the channel."""

    __slots__ = ("_is_returning", "_rest", "_transport", "_worker", "audience", "cache", "id", "is_active")

    def __init__(self, worker: "Worker", number: int, audience: int) -> None:
        self._worker = worker
        self.id = number
        self.audience = audience
        self.cache = worker.cache_of(audience)
        #: Whether the peer sent or read something since the last report.
        self.is_active = True
        self._is_returning = False
        #: What was read and goes back with the connection.
        self._rest = b""
        self._transport: asyncio.Transport

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = self._worker.settings
        self._transport.set_write_buffer_limits(settings.response_buffer_high_bytes, settings.response_buffer_low_bytes)
        self._worker.opened(self)

    def data_received(self, data: bytes) -> None:
        self.is_active = True
        if not self._take_request(data):
            self._split(data)

    def _take_request(self, frame: bytes) -> bool:
        """Answer a request that is known, or pass it on; return False for what is no short request."""
        worker = self._worker
        if (response := self.cache.reply(frame)) is not None:
            worker.statistics.received_bytes += len(frame)
            worker.batch.put(self, response)
        elif self.cache.missed_key is not None:
            worker.channel.send(Kind.REQUEST, self.id, frame)
        else:
            return False
        return True

    def _split(self, data: bytes) -> None:
        """Take requests that came together one by one; what is none goes back with the connection, and all behind it.

        So does what is more than a turn, as the server divides it into turns.
        """
        at = 0
        while PREFIX.size <= len(data) - at and len(data) <= self._worker.settings.turn_bytes:
            end = at + 4 + PREFIX.unpack_from(data, at)[0]
            if not at < end <= len(data) or not self._take_request(data[at:end]):
                break
            at = end
        if at < len(data):
            self._rest = data[at:]
            self.go_back()

    def eof_received(self) -> bool:
        self._worker.channel.send(Kind.ENDED, self.id)
        return True

    def pause_writing(self) -> None:
        if not self._is_returning:
            self._transport.pause_reading()
            self._worker.send_number(Kind.PAUSED, self.id, self.unread_bytes)

    def resume_writing(self) -> None:
        self.is_active = True
        if self._is_returning:
            self._leave()
        else:
            self._worker.send_number(Kind.RESUMED, self.id, self.unread_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self._worker.connections.pop(self.id, None) is not None:
            self._worker.channel.send(Kind.LOST, self.id)

    # Called for the server

    @property
    def unread_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def write_response(self, frame: bytes) -> None:
        self._transport.write(frame)

    def take_answer(self, answer: Answer) -> None:
        """Keep a response, and answer the request for which it came."""
        if answer.audience != self.audience:
            self.audience, self.cache = answer.audience, self._worker.cache_of(answer.audience)
        self._worker.statistics.received_bytes += len(answer.request)
        self._worker.batch.put(self, self.cache.keep(answer.request, self._worker.response_of(answer)))

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_returning:
            self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()

    def abort(self, _: object = None) -> None:
        self._transport.abort()

    def go_back(self) -> None:
        """Give the connection back to the server once all is written."""
        if self._is_returning:
            return
        self._is_returning = True
        self._transport.pause_reading()
        self._worker.batch.flush()
        if not self.unread_bytes:
            self._leave()
            return
        # The loop tells when nothing is left.
        self._transport.set_write_buffer_limits(0, 0)

    def _leave(self) -> None:
        if self._worker.connections.pop(self.id, None) is None:
            return
        file = os.dup(self._transport.get_extra_info("socket").fileno())
        self._transport.set_protocol(asyncio.Protocol())
        self._transport.abort()
        self._worker.channel.send(Kind.BACK, self.id, self._rest, file)


class Worker:
    def __init__(self, settings: Settings, marks: Marks, end: socket.socket) -> None:
        self.settings = settings
        self._marks = marks
        self._loop = asyncio.get_running_loop()
        self.statistics = ServerStatistics()
        self._latencies = self.statistics.latencies_of(settings.code)
        self._tally = Histogram(settings.tally_bounds)
        self.batch = WriteBatch(self._loop.call_soon, self._latencies, self.statistics)
        #: By audience; its numbers are never used again for others.
        self._caches: dict[int, ResponseCache] = {}
        self.connections: dict[int, FrontConnection] = {}
        #: Connections whose sockets are not read yet, with what came for them meanwhile.
        self._opening: dict[int, list[tuple[int, bytes]]] = {}
        self._cpu_s = process_time()
        # Not one more answer leaves after the server has ended.
        self.channel = Channel(end, self._received, lambda: os._exit(0), _RECEIVE_BYTES)

    async def run(self) -> None:
        """Serve until the channel ends, which ends the process, or the server stands still."""
        self.channel.send(Kind.READY, 0)
        beats, silent = -1, 0
        while silent < _SILENT_REPORTS_MAX:
            await asyncio.sleep(_REPORT_S)
            silent = silent + 1 if beats == self._marks.beats else 0
            beats = self._marks.beats
            self._report()
        os._exit(_EXIT_SERVER_SILENT)

    def cache_of(self, audience: int) -> ResponseCache:
        cache = self._caches.get(audience)
        if cache is None:
            # Those that had earlier numbers hold nothing that is true.
            generation, number = divmod(audience, AUDIENCES)
            self._caches = {each: kept for each, kept in self._caches.items() if each // AUDIENCES == generation}
            bytes_max = _AUDIENCE_BYTES_MAX if number else _KEPT_BYTES_MAX
            cache = self._caches[audience] = ResponseCache(self.settings.code, self.statistics, bytes_max)
        return cache

    def response_of(self, answer: Answer) -> SharedResponse:
        return SharedResponse(answer.body, self._tally, answer.ext_fields, self._marks, answer.mark, answer.value)

    def send_number(self, kind: Kind, connection: int, number: int) -> None:
        self.channel.send(kind, connection, number.to_bytes(8))

    def _received(self, kind: int, number: int, payload: bytes, file: int | None) -> None:
        if kind == Kind.TAKE:
            assert file is not None, "a connection comes with its socket"
            self._take(number, int.from_bytes(payload), file)
            return
        if kind == Kind.DRAIN:
            for cache in self._caches.values():
                cache.clear()
            return
        if (waiting := self._opening.get(number)) is not None:
            waiting.append((kind, payload))
            return
        connection = self.connections.get(number)
        if connection is not None:
            self._perform(kind, connection, payload)
        elif kind == Kind.WRITE:
            self.channel.send(Kind.UNWRITTEN, number, payload)

    def _perform(self, kind: int, connection: FrontConnection, payload: bytes) -> None:
        match kind:
            case Kind.WRITE:
                self.batch.flush()
                connection.write_response(payload)
            case Kind.ANSWER:
                connection.take_answer(msgspec.msgpack.decode(payload, type=Answer))
            case Kind.PAUSE_READING:
                connection.pause_reading()
            case Kind.RESUME_READING:
                connection.resume_reading()
            case Kind.CLOSE:
                self.batch.flush()
                connection.close()
            case Kind.ABORT:
                connection.abort()
            case Kind.RETURN:
                connection.go_back()

    def _take(self, number: int, audience: int, file: int) -> None:
        connection = FrontConnection(self, number, audience)
        self._opening[number] = []
        end = socket.socket(fileno=file)
        opened = self._loop.create_task(self._loop.connect_accepted_socket(lambda: connection, end))
        opened.add_done_callback(lambda task: self._not_opened(number) if task.exception() else None)

    def opened(self, connection: FrontConnection) -> None:
        self.connections[connection.id] = connection
        for kind, payload in self._opening.pop(connection.id):
            self._received(kind, connection.id, payload, None)

    def _not_opened(self, number: int) -> None:
        del self._opening[number]
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
    """Run a worker: `python -m remoting.server.workers.worker CHANNEL MARKS SETTINGS`; the first two are open files."""
    import uvloop  # noqa: PLC0415

    # Those who stop the server, or close its terminal, signal its workers too; they end after it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end, marks = (int(each) for each in sys.argv[1:3])
    settings = msgspec.json.decode(sys.argv[3], type=Settings)

    async def work() -> None:
        await Worker(settings, Marks(marks), socket.socket(fileno=end)).run()

    uvloop.run(work())


if __name__ == "__main__":
    main()
