"""Which runs of the guard may be at work at a time. A broker that does not serve yet is waited for without a turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from controller.offsets.guard.master_queries import PAUSE_S, MasterQueries, NotServing
from controller.offsets.guard.runner import EarlyEnd
from controller.offsets.guard.serving_master import until_served
from controller.offsets.guard_runs.occasions import GuardOccasion
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import Requester

#: Runs at a time; each has the decoded offsets of a broker in memory.
RUNS_MAX: Final = 16
#: Requests of brokers that do not serve yet, one of each set at a time. So many that hang hold up the others until they
#: time out: to connect to all sets at once would take the connections that other parts need.
WAITING_LIMITS: Final = AdminLimits(requests_max=256, requests_per_peer_max=1)
#: Between two requests of one set, for each set that waits: about 500 a second of all, once each was requested once.
_PAUSE_OF_EACH_S: Final = 0.002


class EndedEarly(Exception):  # not an error: the next run begins
    """A run is to end before it has begun."""


class GuardTurns:
    """The turns of all runs."""

    def __init__(self, client: Requester) -> None:
        self._admin = AdminClient(client, WAITING_LIMITS)
        self._turns = asyncio.Semaphore(RUNS_MAX)
        #: How the runs of sets that wait here are ended.
        self._waiting: set[EarlyEnd] = set()
        self._is_stopped = False
        #: Runs that have their turn.
        self.at_work = 0

    @property
    def waiting(self) -> int:
        """Runs that wait for their broker, or for their turn."""
        return len(self._waiting)

    @asynccontextmanager
    async def turn(
        self, occasion: GuardOccasion, early_end: EarlyEnd, may_wait: Callable[[], bool]
    ) -> AsyncIterator[None]:
        """Have a turn once the broker serves as master; the first one that does is the first.

        Raises EndedEarly, and NotServing, with what the broker answered last or that there was no turn, once `may_wait`
        is false.
        """
        if self._is_stopped:
            raise EndedEarly
        self._waiting.add(early_end)
        try:
            async with asyncio.timeout(None) as limit:
                early_end.begin(limit)
                queries = MasterQueries(self._admin, occasion.master.broker_name, occasion.master.address)
                await until_served(queries, occasion.moment, may_wait, self._pause_s)
                await self._turns.acquire()
                if not may_wait():
                    self._turns.release()
                    raise NotServing("the runs of other brokers took all turns until now")
        except TimeoutError:
            raise EndedEarly from None
        finally:
            early_end.close()
            self._waiting.discard(early_end)
        self.at_work += 1
        try:
            yield
        finally:
            self.at_work -= 1
            self._turns.release()

    def stop(self) -> None:
        """Let nobody wait any more, as the process ends; runs that have their turn end by themselves."""
        self._is_stopped = True
        for each in self._waiting:
            each.end("this manager stops")

    def _pause_s(self) -> float:
        return max(PAUSE_S, _PAUSE_OF_EACH_S * len(self._waiting))
