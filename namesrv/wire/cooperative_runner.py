"""Runs cooperative tasks (`cooperative.py`) in slices of 2 ms, so that requests are served in between.

Urgent tasks, such as the removal of brokers, go first and share the time by slices. All other tasks run one after
another, because each may hold very much memory. Connections share the time: next is the one that had the least of it,
the expected time of its task included, so a large task delays only other large ones. A quarter of the time belongs to
the task that waits longest: otherwise very many small tasks would keep a large broker out.
"""

import asyncio
from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

from namesrv.core.values.cooperative import CooperativeTask, Result
from remoting.protocol.errors import RemotingError, without_origin
from remoting.server.statistics import timer_ns

#: A slice: the event loop is held no longer at a time.
_SLICE_NS: Final = 2_000_000
#: One of so many slices in a row belongs to other work than urgent work, if there is any.
_FIRST_SLICES: Final = 4
#: Expected time of a byte; only the order depends on it.
_BYTE_NS: Final = 100
#: One part in so many of the time belongs to the task that waits longest.
_LONGEST_SHARE: Final = 4
#: Other work runs for so long before that share begins, so that a few registrations keep their order.
_LONGEST_AFTER_NS: Final = 20_000_000
#: Connections whose used time is kept; beyond it, those that had no more than others are dropped.
_REMEMBERED: Final = 1024
#: Entries of tasks that wait no more that an order may hold, plus one for each task that waits.
_STALE_MAX: Final = 64


class _Work:
    __slots__ = ("began_at", "connection_id", "done", "steps", "used_ns")

    def __init__(self, steps: CooperativeTask[Any], connection_id: int = 0, began_at: int = 0) -> None:
        self.steps = steps
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.connection_id = connection_id
        #: Its position in the order of all work, in ns of work of one connection.
        self.began_at = began_at
        self.used_ns = 0


class CooperativeRunner:
    """Tasks that share the event loop: however many there are, one slice holds it at a time."""

    def __init__(self) -> None:
        self._first: deque[_Work] = deque()
        self._first_slices = 0
        #: By number, the longest waiting first.
        self._waiting: dict[int, _Work] = {}
        #: Their order by share, with the numbers last; some of them wait no more.
        self._by_share: list[tuple[int, int, int]] = []
        #: Time used by tasks that were next by share, less the time that the longest waiting ones get for it.
        self._owed_ns = 0
        self._is_by_share = False
        self._present: _Work | None = None
        self._numbers = count()
        #: Position of the next task of a connection that had none lately: no waiting one has had less.
        self._least_ns = 0
        #: Connection -> position of its next task, for those that had more than others lately.
        self._had_ns: dict[int, int] = {}
        self._awake = False

    async def run_first(self, steps: CooperativeTask[Result]) -> Result:
        """Run an urgent task before all other work; return its result."""
        work = _Work(steps)
        self._first.append(work)
        self._wake()
        result: Result = await work.done
        return result

    async def run(self, steps: CooperativeTask[Result], connection_id: int, size_bytes: int) -> Result:
        """Run a task for so many bytes of a connection when it is that connection's turn; return its result."""
        had_ns = self._had_ns.get(connection_id, 0)
        began_at = max(self._least_ns, had_ns)
        work = _Work(steps, connection_id, began_at)
        # Of equal ones, connections that had nothing lately come first.
        number = next(self._numbers)
        self._waiting[number] = work
        heappush(self._by_share, (began_at + size_bytes * _BYTE_NS, had_ns, number))
        self._wake()
        result: Result = await work.done
        return result

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Run one slice, then give the loop back."""
        self._awake = False
        if self._is_turn_of_first():
            self._first_slices += 1
            work = self._first.popleft()
            if not self._run_slice(work):
                self._first.append(work)
        else:
            self._first_slices = 0
            self._go_on()
        if self._first or self._waiting or self._present:
            self._wake()
        else:
            self._least_ns = self._owed_ns = 0
            self._had_ns.clear()
            self._by_share.clear()

    def _is_turn_of_first(self) -> bool:
        others = self._waiting or self._present
        return bool(self._first) and not (others and self._first_slices >= _FIRST_SLICES - 1)

    def _go_on(self) -> None:
        """Continue the task that holds its memory already, or begin that of the connection that had the least time."""
        work = self._present or self._next()
        self._present = None if self._run_slice(work) else work
        if self._present is None:
            self._owed_ns += work.used_ns if self._is_by_share else -work.used_ns * (_LONGEST_SHARE - 1)
            self._had_ns[work.connection_id] = work.began_at + work.used_ns
            # Every waiting task could have had so much: new connections keep none of them waiting for ever.
            self._least_ns += work.used_ns // (len(self._waiting) + 1)
            if len(self._had_ns) > _REMEMBERED:
                self._had_ns = {number: had for number, had in self._had_ns.items() if had > self._least_ns}

    def _next(self) -> _Work:
        """Take the next task out of the waiting ones."""
        self._is_by_share = self._owed_ns < _LONGEST_AFTER_NS
        if not self._is_by_share:
            work = self._waiting.pop(next(iter(self._waiting)))
            if len(self._by_share) > _STALE_MAX + 2 * len(self._waiting):
                self._by_share = [each for each in self._by_share if each[-1] in self._waiting]
                heapify(self._by_share)
            return work
        while (number := heappop(self._by_share)[-1]) not in self._waiting:
            pass
        work = self._waiting.pop(number)
        self._least_ns = max(self._least_ns, work.began_at)
        return work

    @staticmethod
    def _run_slice(work: _Work) -> bool:
        """Run a task for one slice; return True once it has ended."""
        began_ns = now_ns = timer_ns()
        try:
            while now_ns - began_ns < _SLICE_NS and not work.done.cancelled():
                next(work.steps)
                now_ns = timer_ns()
        except StopIteration as done:
            work.done.set_result(done.value)
        except RemotingError as error:
            # A refusal is a response.
            work.done.set_exception(without_origin(error))
        except Exception as error:  # noqa: BLE001  # it is raised where the result is waited for
            work.done.set_exception(error)
        work.used_ns += timer_ns() - began_ns
        return work.done.done()
