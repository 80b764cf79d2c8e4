"""The server's side of its workers: starts them, gives them connections, and answers what they do not know.

A worker that ends is started again. Its connections are lost; their clients connect anew.
"""

import asyncio
import os
import socket
import subprocess
import sys
from enum import StrEnum
from operator import add
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from remoting.background_tasks import BackgroundTasks
from remoting.protocol.errors import FrameError
from remoting.protocol.frame import decode
from remoting.server.limits import ServerLimits
from remoting.server.marks import Marks, marks_file
from remoting.server.request_processor import RequestProcessor
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram, ServerStatistics
from remoting.server.workers.channel import AUDIENCES, Answer, Channel, Kind, Report, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

#: After its first answer a connection is given away, which takes 0.1 ms; after a pause if it is busy or was given back.
_MOVE_S: Final = 0.02
_WRITTEN_S: Final = 0.001
_MOVE_AGAIN_S: Final = 1.0
_BACK_S: Final = 10.0
#: A worker reports each second. One that does not gets no more connections; after some seconds in which this process
#: runs it is ended.
_LATE_MS_MAX: Final = 2_500
_SILENT_MS_MAX: Final = 5_000
#: How long a worker may take to start, how long the start of the server waits for all, and the pauses between starts
#: where one after the other fails.
_START_MS_MAX: Final = 60_000
_READY_S: Final = 10.0
_RESTART_S: Final = 1.0
_RESTART_S_MAX: Final = 30.0
_LONG_MS: Final = 60_000


class WorkerEnd(StrEnum):
    """Why a worker is there no longer."""

    #: Its process ended by itself, or was ended from outside.
    EXITED = "exited"
    #: This process ended it, as it no longer reported.
    SILENT = "silent"
    #: It could not be started.
    NOT_STARTED = "not_started"


class PooledServer(Protocol):
    """The server whose workers they are."""

    limits: ServerLimits
    processor: RequestProcessor
    statistics: ServerStatistics
    awake_ms: int


class WorkerTransport(asyncio.Transport):
    """The way to a peer whose socket a worker has; what a `Connection` uses of a transport.

    The worker itself stops reading where the peer does not read its answers.
    """

    def __init__(self, worker: "WorkerProcess", connection: Any) -> None:
        super().__init__()
        self._worker = worker
        self._connection = connection
        self.unread_bytes = 0
        #: What goes to the worker, or to the socket that it has given back, with what is sent next.
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def take_written(self) -> bytes:
        written, self.written = self.written, []
        return b"".join(written)

    def close(self) -> None:
        self._worker.send(Kind.CLOSE, self._connection.id)

    def abort(self) -> None:
        # Its place is free at once, however late the worker is.
        if self._worker.leave(self._connection.id):
            self._worker.send(Kind.ABORT, self._connection.id)
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def pause_reading(self) -> None:
        """Do nothing: the worker reads no more than it answers."""

    def resume_reading(self) -> None:
        """Do nothing, as above."""

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `default`: the socket is elsewhere."""
        del name
        return default


class WorkerProcess:
    """One worker, from its start to its end."""

    def __init__(self, pool: "WorkerPool", process: "subprocess.Popen[bytes]", end: socket.socket) -> None:
        self._pool = pool
        self.process = process
        self._connections: dict[int, tuple[Any, WorkerTransport]] = {}
        self.is_ready = False
        self.started_ms = self._reported_ms = pool.server.awake_ms
        self._end = WorkerEnd.EXITED
        self._channel = Channel(end, self._received, self._closed, pool.server.limits.turn_bytes)

    def __len__(self) -> int:
        """Return how many connections it has."""
        return len(self._connections)

    @property
    def takes_connections(self) -> bool:
        return self.is_ready and self._pool.server.awake_ms - self._reported_ms <= _LATE_MS_MAX

    def take(self, connection: Any) -> None:
        """Hand a connection over to this worker; raises OSError without room for another file."""
        transport = WorkerTransport(self, connection)
        file = connection.move_to(transport)
        self._connections[connection.id] = connection, transport
        audience = self._pool.audience_of(connection)
        self._channel.send(Kind.TAKE, connection.id, audience.to_bytes(8), file)

    def send(self, kind: Kind, number: int) -> None:
        self._channel.send(kind, number)

    def leave(self, number: int) -> bool:
        """Have a connection no longer; return False if it was not this worker's."""
        return self._connections.pop(number, None) is not None

    def check(self) -> None:
        """End the worker if it has not reported for too long."""
        silent_ms = self._pool.server.awake_ms - self._reported_ms
        if silent_ms > (_SILENT_MS_MAX if self.is_ready else _START_MS_MAX):
            self._end = WorkerEnd.SILENT
            self.close()

    def close(self) -> None:
        self._channel.close()

    def _received(self, kind: int, number: int, payload: bytes, file: int | None) -> None:
        if kind == Kind.READY:
            self.is_ready, self._reported_ms = True, self._pool.server.awake_ms
            self._pool.worker_ready()
        elif kind == Kind.REPORT:
            self._report(msgspec.msgpack.decode(payload, type=Report))
        elif (known := self._connections.get(number)) is not None:
            self._happened(kind, *known, payload, file)
        elif file is not None:
            # This connection was aborted meanwhile.
            os.close(file)

    def _happened(
        self, kind: int, connection: Any, transport: WorkerTransport, payload: bytes, file: int | None
    ) -> None:
        match kind:
            case Kind.REQUEST:
                self._request(connection, transport, payload)
            case Kind.PAUSED:
                transport.unread_bytes = int.from_bytes(payload)
                connection.pause_writing()
            case Kind.RESUMED:
                transport.unread_bytes = int.from_bytes(payload)
                connection.resume_writing()
            case Kind.LOST:
                self.leave(connection.id)
                connection.connection_lost(None)
            case Kind.BACK:
                self.leave(connection.id)
                self._pool.take_back(connection, transport, payload, file)

    def _request(self, connection: Any, transport: WorkerTransport, frame: bytes) -> None:
        """Answer a request, with what the worker needs to answer it the next time where that can be known."""
        pool, cache = self._pool, connection.cache
        pool.asked += 1
        found = None if cache is None else cache.find(frame, 0, len(frame))
        if found is not None and isinstance(found.prepared, PreparedResponse):
            prepared = found.prepared
            mark, value = prepared.shared(pool.marks)
            fields = None if prepared.ext_fields is None else dict(prepared.ext_fields)
            answer = Answer(pool.audience_of(connection), mark, value, fields, prepared.body)
            self._channel.send(Kind.ANSWER, connection.id, msgspec.msgpack.encode(answer))
        elif _code_of(frame) != pool.code:
            # It may take a while, or the peer is a broker.
            self._channel.send(Kind.RETURN, connection.id)
        else:
            try:
                connection.data_received(frame)
            finally:
                self._channel.send(Kind.DONE, connection.id, transport.take_written())

    def _report(self, report: Report) -> None:
        pool = self._pool
        statistics, now_ms = pool.server.statistics, pool.server.awake_ms
        self._reported_ms = now_ms
        pool.cpu_s += report.cpu_s
        statistics.received_bytes += report.received_bytes
        statistics.sent_bytes += report.sent_bytes
        statistics.prepared[pool.code] += report.answered
        latencies = statistics.latencies_of(pool.code)
        latencies.buckets[:] = map(add, latencies.buckets, report.latency_buckets)
        latencies.total_ns += report.latency_ns
        pool.tally.buckets[:] = map(add, pool.tally.buckets, report.tally_buckets)
        pool.tally.sum += report.tally_sum
        for number in report.active:
            if (known := self._connections.get(number)) is not None:
                known[0].last_activity_ms = now_ms
        for connection, transport in self._connections.values():
            transport.unread_bytes = report.unread.get(connection.id, 0)

    def _closed(self) -> None:
        connections = [connection for connection, _ in self._connections.values()]
        self._connections.clear()
        self._pool.worker_ended(self, self._end, len(connections))
        loop = asyncio.get_running_loop()
        for connection in connections:
            loop.call_soon(connection.connection_lost, None)


