"""Queue scaling of one controller over a store in a file, as it leads or does not; brokers are those of its test."""

import asyncio

from controller.failover.group import Group
from controller.scaling.execution.events import (
    ResizeActionsFailed,
    ResizeCreated,
    ResizePhaseEntered,
    ResizeRoundFailed,
)
from controller.scaling.execution.service import QueueScaling, ScalingOptions
from controller.wire.handlers import ReplicaInfoCache
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from serving.telemetry.events import Count, Counted
from store.embedded import EmbeddedStore
from store.store import ControllerMember, SetStore, StoreError

ME = ControllerMember(id="n0", address="10.0.0.1:9878")
OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
#: Generous: only waits that would never end end here.
WAIT_S = 30


class FailingStore(EmbeddedStore):
    """Stores and reads documents, unless it fails."""

    fails = fails_to_load = False

    async def commit_document(self, *args):
        if self.fails:
            raise StoreError("the disk is full")
        return await super().commit_document(*args)

    async def load_documents(self, kind):
        if self.fails_to_load:
            raise StoreError("the disk is gone")
        return await super().load_documents(kind)


class RecordedResizes:
    """What was reported of resizes."""

    def __init__(self):
        self.created, self.phases, self.failed, self.faults, self.done = [], [], [], [], 0
        #: Raised at the next phase.
        self.fault = None

    def emit(self, event):
        match event:
            case ResizeCreated(operation=operation):
                self.created.append(operation.id)
            case ResizePhaseEntered(operation=after):
                if (fault := self.fault) is not None:
                    self.fault = None
                    raise fault
                self.phases.append((after.topic, after.phase))
            case ResizeActionsFailed(failures=failures):
                self.failed += failures
            case Counted(count=Count(amount=amount)):
                self.done += amount
            case ResizeRoundFailed(operation=operation, error=error):
                self.faults.append((operation.topic, error))


class ScalingController:
    """Looks for operations each 50 ms while it is entered."""

    def __init__(self, folder, name_servers, running_max=10):
        self.backend = FailingStore(folder)
        self.listener = RecordedResizes()
        self.clock = SystemClock()
        store = SetStore(self.backend, ReplicaInfoCache())
        self.group = Group("g", ME, self.clock, store)
        self.client = RemotingClient(self.clock)
        self.tasks = set()
        self.scaling = QueueScaling(
            group=self.group,
            sets=store,
            backend=self.backend,
            client=self.client,
            clock=self.clock,
            options=lambda: ScalingOptions(name_servers(), running_max),
            emit=self.listener.emit,
            begin=self._start,
        )

    def _start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def lead(self):
        self.group.leads(None)
        self.group.ready(self.group.term)

    async def __aenter__(self):
        self.lead()
        self._looks = asyncio.ensure_future(self._look())
        await self.until(lambda: self.scaling.is_ready)
        return self

    async def __aexit__(self, *_):
        self._looks.cancel()
        self.group.follows(None)
        await self.scaling.look()
        await asyncio.gather(self._looks, *self.tasks, return_exceptions=True)
        await self.client.close()
        await self.backend.close()

    async def _look(self):
        while True:
            await self.scaling.look()
            await asyncio.sleep(0.05)

    async def until(self, condition):
        """Wait for a condition, and return its value."""
        async with asyncio.timeout(WAIT_S):
            while not (value := condition()):
                await asyncio.sleep(0.01)
        return value

    async def ended(self, operation, phase):
        """Wait until an operation is stored among those that have ended."""
        stored = self.scaling.operations
        await self.until(
            lambda: operation.id in {each.id for each in stored.ended()} and stored.of_topic(operation.topic) is None
        )
        await self.until(lambda: operation.id not in self.scaling.runner.statuses)
        found = self.scaling.find(operation.id)
        assert found.phase is phase, (found.phase, found.problem)
        return found
