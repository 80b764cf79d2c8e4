"""Answers that stand ready leave together, at the end of the round in which they were asked for.

Each write to a socket wakes its reader, and where client and server share processors the switch costs more than the
answer. So a round of the event loop first reads what all sockets have, and then writes all answers.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from remoting.server.observer import CloseReason
from remoting.server.statistics import Latencies, ServerStatistics, timer_ns

#: So many leave at once at the latest: a round can have thousands, and nobody waits longer than these take.
ANSWERS_MAX: Final = 64


class Leaving(Protocol):
    """A connection whose answers leave with those of others."""

    def write_answer(self, frame: bytes) -> None:
        """Hand a frame to the socket, unless the connection has ended."""

    def break_off(self, reason: CloseReason) -> None:
        """End the connection at once."""


class Outbox:
    """The answers of one round, in order."""

    __slots__ = ("_answers", "_began_ns", "_call_soon", "_latencies", "_statistics")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], latencies: Latencies, statistics: ServerStatistics
    ) -> None:
        """Take how to be called at the end of the round, and where the time is counted that the answers took."""
        self._call_soon = call_soon
        self._latencies = latencies
        self._statistics = statistics
        self._answers: list[tuple[Leaving, bytes]] = []
        #: When the first of them came.
        self._began_ns = 0

    def put(self, connection: Leaving, frame: bytes) -> None:
        """Let an answer leave soon."""
        answers = self._answers
        if not answers:
            self._began_ns = timer_ns()
            self._call_soon(self.flush)
        answers.append((connection, frame))
        if len(answers) >= ANSWERS_MAX:
            self.flush()

    def flush(self) -> None:
        """Let all leave now; whoever writes to one of the connections otherwise does it after this."""
        if not self._answers:
            return
        answers, self._answers = self._answers, []
        sent_bytes = 0
        for connection, frame in answers:
            sent_bytes += len(frame)
            try:
                connection.write_answer(frame)
            except Exception as error:  # noqa: BLE001  # whatever it is, the answers of others leave
                _break_off(connection, error)
        self._statistics.sent_bytes += sent_bytes
        # One look at the time does for all: none took longer than the first.
        self._latencies.add(timer_ns() - self._began_ns, len(answers))


def _break_off(connection: Leaving, error: Exception) -> None:
    connection.break_off(CloseReason.ERROR)
    fault = {"message": "an answer cannot be handed to its connection", "exception": error}
    asyncio.get_running_loop().call_exception_handler(fault)
