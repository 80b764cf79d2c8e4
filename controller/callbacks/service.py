"""Delivers changes of masters to the operator's program or URL: at least once, in order of epochs, never an older one.

The stored sets decide what is to be delivered: whatever the document of a set does not have. So a new leader, or one
that was restarted, goes on where the last one stopped. An election only leaves its change here, and waits for nothing.
A call is given up when the lead ends: another controller calls then. One whose process is paused cannot know that, so
receivers compare epochs.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from typing import Any, Final

from controller.callbacks.callers import ProgramCaller, WebhookCaller
from controller.callbacks.delivered import DeliveredMasters
from controller.callbacks.events import (
    UNDELIVERED,
    UNDELIVERED_SINCE,
    RoleCallbackDelivered,
    RoleCallbackFailed,
    RoleCallbacksNotStored,
    RoleCallbacksRequested,
    RoleCallbackUnusable,
)
from controller.callbacks.pending import DueChange, PendingChanges
from controller.callbacks.role_callback import CallOutcome, CallResult, RoleCallback
from controller.config import ControllerConfig
from controller.failover.group import Group
from controller.roles.changes import RoleChange, RoleHolder
from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock
from serving.telemetry.events import Emit, Measure
from serving.telemetry.telemetry import unix_s
from store.store import SetStore, StoreError

#: How often is looked at what is due, and whether this controller leads.
LOOK_S: Final = 0.1
#: Sets that are compared with what was delivered, each LOOK_S.
SETS_AT_ONCE: Final = 500


class RoleCallbacks:
    """Calls for every change of a master, for as long as this controller leads."""

    def __init__(
        self,
        group: Group,
        sets: SetStore,
        delivered: DeliveredMasters,
        caller: ProgramCaller | WebhookCaller,
        clock: Clock,
        config: Callable[[], ControllerConfig],
        emit: Emit,
        is_named: Callable[[str], bool],
        explain: Callable[[RoleChange], str],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[bool]],
    ) -> None:
        """`is_named` says whether the operator wants to learn of a set; `start` runs what nobody waits for.

        `explain` returns why a set has its master, in a sentence; blank if this controller does not know.
        """
        self._group, self._sets, self._clock = group, sets, clock
        self._caller, self._config, self._emit = caller, config, emit
        #: The latest change of each set that was not compared with what was delivered yet.
        self._reported: dict[str, RoleChange] = {}
        #: Set while there is something to do.
        self._wake = asyncio.Event()
        self._delivered, self._is_named, self._explain, self._start = delivered, is_named, explain, start
        self.pending = PendingChanges()
        #: The term for which it is known what was delivered.
        self._term = 0
        self._calls: set[asyncio.Task[bool]] = set()
        self._storing: asyncio.Task[bool] | None = None
        self._round: Iterator[str] = iter(())

    def role_changed(self, change: RoleChange) -> None:
        self._reported[change.broker_name] = change
        self._wake.set()

    @property
    def is_ready(self) -> bool:
        """Whether this controller leads, and knows what was delivered."""
        return self._group.is_leader and self._term == self._group.term

    def redeliver(self, prefix: str) -> int:
        """Call the sets whose names begin so once more; returns how many. Only on a controller that `is_ready`."""
        found = [
            each
            for each in self._sets.sets()
            if each.broker_name.startswith(prefix) and each.master_epoch and self._is_named(each.broker_name)
        ]
        for each in found:
            self._delivered.forget(each.broker_name)
            self._compare(each)
        self._wake.set()
        self._emit(RoleCallbacksRequested(prefix=prefix, broker_sets=len(found)))
        return len(found)

    def measures(self) -> Iterator[Measure]:
        yield Measure(UNDELIVERED, len(self.pending))
        yield Measure(UNDELIVERED_SINCE, unix_s(self.pending.oldest_ms, self._clock))

    async def deliver_role_changes(self) -> None:
        if problem := self._caller.problem:
            self._emit(RoleCallbackUnusable(error=problem))
        try:
            while True:
                self.compare_sets()
                await self._look_until(asyncio.get_running_loop().time() + LOOK_S)
        finally:
            self._give_up()

    async def look(self) -> None:
        """Begin the calls that are due, if this controller leads; give up all of them if it does not."""
        reported, self._reported = self._reported, {}
        term = self._group.term
        if not self._group.is_leader:
            self._give_up()
            return
        if self._term != term and not await self._begin_term(term):
            return
        for each in reported.values():
            if (broker_set := self._sets.get(each.broker_name)) is not None:
                self._compare(broker_set, each.unix_ms)
        free = self._config().on_role_change_calls_max - len(self._calls)
        for due in self.pending.take_due(self._clock.now_ms(), free):
            if self._sets.get(due.change.broker_name) is None:
                # The set was cleaned meanwhile.
                self.pending.drop(due.change)
            else:
                self._begin(due)
        if self._delivered.has_unstored and (self._storing is None or self._storing.done()):
            self._storing = self._start(self._store_delivered())

    async def close(self) -> None:
        self._give_up()
        await self._caller.close()

    async def _look_until(self, end_s: float) -> None:
        """Look at once, and again whenever a change was reported or a call has ended, up to that time of the loop."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            await self.look()
            if loop.time() >= end_s:
                return
            try:
                async with asyncio.timeout_at(end_s):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _begin_term(self, term: int) -> bool:
        """Know what was delivered, and all that was not; False if it cannot be read, or the lead has ended."""
        self._give_up()
        if self._calls:
            # Calls of the time before are still being ended: no set is called twice at a time.
            return False
        try:
            problems = await self._delivered.load(lambda: self._group.leads_in(term))
        except StoreError as error:
            self._emit(RoleCallbacksNotStored(error=str(error)))
            # A store that fails is not called ten times a second.
            await asyncio.sleep(1)
            return False
        if not self._group.leads_in(term):
            return False
        for problem in problems.values():
            self._emit(RoleCallbacksNotStored(error=problem))
        self._term = term
        for broker_set in self._sets.sets():
            self._compare(broker_set)
        return True

    def compare_sets(self) -> None:
        """Compare some sets with what was delivered, those whose turn it is: a change may not have been reported."""
        names = set(islice(self._round, SETS_AT_ONCE))
        if len(names) < SETS_AT_ONCE:
            self._round = iter(self._sets.names())
            names.update(islice(self._round, SETS_AT_ONCE - len(names)))
        for name in names:
            if self.is_ready and (broker_set := self._sets.get(name)) is not None:
                self._compare(broker_set)

    def _compare(self, broker_set: BrokerSet, unix_ms: int | None = None) -> None:
        """Deliver the master of a set unless it was; `unix_ms`: when it was stored, None for now."""
        delivered = self._delivered.of_set(broker_set.broker_name)
        if not self._is_named(broker_set.broker_name) or (delivered is None and not broker_set.master_epoch):
            # The operator does not want it, or it never had a master.
            return
        if delivered is not None and not delivered.precedes(broker_set):
            return
        address = broker_set.master_address
        change = RoleChange(
            cluster=broker_set.cluster,
            broker_name=broker_set.broker_name,
            master_epoch=broker_set.master_epoch,
            old=delivered.master if delivered is not None else None,
            new=None if broker_set.master is None or address is None else RoleHolder(broker_set.master, address),
            unix_ms=self._clock.unix_ms() if unix_ms is None else unix_ms,
        )
        first = broker_set.replicas.get(min(broker_set.replicas, default=0)) if delivered is None else None
        self.pending.offer(change, self._clock.now_ms(), "" if first is None else first.host)

    def _begin(self, due: DueChange) -> None:
        delivered = self._delivered.of_set(due.change.broker_name)
        first, last = (delivered.epoch + 1 if delivered is not None else 0), due.change.master_epoch - 1
        callback = RoleCallback(
            change=due.change,
            old=delivered.master if delivered is not None else None,
            why=self._explain(due.change) or _unexplained(due.change),
            skipped=(first, last) if delivered is not None and first <= last else None,
            attempt=due.attempt,
            controller_id=self._group.me.id,
        )
        call = self._start(self._call(callback))
        self._calls.add(call)
        call.add_done_callback(self._called)

    async def _call(self, callback: RoleCallback) -> None:
        term, began_ms = self._term, self._clock.now_ms()
        try:
            outcome = await self._caller.call(callback, self._config().on_role_change_timeout_ms / 1000)
        except Exception as error:
            self._failed(term, callback, CallOutcome(CallResult.FAILED, f"a fault: {error!r}"), began_ms)
            raise
        if outcome.result is not CallResult.DELIVERED:
            self._failed(term, callback, outcome, began_ms)
        elif self._term == term:
            self._delivered.record(callback.change)
            self.pending.delivered(callback.change)
            lasted_ms = self._clock.now_ms() - began_ms
            self._emit(RoleCallbackDelivered(callback=callback, outcome=outcome, duration_ms=lasted_ms))

    def _failed(self, term: int, callback: RoleCallback, outcome: CallOutcome, began_ms: int) -> None:
        if self._term == term:
            now_ms = self._clock.now_ms()
            retry_ms = self.pending.failed(callback.change, outcome.error, now_ms)
            lasted_ms = now_ms - began_ms
            self._emit(RoleCallbackFailed(callback=callback, outcome=outcome, duration_ms=lasted_ms, retry_ms=retry_ms))

    def _called(self, call: "asyncio.Task[bool]") -> None:
        self._calls.discard(call)
        self._wake.set()

    async def _store_delivered(self) -> None:
        try:
            await self._delivered.store(lambda name: self._sets.get(name) is not None)
        except StoreError as error:
            self._emit(RoleCallbacksNotStored(error=str(error)))
            await asyncio.sleep(1)

    def _give_up(self) -> None:
        """End all calls, and expect nothing to be delivered: the next leader finds it in the store."""
        for call in self._calls:
            call.cancel()
        self.pending.clear()
        self._term = 0


def _unexplained(change: RoleChange) -> str:
    if change.new is None:
        return "the master failed or was started anew, and no broker is elected yet"
    return "another controller elected it, or this one before it was started anew"
