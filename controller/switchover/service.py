"""The switchovers of one controller: what operators request, which one of each set is under way, and the last ones.

They are kept in memory of the leader: a switchover takes seconds, and each state that it stores is an ordinary one. If
the leader fails, its holds are gone with it, and what is stored decides who serves.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final

from controller.failure_detection.heartbeats import BrokerKey
from controller.sets.broker_set import BrokerSet
from controller.switchover import events, rules
from controller.switchover.request import SwitchoverRequest
from controller.switchover.runner import SwitchoverParts, SwitchoverRun
from controller.switchover.switchover import Switchover
from serving.telemetry.events import Measure

#: How many switchovers are shown.
SWITCHOVERS_MAX: Final = 1_000
#: How many run at one time: each asks two brokers up to 100 times a second while clients are held.
RUNNING_MAX: Final = 50


class SetNotFound(Exception):
    """There is no broker set of that name."""

    def __init__(self, broker_name: str) -> None:
        super().__init__(f"there is no broker set {broker_name}")


class SwitchoverRefused(Exception):
    """Nothing was begun; the text says why, and what to do."""


class Switchovers:
    """Starts switchovers and keeps the last ones."""

    def __init__(
        self,
        parts: SwitchoverParts,
        query_all_ack: Callable[[str], Awaitable[bool | None]],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]],
    ) -> None:
        """`start` starts a background task.

        `query_all_ack` returns whether the broker at an address acknowledges a message only once everybody in sync has
        it, None if it does not answer.
        """
        self._parts = parts
        self._query_all_ack = query_all_ack
        self._start = start
        #: Those under way and the last ones, the newest last.
        self._runs: deque[SwitchoverRun] = deque(maxlen=SWITCHOVERS_MAX)
        #: Sets whose switchover is being checked.
        self._beginning: set[str] = set()
        self._longest_hold_ms = 0

    def __iter__(self) -> Iterator[Switchover]:
        """Yield the switchovers of this controller, the newest first."""
        return (each.switchover for each in reversed(self._runs))

    def measures(self) -> Iterator[Measure]:
        """Yield how long clients were held at most."""
        yield Measure(events.LONGEST_HOLD, self._longest_hold_ms / 1000)

    def _held(self, milliseconds: int) -> None:
        self._longest_hold_ms = max(self._longest_hold_ms, milliseconds)

    def of_set(self, broker_name: str) -> Switchover | None:
        """Return the switchover of a set that is under way, or its last one."""
        return next((each for each in self if each.broker_name == broker_name), None)

    async def begin(self, broker_name: str, request: SwitchoverRequest) -> Switchover:
        """Begin a switchover, which goes on by itself.

        Raises NotLeader, SetNotFound, and SwitchoverRefused with the reason.
        """
        try:
            return await self._begin(broker_name, request)
        except SwitchoverRefused as refused:
            self._parts.emit(events.SwitchoverRefused(broker=broker_name, problem=str(refused)))
            raise

    async def _begin(self, broker_name: str, request: SwitchoverRequest) -> Switchover:
        self._check_free(broker_name)
        self._beginning.add(broker_name)
        try:
            needs = await self._needs(broker_name, request)
        finally:
            self._beginning.discard(broker_name)
        found = rules.find_next_master(needs)
        problem = found.problem or rules.problem_of_loss(needs)
        if found.broker_id is None or problem:
            raise SwitchoverRefused(problem)
        switchover = self._made(needs, request, found.broker_id)
        run = SwitchoverRun(switchover, self._parts, self._held)
        self._runs.append(run)
        self._parts.emit(events.SwitchoverBegun(switchover=switchover))
        self._start(run.run())
        return switchover

    def _check_free(self, broker_name: str) -> None:
        self._parts.control.group.check_leads()
        if self._parts.control.store.get(broker_name) is None:
            raise SetNotFound(broker_name)
        running = [each for each in self if not each.has_ended]
        if broker_name in self._beginning or any(each.broker_name == broker_name for each in running):
            raise SwitchoverRefused(f"a switchover of {broker_name} is under way already: wait for its end")
        if len(running) + len(self._beginning) >= RUNNING_MAX:
            raise SwitchoverRefused(f"{RUNNING_MAX} switchovers are under way: wait for the end of one")

    async def _needs(self, broker_name: str, request: SwitchoverRequest) -> rules.SwitchoverNeeds:
        control = self._parts.control
        broker_set = control.store.get(broker_name)
        assert broker_set is not None, "it has just been found"
        is_all_ack = await self._query_all_ack(broker_set.master_address) if broker_set.master_address else None
        control.group.check_leads()
        if (broker_set := control.store.get(broker_name)) is None:
            raise SetNotFound(broker_name)
        return rules.SwitchoverNeeds(
            broker_set=broker_set,
            trusted=control.detector.electable(broker_name, self._parts.clock.now_ms()),
            wanted=request.broker_id,
            is_held=self._is_checked(broker_set),
            is_all_ack=is_all_ack,
            accepts_loss=request.accept_loss,
        )

    def _is_checked(self, broker_set: BrokerSet) -> bool:
        """Return whether somebody checks the role of the master, so that a hold holds clients."""
        master = broker_set.master
        return master is not None and self._parts.checkers.is_checked(BrokerKey(broker_set.broker_name, master))

    def _made(self, needs: rules.SwitchoverNeeds, request: SwitchoverRequest, new_master: int) -> Switchover:
        broker_set, clock = needs.broker_set, self._parts.clock
        assert broker_set.master is not None, "the rule has found the next master beside it"
        unix_ms = clock.unix_ms()
        return Switchover(
            id=f"{broker_set.broker_name}.{unix_ms}",
            broker_name=broker_set.broker_name,
            cluster=broker_set.cluster,
            request=request,
            old_master=broker_set.master,
            new_master=new_master,
            old_epoch=broker_set.master_epoch,
            is_held=needs.is_held,
            is_all_ack=bool(needs.is_all_ack),
            warnings=rules.warnings_of(needs),
            created_unix_ms=unix_ms,
            phase_since_ms=clock.now_ms(),
            phase_since_unix_ms=unix_ms,
        )
