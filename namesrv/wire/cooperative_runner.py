"""Does long work of `cooperative.py` between other things, a few milliseconds at a time.

What makes routes true again, such as the departure of brokers, goes first and shares the time by slices. All other work
is done one after another, because each may hold very much memory, and connections share it by time: next is who had
least of it, with what it brings now, so that who brings very much keeps only those waiting that do the same. A part of
the time goes to who waits longest: else very many that bring little would keep a large broker out.
"""

import asyncio
from collections import deque
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Final

from namesrv.core.values.cooperative import CooperativeTask, Result
from remoting.protocol.errors import RemotingError, without_origin
from remoting.server.statistics import timer_ns

#: So long the loop is held at a time.
_SLICE_NS: Final = 2_000_000
#: Of so many slices in a row one belongs to other work than what goes first, if there is such.
_FIRST_SLICES: Final = 4
#: What a byte is expected to take; only the order depends on it.
_BYTE_NS: Final = 100
#: Of so much time one part belongs to who waits longest.
_LONGEST_SHARE: Final = 4
#: So much other work is done before that begins, so that a few registrations keep their order.
_LONGEST_AFTER_NS: Final = 20_000_000
#: Connections that are remembered for what they had, before those are left out that had no more than others.
_REMEMBERED: Final = 1024
#: So many that wait no more may stand in an order, and as many again as wait.
_STALE_MAX: Final = 64


class _Work:
    """Steps that are taken until their end, and who waits for it."""

    __slots__ = ("began_at", "connection_id", "done", "steps", "used_ns")

    def __init__(self, steps: CooperativeTask[Any], connection_id: int = 0, began_at: int = 0) -> None:
        self.steps = steps
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.connection_id = connection_id
        #: Where it stands in the order of all work, in ns of work of one connection.
        self.began_at = began_at
        self.used_ns = 0


class CooperativeRunner:
    """Works that wait for each other, so that however many there are, the loop is held by one slice at a time."""

    def __init__(self) -> None:
        self._first: deque[_Work] = deque()
        self._first_slices = 0
        #: By number, who waits longest first.
        self._waiting: dict[int, _Work] = {}
        #: Their order by share, with the numbers last; some of these wait no more.
        self._by_share: list[tuple[int, int, int]] = []
        #: What work has taken that was next by its share, less what that of those who waited longest is to take for it.
        self._owed_ns = 0
        self._is_by_share = False
        self._present: _Work | None = None
        self._numbers = count()
        #: Where work of a connection stands that had none lately: nobody who waits has had less.
        self._least_ns = 0
        #: Connection -> where its next work will stand; of those that had more than others lately.
        self._had_ns: dict[int, int] = {}
        self._awake = False

    async def run_first(self, steps: CooperativeTask[Result]) -> Result:
        """Do the work before all that is not so urgent, and return its result."""
        work = _Work(steps)
        self._first.append(work)
        self._wake()
        result: Result = await work.done
        return result

    async def run(self, steps: CooperativeTask[Result], connection_id: int, size_bytes: int) -> Result:
        """Do the work on so many bytes that came over a connection when that has its turn, and return its result."""
        had_ns = self._had_ns.get(connection_id, 0)
        began_at = max(self._least_ns, had_ns)
        work = _Work(steps, connection_id, began_at)
        # Of equal ones those that had nothing lately.
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
        """Work for one slice, then give the loop back."""
        self._awake = False
        if self._is_turn_of_first():
            self._first_slices += 1
            work = self._first.popleft()
            if not self._is_through(work):
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
        """Go on with the work that holds its memory already, or begin that of the connection that had least."""
        work = self._present or self._next()
        self._present = None if self._is_through(work) else work
        if self._present is None:
            self._owed_ns += work.used_ns if self._is_by_share else -work.used_ns * (_LONGEST_SHARE - 1)
            self._had_ns[work.connection_id] = work.began_at + work.used_ns
            # Everybody who waits could have had so much: nobody is kept waiting by newcomers for ever.
            self._least_ns += work.used_ns // (len(self._waiting) + 1)
            if len(self._had_ns) > _REMEMBERED:
                self._had_ns = {number: had for number, had in self._had_ns.items() if had > self._least_ns}

    def _next(self) -> _Work:
        """Return the work that is next, which waits no more."""
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
    def _is_through(work: _Work) -> bool:
        """Work for a slice; tell whether nothing is left to do."""
        began_ns = now_ns = timer_ns()
        try:
            while now_ns - began_ns < _SLICE_NS and not work.done.cancelled():
                next(work.steps)
                now_ns = timer_ns()
        except StopIteration as done:
            work.done.set_result(done.value)
        except RemotingError as error:
            # A refusal is an answer.
            work.done.set_exception(without_origin(error))
        except Exception as error:  # noqa: BLE001  # it is raised where the result is waited for
            work.done.set_exception(error)
        work.used_ns += timer_ns() - began_ns
        return work.done.done()