class WorkerPool:
    def __init__(self, server: PooledServer, count: int, code: int, tally: Histogram, tasks: BackgroundTasks) -> None:
        """Have `count` workers answer the requests of a code; responses count in `tally`, wherever they are sent."""
        self.server = server
        self.code = code
        self.tally = tally
        self._tasks = tasks
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._marks_file = marks_file()
        self.marks = Marks(self._marks_file)
        self._workers: list[WorkerProcess] = []
        self._restart_s = _RESTART_S
        self._generation = 0
        self._is_closing = False
        self._ready = asyncio.Event()
        #: Called with how a worker ended, its process id and exit code, and how many connections it had.
        self.report_end: Callable[[WorkerEnd, int, int, int], None] = lambda *_: None
        #: Workers that ended, requests that they asked the server, and their processor time, since the start.
        self.ended = 0
        self.asked = 0
        self.cpu_s = 0.0

    @property
    def workers(self) -> list[WorkerProcess]:
        return [each for each in self._workers if each.is_ready]

    @property
    def are_ready(self) -> bool:
        return len(self.workers) == self._count

    @property
    def connections(self) -> int:
        return sum(map(len, self._workers))

    async def start(self) -> None:
        """Start the workers and wait until they serve, for some seconds at most: they may come later."""
        for _ in range(self._count):
            self._start_one()
        try:
            async with asyncio.timeout(_READY_S):
                await self._ready.wait()
        except TimeoutError:
            return

    def became_client(self, connection: Any) -> None:
        """Give a connection to a worker as soon as nothing of it is under way, unless TLS keeps it here."""
        if connection.input.filter is None:
            self._loop.call_later(_MOVE_S, self._start_move, connection)

    def audience_of(self, connection: Any) -> int:
        return self._generation * AUDIENCES + int(connection.audience)

    def reclassified(self) -> None:
        """Take the numbers of audiences for others than before."""
        self._generation += 1

    def drain(self) -> None:
        """Have the server asked for every request from now on."""
        self.marks.move_all()

    def check(self) -> None:
        """Show the workers that this process runs, and end those that do not."""
        self.marks.beat()
        for worker in list(self._workers):
            worker.check()

    async def close(self) -> None:
        """End the workers; the server has closed their connections."""
        self._is_closing = True
        for worker in list(self._workers):
            worker.close()
            worker.process.kill()
            await asyncio.to_thread(worker.process.wait)

    def take_back(self, connection: Any, away: WorkerTransport, rest: bytes, file: int | None) -> None:
        """Read a connection here again, after the bytes that a worker had read; close it if there is no socket."""
        if file is None:
            connection.connection_lost(None)
            return
        self._tasks.start(self._taken_back(connection, away, rest, file), "take_connection_back")

    # Called by workers

    def worker_ready(self) -> None:
        if self.are_ready:
            self._ready.set()

    def worker_ended(self, worker: WorkerProcess, end: WorkerEnd, connections: int) -> None:
        if self._is_closing:
            return
        self._workers.remove(worker)
        if self.server.awake_ms - worker.started_ms > _LONG_MS:
            self._restart_s = _RESTART_S
        self._tasks.start(self._report_end(worker, end, connections), "report_worker_end")
        self._start_later()

    async def _report_end(self, worker: WorkerProcess, end: WorkerEnd, connections: int) -> None:
        if end is not WorkerEnd.EXITED:
            worker.process.kill()
        code = await asyncio.to_thread(worker.process.wait)
        self.ended += 1
        self.report_end(end, worker.process.pid, code, connections)

    def _start_later(self) -> None:
        self._loop.call_later(self._restart_s, self._start_one)
        self._restart_s = min(2 * self._restart_s, _RESTART_S_MAX)

    def _start_one(self) -> None:
        if self._is_closing:
            return
        try:
            self._workers.append(self._started())
        except OSError as error:
            self.report_end(WorkerEnd.NOT_STARTED, 0, error.errno or 0, 0)
            self._start_later()

    def _started(self) -> WorkerProcess:
        limits = self.server.limits
        settings = Settings(
            code=self.code,
            response_buffer_high_bytes=limits.response_buffer_high_bytes,
            response_buffer_low_bytes=limits.response_buffer_low_bytes,
            turn_bytes=limits.turn_bytes,
            tally_bounds=tuple(self.tally.bounds),
        )
        own, other = socket.socketpair()
        files = other.fileno(), self._marks_file
        # -P: modules come from where this process has them, whatever the working directory holds.
        command = [sys.executable, "-P", "-m", "remoting.server.workers.worker", *map(str, (*files, os.getpid()))]
        try:
            process = subprocess.Popen(  # noqa: S603  # this Python, and a module of ours
                [*command, msgspec.json.encode(settings).decode()],
                stdin=subprocess.DEVNULL,
                pass_fds=files,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError:
            own.close()
            raise
        finally:
            other.close()
        return WorkerProcess(self, process, own)

    # Connections to workers and back

    def _start_move(self, connection: Any) -> None:
        if not self._is_closing:
            self._tasks.start(self._move(connection), "move_connection")

    async def _move(self, connection: Any) -> None:
        while not self._is_closing and connection.may_move:
            # A worker waits for the answer to a request, so that has to come at once.
            if connection.is_movable and self._least() is not None and self.server.processor.is_urgent(self.code):
                connection.hold_reading()
                # What was answered leaves first.
                await asyncio.sleep(_WRITTEN_S)
                if self._give(connection):
                    return
                connection.read_again()
            await asyncio.sleep(_MOVE_AGAIN_S)

    def _least(self) -> WorkerProcess | None:
        """Return the worker with the fewest connections; None if none takes any."""
        return min((each for each in self._workers if each.takes_connections), key=len, default=None)

    def _give(self, connection: Any) -> bool:
        """Give a connection of which nothing is under way to a worker; return False if it stays."""
        worker = self._least()
        if worker is None or not connection.is_movable or connection.update_response_buffer():
            return False
        try:
            worker.take(connection)
        except OSError:
            # No room for another file.
            return False
        return True

    async def _taken_back(self, connection: Any, away: WorkerTransport, rest: bytes, file: int) -> None:
        gate, end = _Gate(), socket.socket(fileno=file)
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: gate, end)
        except Exception:
            connection.connection_lost(None)
            raise
        if transport.is_closing():
            # The peer reset it: the gate was told, or is to be.
            connection.connection_lost(None)
            return
        transport.pause_reading()
        connection.come_back(transport, away.take_written(), rest + gate.data)
        if gate.is_ended:
            connection.eof_received()
        self._loop.call_later(_BACK_S, self._start_move, connection)


class _Gate(asyncio.Protocol):
    """Keeps what is read of a socket until its transport is paused."""

    def __init__(self) -> None:
        self.data = b""
        self.is_ended = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.is_ended = True
        return True


def _code_of(frame: bytes) -> int | None:
    """Return the code of a request; None if it is none."""
    try:
        request = decode(frame, 0, len(frame) - 4)
    except FrameError:
        return None
    return None if request.is_response else request.code
