"""Queues all requests but the urgent ones, and gives connections their turns.

Answers to the executors of Java's NameServer with their bounded queues. Sockets are read between two runs of the queue.
Connections take turns, one request or `turn_bytes` each, so a peer that sends many at once delays the others by little;
within a connection the order is kept. What fails for one connection ends that connection only.

The queue is bounded, and peers that do not read their responses hold no places in it: where it is full, their requests
are answered SYSTEM_BUSY, and those that come now are queued.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable

from remoting.background_tasks import BackgroundTasks, is_failure
from remoting.protocol.command import RemotingCommand
from remoting.server.limits import ServerLimits
from remoting.server.observer import CloseReason, ServedConnection
from remoting.server.request_processor import RequestProcessor
from remoting.server.statistics import ServerStatistics, timer_ns


class ConnectionQueue:
    """The queued requests of one connection, in order; one at a time is processed, even if it takes a while."""

    __slots__ = ("_limits", "body_bytes", "connection", "is_running", "is_scheduled", "requests")

    def __init__(self, connection: ServedConnection, limits: ServerLimits) -> None:
        self.connection = connection
        self._limits = limits
        #: Each with the time at which it came, in nanoseconds of `timer_ns`.
        self.requests: deque[tuple[RemotingCommand, int]] = deque()
        #: Bodies of those, and of the one that is processed.
        self.body_bytes = 0
        #: Whether the request queue gives it a turn.
        self.is_scheduled = False
        #: Whether an answer is awaited.
        self.is_running = False

    @property
    def pending(self) -> int:
        return len(self.requests) + self.is_running

    @property
    def is_full(self) -> bool:
        limits = self._limits
        return (
            len(self.requests) >= limits.queued_requests_per_connection
            or self.body_bytes >= limits.queued_bytes_per_connection
        )


class RequestQueue:
    """Processes the queued requests of all connections, a few milliseconds at a time."""

    def __init__(
        self, processor: RequestProcessor, limits: ServerLimits, statistics: ServerStatistics, tasks: BackgroundTasks
    ) -> None:
        self._processor = processor
        self._cached_code = processor.cached_code
        self._limits = limits
        self._statistics = statistics
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._turn_ns = round(limits.turn_ms * 1_000_000)
        #: Connections with deferred input, and those with queued requests, in the order of their turns.
        self._readers: deque[ServedConnection] = deque()
        self._scheduled: deque[ConnectionQueue] = deque()
        #: Those whose peers do not read their responses, the longest blocked first.
        self._blocked: dict[ConnectionQueue, None] = {}
        self._is_awake = False
        #: Requests that wait or are processed, and the bytes of their bodies.
        self.requests = 0
        self.body_bytes = 0

    def put(self, request: RemotingCommand, queue: ConnectionQueue) -> bool:
        """Queue a request; return False if the queue is full.

        First the requests of peers that do not read their responses are rejected: however many those are, a broker's
        registration is taken.
        """
        size = len(request.body)
        # Others take half of the places while clients' queries are not urgent, as brokers come less often.
        if request.code == self._cached_code and 2 * self.requests >= self._limits.queued_requests_max:
            return False
        while not self._has_room(size):
            if not self._blocked:
                return False
            self._reject_blocked(next(iter(self._blocked)))
        self._count(queue, 1, size)
        queue.requests.append((request, timer_ns()))
        self.schedule(queue)
        return True

    def schedule(self, queue: ConnectionQueue) -> None:
        """Give a connection its turn, if it has a request that may be processed now."""
        if not queue.requests or queue.is_scheduled or queue.is_running:
            return
        if not queue.connection.takes_responses:
            self._blocked[queue] = None
            return
        self._blocked.pop(queue, None)
        queue.is_scheduled = True
        self._scheduled.append(queue)
        self._wake()

    def schedule_read(self, connection: ServedConnection) -> None:
        """Let a connection read on when others had their turn."""
        self._readers.append(connection)
        self._wake()

    def _has_room(self, size: int) -> bool:
        # One request is always taken, however long: the length of a frame has its own limit.
        return self.requests < self._limits.queued_requests_max and (
            not self.requests or self.body_bytes + size <= self._limits.queued_bytes_max
        )

    def _reject_blocked(self, queue: ConnectionQueue) -> None:
        """Answer SYSTEM_BUSY to all requests of a connection; its peer reads that behind the earlier responses."""
        del self._blocked[queue]
        requests = [request for request, _ in queue.requests]
        queue.requests.clear()
        self._count(queue, -len(requests), -sum(len(request.body) for request in requests))
        connection = queue.connection
        # The caller's peer is another one, and must not suffer from what fails here.
        try:
            connection.send(b"".join(self._processor.busy_response(request, connection) for request in requests))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is reported and ends this connection
            self._fail(queue, requests[-1], error)
        self._notify_finished(queue, requests[-1])

    def _wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        """Process until the time is over, then give the loop back; sockets come before the next run.

        Deferred input, which holds urgent requests, and queued requests have the same time each: neither can keep the
        other waiting.
        """
        self._is_awake = False
        try:
            end_ns = timer_ns() + self._turn_ns
            while self._readers and timer_ns() < end_ns:
                self._read_on(self._readers.popleft())
            end_ns = timer_ns() + self._turn_ns
            while self._scheduled and timer_ns() < end_ns:
                self._process_next(self._scheduled.popleft())
        finally:
            if self._readers or self._scheduled:
                self._wake()

    @staticmethod
    def _read_on(connection: ServedConnection) -> None:
        try:
            connection.read_on()
        except Exception:
            # As the loop does where `data_received` fails; it also logs the error.
            connection.abort(CloseReason.ERROR)
            raise

    def _process_next(self, queue: ConnectionQueue) -> None:
        queue.is_scheduled = False
        # Its peer may have stopped reading meanwhile; `schedule` is called when it reads again.
        if not queue.connection.takes_responses:
            self.schedule(queue)
            return
        request, came_ns = queue.requests.popleft()
        try:
            response = self._processor.process(request, queue.connection)
        except Exception as error:  # noqa: BLE001  # as in `_reject_blocked`
            self._fail(queue, request, error)
            response = b""
        if isinstance(response, bytes):
            self._finish(queue, request, came_ns, response)
        else:
            queue.is_running = True
            self._tasks.start(self._await_answer(queue, request, came_ns, response), "answer_request")

    async def _await_answer(
        self, queue: ConnectionQueue, request: RemotingCommand, came_ns: int, awaitable: Awaitable[RemotingCommand]
    ) -> None:
        try:
            frame = await self._processor.finish(request, queue.connection, awaitable)
        except BaseException as error:  # as in `_reject_blocked`
            if not is_failure(error):
                raise
            self._fail(queue, request, error)
            frame = b""
        queue.is_running = False
        self._finish(queue, request, came_ns, frame)

    def _finish(self, queue: ConnectionQueue, request: RemotingCommand, came_ns: int, frame: bytes) -> None:
        self._count(queue, -1, -len(request.body))
        try:
            queue.connection.send(frame)
        except Exception as error:  # noqa: BLE001  # as in `_reject_blocked`
            self._fail(queue, request, error)
        self._statistics.latencies_of(request.code).add(timer_ns() - came_ns, 1)
        self.schedule(queue)
        self._notify_finished(queue, request)

    def _notify_finished(self, queue: ConnectionQueue, request: RemotingCommand) -> None:
        try:
            queue.connection.request_finished()
        except Exception as error:  # noqa: BLE001  # as in `_reject_blocked`
            self._fail(queue, request, error)

    def _fail(self, queue: ConnectionQueue, request: RemotingCommand, error: BaseException) -> None:
        """Abort a connection after an internal error and report that; never raises."""
        queue.connection.abort(CloseReason.ERROR)
        try:
            self._processor.report_fault(request, queue.connection, error)
        except Exception as fault:  # noqa: BLE001  # the observer may be what fails
            self._loop.call_exception_handler({"message": "an error cannot be reported", "exception": fault})

    def _count(self, queue: ConnectionQueue, requests: int, body_bytes: int) -> None:
        self.requests += requests
        self.body_bytes += body_bytes
        queue.body_bytes += body_bytes
        self._statistics.in_flight += requests
