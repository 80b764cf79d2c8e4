"""Whose turn it is: all requests but the urgent ones wait here, and peers that sent very many bytes at once.

Answers to the executors of Java's NameServer with their bounded queues. Sockets are looked at between two turns.
Connections take turns, one request or a few kilobytes each, so a peer that sends many at once delays the others by
little; within a connection the order is kept.

What fails for one connection ends that connection only.

There are only so many places to wait in, and nobody keeps one by not reading: where they run out, the requests of peers
that leave their answers unread are answered SYSTEM_BUSY, and those that come now take their places.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Protocol

from remoting.background_tasks import BackgroundTasks, is_failure
from remoting.protocol.command import RemotingCommand
from remoting.server.limits import ServerLimits
from remoting.server.observer import CloseReason, Peer
from remoting.server.request_processor import Answers
from remoting.server.statistics import ServerStatistics, timer_ns


class Asker(Peer, Protocol):
    """A connection whose requests wait for their turn."""

    @property
    def takes_answers(self) -> bool:
        """Whether its requests may be carried out: False while its peer leaves too many answers unread."""

    def send(self, frame: bytes) -> None:
        """Write an answer, unless it is empty."""

    def request_finished(self) -> None:
        """Note that one of its waiting requests was carried out and answered, or all were turned away."""

    def read_on(self) -> None:
        """Carry out what the next of its bytes ask for."""

    def break_off(self, reason: CloseReason) -> None:
        """End the connection at once."""


class Lane:
    """The requests of one connection that wait, in order. One at a time is carried out, even if it takes a while."""

    __slots__ = ("asker", "body_bytes", "listed", "requests", "running")

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        #: Each with the time it came at, in nanoseconds of `timer_ns`.
        self.requests: deque[tuple[RemotingCommand, int]] = deque()
        #: Bodies of those, and of the one that is carried out.
        self.body_bytes = 0
        #: Stands among those whose turn comes.
        self.listed = False
        #: An awaitable is waited for.
        self.running = False

    @property
    def unfinished(self) -> int:
        """How many requests are not answered yet."""
        return len(self.requests) + self.running


class Turns:
    """Carries out the waiting requests of all connections, a few milliseconds at a time."""

    def __init__(
        self, answers: Answers, limits: ServerLimits, statistics: ServerStatistics, tasks: BackgroundTasks
    ) -> None:
        self._answers = answers
        self._limits = limits
        self._statistics = statistics
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._turn_ns = round(limits.turn_ms * 1_000_000)
        #: Those whose turn it is to read on, and those whose requests wait.
        self._readers: deque[Asker] = deque()
        self._lanes: deque[Lane] = deque()
        #: Those whose requests wait for their peer to take answers, the first that stopped before the others.
        self._held: dict[Lane, None] = {}
        self._awake = False
        #: Requests that wait or are carried out, and the bytes of their bodies.
        self.requests = 0
        self.body_bytes = 0

    def put(self, request: RemotingCommand, lane: Lane) -> bool:
        """Let a request wait for its turn; return False if there is no room for it.

        Room is made first by turning away what waits for peers that do not read: however many they are, a broker's
        registration is taken.
        """
        size = len(request.body)
        while not self._has_room(size):
            if not self._held:
                return False
            self._turn_away(next(iter(self._held)))
        self._account(lane, 1, size)
        lane.requests.append((request, timer_ns()))
        self.list_(lane)
        return True

    def list_(self, lane: Lane) -> None:
        """Give a connection its turn, if there is something to do for it that may be done now."""
        if not lane.requests or lane.listed or lane.running:
            return
        if not lane.asker.takes_answers:
            self._held[lane] = None
            return
        self._held.pop(lane, None)
        lane.listed = True
        self._lanes.append(lane)
        self._wake()

    def read_on_later(self, asker: Asker) -> None:
        """Let a connection read on when others had their turn."""
        self._readers.append(asker)
        self._wake()

    def _has_room(self, size: int) -> bool:
        # One request is always taken, however long: the length of a frame has its own limit.
        return self.requests < self._limits.queued_requests_max and (
            not self.requests or self.body_bytes + size <= self._limits.queued_bytes_max
        )

    def _turn_away(self, lane: Lane) -> None:
        """Answer SYSTEM_BUSY to all that waits of a connection; its peer finds that behind what it left unread."""
        del self._held[lane]
        requests = [request for request, _ in lane.requests]
        lane.requests.clear()
        self._account(lane, -len(requests), -sum(len(request.body) for request in requests))
        # The caller's peer is another one, and has no part in what fails here.
        try:
            lane.asker.send(b"".join(self._answers.busy(request, lane.asker) for request in requests))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told and ends this connection
            self._fail(lane, requests[-1], error)
        self._tell_finished(lane, requests[-1])

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Work until the time is over, then give the loop back; sockets come before the next turn.

        Readers, whose queries are urgent, and lanes have the same time each: neither can keep the other waiting.
        """
        self._awake = False
        try:
            end_ns = timer_ns() + self._turn_ns
            while self._readers and timer_ns() < end_ns:
                self._read_on(self._readers.popleft())
            end_ns = timer_ns() + self._turn_ns
            while self._lanes and timer_ns() < end_ns:
                self._step(self._lanes.popleft())
        finally:
            if self._readers or self._lanes:
                self._wake()

    @staticmethod
    def _read_on(asker: Asker) -> None:
        try:
            asker.read_on()
        except Exception:
            # As the loop does where `data_received` fails; it also tells it.
            asker.break_off(CloseReason.ERROR)
            raise

    def _step(self, lane: Lane) -> None:
        """Carry out the next request of a connection."""
        lane.listed = False
        # Its peer may have stopped reading since it was listed; `list_` is called when it reads again.
        if not lane.asker.takes_answers:
            self.list_(lane)
            return
        request, came_ns = lane.requests.popleft()
        try:
            answer = self._answers.begin(request, lane.asker)
        except Exception as error:  # noqa: BLE001  # as in `_turn_away`
            self._fail(lane, request, error)
            answer = b""
        if isinstance(answer, bytes):
            self._finish(lane, request, came_ns, answer)
        else:
            lane.running = True
            self._tasks.start(self._wait(lane, request, came_ns, answer), "answer_request")

    async def _wait(
        self, lane: Lane, request: RemotingCommand, came_ns: int, awaitable: Awaitable[RemotingCommand]
    ) -> None:
        try:
            frame = await self._answers.finish(request, lane.asker, awaitable)
        except BaseException as error:  # as in `_turn_away`
            if not is_failure(error):
                raise
            self._fail(lane, request, error)
            frame = b""
        lane.running = False
        self._finish(lane, request, came_ns, frame)

    def _finish(self, lane: Lane, request: RemotingCommand, came_ns: int, frame: bytes) -> None:
        self._account(lane, -1, -len(request.body))
        try:
            lane.asker.send(frame)
        except Exception as error:  # noqa: BLE001  # as in `_turn_away`
            self._fail(lane, request, error)
        self._statistics.add_latency(request.code, timer_ns() - came_ns)
        self.list_(lane)
        self._tell_finished(lane, request)

    def _tell_finished(self, lane: Lane, request: RemotingCommand) -> None:
        try:
            lane.asker.request_finished()
        except Exception as error:  # noqa: BLE001  # as in `_turn_away`
            self._fail(lane, request, error)

    def _fail(self, lane: Lane, request: RemotingCommand, error: BaseException) -> None:
        """Tell a fault that kept a connection from its answer, and end it; never raises."""
        lane.asker.break_off(CloseReason.ERROR)
        try:
            self._answers.tell_fault(request, lane.asker, error)
        except Exception as fault:  # noqa: BLE001  # who is to be told may be what fails
            self._loop.call_exception_handler({"message": "a fault cannot be told", "exception": fault})

    def _account(self, lane: Lane, requests: int, body_bytes: int) -> None:
        self.requests += requests
        self.body_bytes += body_bytes
        lane.body_bytes += body_bytes
        self._statistics.in_flight += requests
