"""The server's side of its workers: starts them, gives them connections, and treats what they pass on as its own.

A worker that ends is started again. Its connections are lost; their clients connect anew.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from operator import add
from typing import Any, Final, Protocol

import msgspec

from remoting.background_tasks import BackgroundTasks
from remoting.server.buffers import abort_after_fault
from remoting.server.limits import ServerLimits
from remoting.server.marks import Marks, marks_file
from remoting.server.observer import ConnectionKind
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram, ServerStatistics
from remoting.server.workers.channel import AUDIENCES, Answer, Channel, Kind, Report, Settings

#: After its first answer a connection is given away, which takes 0.1 ms; later if it is busy, or no worker is there.
_MOVE_S: Final = 0.02
_MOVE_LATER_S: Final = 1.0
_WRITTEN_S: Final = 0.001
#: A worker reports each second. One that does not for so long, while this process runs, is ended.
_SILENT_MS_MAX: Final = 5_000
#: The pause before a worker is started again, unless the last one ended long after its start.
_RESTART_S: Final = 1.0
_LONG_MS: Final = 10_000
#: How long a start waits for the workers.
_READY_S: Final = 10.0


class PooledServer(Protocol):
    """The server whose workers they are."""

    limits: ServerLimits
    statistics: ServerStatistics
    awake_ms: int

    @property
    def connections(self) -> Mapping[int, Any]: ...


class WorkerTransport(asyncio.Transport):
    """The way to a peer whose socket a worker has; what a `Connection` uses of a transport."""

    def __init__(self, worker: "WorkerProcess", number: int) -> None:
        super().__init__()
        self._worker = worker
        self._number = number
        self.unread_bytes = 0
        #: What goes to the socket first that the worker has given back.
        self.unwritten: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._number in self._worker.connections:
            self._worker.channel.send(Kind.WRITE, self._number, bytes(data))
        else:
            self.unwritten.append(bytes(data))

    def close(self) -> None:
        self._send(Kind.CLOSE)

    def abort(self) -> None:
        self._send(Kind.ABORT)

    def pause_reading(self) -> None:
        self._send(Kind.PAUSE_READING)

    def resume_reading(self) -> None:
        self._send(Kind.RESUME_READING)

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return `default`: the socket is elsewhere."""
        del name
        return default

    def _send(self, kind: Kind) -> None:
        # Without the worker the `Connection` sees to it when it has the socket again.
        if self._number in self._worker.connections:
            self._worker.channel.send(kind, self._number)


