"""A receiver of callbacks, and the callbacks of a controller over a store in a file, as it leads or does not."""

import asyncio

from controller.app.service import names_sets
from controller.callbacks.delivered import DeliveredMasters
from controller.callbacks.events import (
    RoleCallbackDelivered,
    RoleCallbackFailed,
    RoleCallbacksNotStored,
    RoleCallbacksRequested,
    RoleCallbackUnusable,
)
from controller.callbacks.role_callback import CallOutcome, CallResult
from controller.callbacks.service import RoleCallbacks
from controller.config import ControllerConfig
from controller.failover.group import Group
from controller.roles.changes import RoleChange, RoleHolder
from controller.sets.stored_set import SetDecision, StoredSet
from controller.wire.handlers import ReplicaInfoCache
from fakes.clock import FakeClock
from fakes.scaling_controller import ME, OTHER, WAIT_S, FailingStore
from remoting.background_tasks import BackgroundTasks
from store.store import SetStore

DELIVERED = CallOutcome(CallResult.DELIVERED)
FAILED = CallOutcome(CallResult.FAILED, "status 1")


class Receiver:
    """Takes calls: each ends at once as `outcome` says, or waits while `holds` is set."""

    def __init__(self):
        self.calls, self.ended, self.cancelled = [], [], []
        self.outcome = lambda _: DELIVERED
        self.holds = None
        self.problem = ""
        self.most_at_once = 0
        self.is_closed = False

    async def call(self, callback, timeout_s):
        self.calls.append(callback)
        self.timeout_s = timeout_s
        running = len(self.calls) - len(self.ended) - len(self.cancelled)
        self.most_at_once = max(self.most_at_once, running)
        try:
            if self.holds is not None:
                await self.holds.wait()
            else:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(callback)
            raise
        self.ended.append(callback)
        return self.outcome(callback)

    async def close(self):
        self.is_closed = True

    @property
    def seen(self):
        """Return of each call the set, its epoch and which attempt it was."""
        return [(each.change.broker_name, each.change.master_epoch, each.attempt) for each in self.calls]


class RecordedCallbacks:
    """What was reported of callbacks."""

    def __init__(self):
        self.unusable, self.ended, self.not_stored, self.requested = [], [], [], []

    def emit(self, event):
        match event:
            case RoleCallbackUnusable(error=error):
                self.unusable.append(error)
            case RoleCallbackDelivered() | RoleCallbackFailed():
                epoch, result = event.callback.change.master_epoch, event.outcome.result
                self.ended.append((epoch, result, event.duration_ms, getattr(event, "retry_ms", 0)))
            case RoleCallbacksRequested(prefix=prefix, broker_sets=sets):
                self.requested.append((prefix, sets))
            case RoleCallbacksNotStored(error=error):
                self.not_stored.append(error)


class CallingController:
    """One controller of a store; `restarted` is the next one, on the same file."""

    def __init__(self, folder, receiver, calls_max=4, sets=""):
        self.folder, self.receiver, self.calls_max, self.sets = folder, receiver, calls_max, sets
        self.backend = FailingStore(folder)
        self.store = SetStore(self.backend, ReplicaInfoCache())
        self.clock = FakeClock()
        self.group = Group("g", ME, self.clock, self.store)
        self.is_ended = False
        self.faults = []
        self.tasks = BackgroundTasks(lambda name, error: self.faults.append((name, error)))
        self.observer = RecordedCallbacks()
        self.why = lambda _: ""
        self.callbacks = RoleCallbacks(
            group=self.group,
            sets=self.store,
            delivered=DeliveredMasters(self.backend),
            caller=receiver,
            clock=self.clock,
            config=lambda: ControllerConfig(on_role_change_calls_max=self.calls_max),
            emit=self.observer.emit,
            is_named=names_sets(sets),
            explain=self._explain,
            start=lambda work: self.tasks.start(work, "call"),
        )

    def _explain(self, change):
        return self.why(change)

    async def __aenter__(self):
        await self.backend.join(ME, self.group)
        await self.store.load()
        self.group.ready(self.group.term)
        return self

    async def __aexit__(self, *_):
        await self.end()

    async def end(self):
        if self.is_ended:
            return
        self.is_ended = True
        self.group.follows(OTHER)
        await self.callbacks.look()
        async with self.tasks:
            pass
        await self.backend.close()

    async def restarted(self):
        await self.end()
        return await CallingController(self.folder, self.receiver, self.calls_max, self.sets).__aenter__()

    async def lead_again(self):
        """Cease to lead and begin again, as after an election."""
        self.group.follows(OTHER)
        self.group.leads(None)
        self.group.ready(self.group.term)

    async def put(self, broker_set):
        """Store a set, as an election does."""
        name = broker_set.broker_name
        await self.store.change(name, lambda entry: _Replaced(reply=None, begins=broker_set))
        self.report(broker_set)

    def report(self, broker_set):
        """Report the master of a set, as the core of a controller does."""
        address = broker_set.master_address
        new = None if address is None else RoleHolder(broker_set.master, address)
        change = RoleChange(broker_set.cluster, broker_set.broker_name, broker_set.master_epoch, None, new, 0)
        self.callbacks.role_changed(change)

    async def settle(self):
        """Look until nothing is due or under way any more."""
        self.callbacks.compare_sets()
        async with asyncio.timeout(WAIT_S):
            while True:
                await self.callbacks.look()
                if (
                    not self.callbacks._calls
                    and (self.callbacks._storing is None or self.callbacks._storing.done())
                    and not self.callbacks._delivered.has_unstored
                ):
                    return
                await asyncio.sleep(0)

    async def until(self, condition):
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await self.callbacks.look()
                await asyncio.sleep(0.01)


class _Replaced(SetDecision[None], frozen=True, kw_only=True):
    """Whatever was there, this set is."""

    def after(self, entry):
        return StoredSet(broker_set=self.begins)
