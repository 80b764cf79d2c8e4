"""Confirms that an elected broker has changed to master: until then a client that is sent to it fails at once.

A broker takes some hundred ms from its notification until it accepts messages. A client whose send is refused by a
slave tries again at once, three times within some ms, so nobody is sent to it before. The broker itself is queried;
`wire/` has the request. Answers to no class of Java's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from controller.failover.group import Group
from controller.roles.changes import RoleChange, RoleHolder
from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock

#: How soon a broker that is not master yet is queried again: after a tenth of the time that it has taken so far, within
#: these limits. After the restart of a rack thousands are queried, and some need minutes, or never answer.
_AGAIN_MS: Final = 25
_AGAIN_MS_MAX: Final = 10_000
#: How many masters are queried at a time after elections; and the same number of those that a new leader found.
QUERIES_MAX: Final = 200


class ServingConfirmations:
    """Which masters are confirmed to serve, by their master epochs; in memory of the leading controller only."""

    def __init__(
        self,
        group: Group,
        clock: Clock,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[bool]],
        query_is_master: Callable[[str], Awaitable[bool]],
        report: Callable[[RoleChange, int], None],
    ) -> None:
        """`query_is_master` returns whether the broker at an address is a master, false without an answer.

        `report` takes each change whose master serves, and how many ms after it was published.
        """
        self._group, self._clock, self._start = group, clock, start
        self._query_is_master = query_is_master
        self._report = report
        #: Broker id and master epoch, by broker name.
        self._confirmed: dict[str, tuple[int, int]] = {}
        #: What confirms the last change of a set, by broker name.
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._elected_turns = asyncio.Semaphore(QUERIES_MAX)
        # Thousands that a new leader queries do not hold up the few that were elected.
        self._found_turns = asyncio.Semaphore(QUERIES_MAX)

    def is_confirmed(self, broker_set: BrokerSet) -> bool:
        """Return whether the stored master of a set is known to serve in the stored epoch."""
        return self._confirmed.get(broker_set.broker_name) == (broker_set.master, broker_set.master_epoch)

    def role_changed(self, change: RoleChange) -> None:
        """Begin to confirm the new master of a set."""
        name = change.broker_name
        self._confirmed.pop(name, None)
        if (earlier := self._under_way.pop(name, None)) is not None:
            earlier.cancel()
        if change.new is not None:
            task = self._start(self._confirm_master(change, change.new, self._group.term))
            self._under_way[name] = task
            task.add_done_callback(partial(self._done, name))

    def clear(self) -> None:
        """Confirm nothing any more: another controller leads, or this one ends."""
        self._confirmed.clear()
        for task in self._under_way.values():
            task.cancel()
        self._under_way.clear()

    def _done(self, name: str, done: asyncio.Task[bool]) -> None:
        if self._under_way.get(name) is done:
            del self._under_way[name]

    async def _confirm_master(self, change: RoleChange, master: RoleHolder, term: int) -> None:
        began_ms = self._clock.now_ms()
        turns = self._found_turns if change.is_repeated else self._elected_turns
        while self._group.leads_in(term):
            async with turns:
                is_master = await self._query_is_master(master.address)
            after_ms = self._clock.now_ms() - began_ms
            if is_master and self._group.leads_in(term):
                self._confirmed[change.broker_name] = (master.broker_id, change.master_epoch)
                self._report(change, after_ms)
                return
            await asyncio.sleep(again_ms(after_ms) / 1000)


def again_ms(after_ms: int) -> int:
    """Return how soon a broker that was not master `after_ms` after its election is queried again."""
    return max(_AGAIN_MS, min(after_ms // 10, _AGAIN_MS_MAX))