class WorkerProcess:
    """One worker, from its start to its end."""

    def __init__(self, pool: "WorkerPool", process: "subprocess.Popen[bytes]", end: socket.socket) -> None:
        self._pool = pool
        self.process = process
        self.connections: dict[int, tuple[Any, WorkerTransport]] = {}
        self.is_ready = False
        self.started_ms = self.reported_ms = pool.server.awake_ms
        self.channel = Channel(end, self._received, self._closed, pool.server.limits.turn_bytes)

    def take(self, connection: Any, audience: int) -> None:
        """Have it serve a connection from now on; raises OSError without room for another file."""
        transport = WorkerTransport(self, connection.id)
        file = connection.move_to(transport)
        self.connections[connection.id] = connection, transport
        self.channel.send(Kind.TAKE, connection.id, audience.to_bytes(8), file)

    def _received(self, kind: int, number: int, payload: bytes, file: int | None) -> None:
        if kind == Kind.READY:
            self._pool.worker_ready(self)
        elif kind == Kind.REPORT:
            self._report(msgspec.msgpack.decode(payload, type=Report))
        elif kind == Kind.UNWRITTEN:
            if (connection := self._pool.server.connections.get(number)) is not None:
                connection.write_response(payload)
        elif (known := self.connections.get(number)) is not None:
            connection, transport = known
            try:
                self._happened(kind, connection, transport, payload, file)
            except Exception as error:  # noqa: BLE001  # whatever it is, it ends this connection only
                abort_after_fault(connection, "what a worker passed on cannot be processed", error)

    def _happened(
        self, kind: int, connection: Any, transport: WorkerTransport, payload: bytes, file: int | None
    ) -> None:
        match kind:
            case Kind.REQUEST:
                self._request(connection, payload)
            case Kind.PAUSED:
                transport.unread_bytes = int.from_bytes(payload)
                connection.pause_writing()
            case Kind.RESUMED:
                transport.unread_bytes = int.from_bytes(payload)
                connection.resume_writing()
            case Kind.ENDED:
                connection.eof_received()
            case Kind.LOST:
                del self.connections[connection.id]
                connection.connection_lost(None)
            case Kind.BACK:
                assert file is not None, "a connection comes back with its socket"
                del self.connections[connection.id]
                self._pool.tasks.start(_taken_back(connection, transport, payload, file), "take_connection_back")

    def _request(self, connection: Any, frame: bytes) -> None:
        """Answer a request, with what the worker needs to answer it the next time if that can be known."""
        pool = self._pool
        cache = connection.cache
        found = None if cache is None or connection.is_closing else cache.find(frame, 0, len(frame))
        if found is not None and isinstance(found.prepared, PreparedResponse):
            prepared = found.prepared
            mark, value = prepared.shared(pool.marks)
            audience, fields = pool.audience_of(connection), prepared.ext_fields
            answer = Answer(audience, mark, value, dict(fields) if fields is not None else None, prepared.body, frame)
            self.channel.send(Kind.ANSWER, connection.id, msgspec.msgpack.encode(answer))
            return
        pool.passed_on += 1
        connection.data_received(frame)

    def _report(self, report: Report) -> None:
        pool = self._pool
        statistics, now_ms = pool.server.statistics, pool.server.awake_ms
        self.reported_ms = now_ms
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
            if (known := self.connections.get(number)) is not None:
                known[0].last_activity_ms = now_ms
        for connection, transport in self.connections.values():
            transport.unread_bytes = report.unread.get(connection.id, 0)

    def _closed(self) -> None:
        self.process.kill()
        connections = [connection for connection, _ in self.connections.values()]
        self.connections.clear()
        for connection in connections:
            connection.connection_lost(None)
        self._pool.worker_ended(self, len(connections))


class WorkerPool:
    def __init__(
        self,
        server: PooledServer,
        count: int,
        code: int,
        tally: Histogram,
        tasks: BackgroundTasks,
    ) -> None:
        """Have `count` workers answer the requests of a code; responses count in `tally`, wherever they are sent."""
        self.server = server
        self.code = code
        self.tally = tally
        self.tasks = tasks
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._marks_file = marks_file()
        self.marks = Marks(self._marks_file)
        self.workers: list[WorkerProcess] = []
        self._generation = 0
        self._is_closing = False
        self._ready = asyncio.Event()
        #: Called with the process id and exit code of a worker that ended, and how many connections it had.
        self.report_end: Callable[[int, int, int], None] = lambda *_: None
        #: Workers that ended, requests that no worker knew, and processor time of all workers, since the start.
        self.ended = 0
        self.passed_on = 0
        self.cpu_s = 0.0

    @property
    def running(self) -> int:
        return sum(worker.is_ready for worker in self.workers)

    @property
    def connections(self) -> int:
        return sum(len(worker.connections) for worker in self.workers)

    @property
    def are_ready(self) -> bool:
        return self.running == self._count

    async def start(self) -> None:
        """Start the workers and wait until they serve, for some seconds at most."""
        for _ in range(self._count):
            self._start_one()
        try:
            async with asyncio.timeout(_READY_S):
                await self._ready.wait()
        except TimeoutError:
            # They come later, or their ends are logged.
            return

    def kind_changed(self, connection: Any, kind: ConnectionKind) -> None:
        """Give a client's connection to a worker as soon as nothing of it is under way; take a broker's back."""
        if kind is ConnectionKind.CLIENT and connection.input.filter is None:
            self.tasks.start(self._move(connection), "move_connection")
        elif kind is ConnectionKind.BROKER:
            # Its large requests would come here twice, and its socket is asked for what became of it.
            for worker in self.workers:
                if connection.id in worker.connections:
                    worker.channel.send(Kind.RETURN, connection.id)

    def audience_of(self, connection: Any) -> int:
        return self._generation * AUDIENCES + int(connection.audience)

    def reclassified(self) -> None:
        """Take the numbers of audiences for others than before."""
        self._generation += 1

    def drain(self) -> None:
        """Have every request passed on from now on."""
        for worker in self.workers:
            worker.channel.send(Kind.DRAIN, 0)

    def check(self) -> None:
        """Show the workers that this process runs, and end those that do not."""
        self.marks.beat()
        for worker in list(self.workers):
            if self.server.awake_ms - worker.reported_ms > _SILENT_MS_MAX:
                worker.channel.close()

    async def close(self) -> None:
        """End the workers; the server has closed their connections."""
        self._is_closing = True
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.channel.close()
        for worker in workers:
            await asyncio.to_thread(worker.process.wait)

    # Called by workers

    def worker_ready(self, worker: WorkerProcess) -> None:
        worker.is_ready = True
        worker.reported_ms = self.server.awake_ms
        if self.are_ready:
            self._ready.set()

    def worker_ended(self, worker: WorkerProcess, connections: int) -> None:
        if self._is_closing:
            return
        self.ended += 1
        self.workers.remove(worker)
        lived_ms = self.server.awake_ms - worker.started_ms
        self.tasks.start(self._report_end(worker, connections), "report_worker_end")
        self._loop.call_later(0 if lived_ms > _LONG_MS else _RESTART_S, self._start_one)

    async def _report_end(self, worker: WorkerProcess, connections: int) -> None:
        code = await asyncio.to_thread(worker.process.wait)
        self.report_end(worker.process.pid, code, connections)

    def _start_one(self) -> None:
        if self._is_closing:
            return
        own, other = socket.socketpair()
        limits = self.server.limits
        settings = Settings(
            code=self.code,
            response_buffer_high_bytes=limits.response_buffer_high_bytes,
            response_buffer_low_bytes=limits.response_buffer_low_bytes,
            turn_bytes=limits.turn_bytes,
            tally_bounds=tuple(self.tally.bounds),
        )
        files = other.fileno(), self._marks_file
        command = [sys.executable, "-m", "remoting.server.workers.worker", *map(str, files)]
        with other:
            process = subprocess.Popen(  # noqa: S603  # this Python, and a module of ours
                [*command, msgspec.json.encode(settings).decode()],
                stdin=subprocess.DEVNULL,
                pass_fds=files,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.workers.append(WorkerProcess(self, process, own))

    async def _move(self, connection: Any) -> None:
        await asyncio.sleep(_MOVE_S)
        while not (self._is_closing or connection.is_closing or connection.is_lost or connection.cache is None):
            if self.running and connection.is_movable:
                connection.hold_reading()
                # What was answered leaves first.
                await asyncio.sleep(_WRITTEN_S)
                if self._give(connection):
                    return
                connection.read_again()
            await asyncio.sleep(_MOVE_LATER_S)

    def _give(self, connection: Any) -> bool:
        """Give a connection of which nothing is under way to the worker that has least; return False if it stays."""
        if not (self.running and connection.is_movable and connection.update_response_buffer() == 0):
            return False
        least = min((each for each in self.workers if each.is_ready), key=lambda worker: len(worker.connections))
        try:
            least.take(connection, self.audience_of(connection))
        except OSError:
            # No room for another file.
            return False
        return True


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


async def _taken_back(connection: Any, away: WorkerTransport, rest: bytes, file: int) -> None:
    """Read a connection's socket here again."""
    gate, end = _Gate(), socket.socket(fileno=file)
    try:
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: gate, end)
    except OSError:
        connection.connection_lost(None)
        return
    if transport.is_closing():
        connection.connection_lost(None)
        return
    transport.pause_reading()
    connection.come_back(transport, away.unwritten, rest + gate.data)
    if gate.is_ended:
        connection.eof_received()
