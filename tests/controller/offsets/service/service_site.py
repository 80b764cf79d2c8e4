"""The offset service over a real journal and a real store in files, on a clock that a test moves; the store can have
trouble, as an etcd that is cut off has.
"""

import asyncio
import contextlib

from fakes.clock import FakeClock
from fakes.leadership_listener import eventually

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.entry_checks import OffsetLimits
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.locks.sessions.values import LockGroup, LockSession
from controller.offsets.service.lock_keeper import LockKeeper
from controller.offsets.service.lock_service import LockService
from controller.offsets.service.offset_service import OffsetService, ServiceParts
from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.write_behind import WriteBehind
from controller.offsets.storage.write_behind_options import WriteBehindOptions
from controller.offsets.values import GroupTopic, QueueKey
from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from store.store import ControllerMember

OTHER = ControllerMember(id="m2", address="10.0.0.2:9883")
GROUP = LockGroup("DefaultCluster", "", "billing")


def a_key(queue_id=0, *, group="billing", topic="orders"):
    return QueueKey(GroupTopic("DefaultCluster", "", group, topic, "broker-a"), queue_id)


class HeldStore(EmbeddedRemote):
    """A store whose writes a test holds back, or lets fail."""

    def __init__(self, folder):
        super().__init__(folder, SystemClock())
        self.passes = asyncio.Event()
        self.passes.set()
        #: Writes that wait for that now.
        self.held = 0
        #: Raised by each write instead of doing it.
        self.put_error = None
        #: Raised by so many loads.
        self.error = None
        self.load_errors = 0

    async def load_page(self, start):
        if self.load_errors:
            self.load_errors -= 1
            raise self.error
        return await super().load_page(start)

    async def put(self, writes):
        self.held += 1
        await self.passes.wait()
        self.held -= 1
        if self.put_error is not None:
            raise self.put_error
        return await super().put(writes)


class Reported:
    """What the service reported, in order."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *values, **named: self.calls.append((name, *values, *named.values()))

    def of(self, name):
        return [each[1:] for each in self.calls if each[0] == name]


class ServiceSite:
    """One manager without HTTP."""

    def __init__(
        self, folder, *, is_write_through=lambda _: False, rows_max=1_000_000, lead_number=lambda: 0, **options
    ):
        self.clock = FakeClock()
        self.journal = Journal(folder, SystemClock())
        self.remote = HeldStore(folder)
        self.tasks = BackgroundTasks(lambda name, error: self.faults.append((name, error)))
        self.faults = []
        self.passed_on = 0
        self.observer = Reported()
        options = WriteBehindOptions(**options)
        self.store = WriteBehind(self.journal, self.remote, SystemClock(), options, None, is_write_through)
        parts = ServiceParts(
            store=self.store,
            clock=self.clock,
            start=self.tasks.start,
            observer=self.observer,
            limits=OffsetLimits(rows_max=rows_max),
            lead_number=lead_number,
            pass_on=self.pass_on,
        )
        self.keeper = LockKeeper(self.store, self.clock)
        self.service = OffsetService(parts, self.keeper)
        self.locks = LockService(self.service, self.keeper, self.clock, self.observer)

    def pass_on(self):
        self.passed_on += 1
        self.service.follows(None)

    async def lead(self, until_ms=None):
        self.service.leads(until_ms)
        await eventually(lambda: self.service.role.is_serving, seconds=10, what="the service has loaded")

    def entry(self, offset, queue_id=0, *, epoch=0, token=0, **names):
        return CommitEntry(a_key(queue_id, **names), offset, epoch, token)

    async def commit(self, offset, queue_id=0, **more):
        return (await self.service.commit([self.entry(offset, queue_id, **more)], "client-1")).results[0]

    async def reset(self, offset, queue_id=0):
        return await self.service.reset([OffsetEntry(a_key(queue_id), offset)], self.service.writer("alice", ""))

    def read(self, queue_id=0, **names):
        return self.service.read([a_key(queue_id, **names)])[0]

    async def session(self, session_id, ttl_ms=60_000):
        await self.locks.open(
            LockSession(
                session_id=session_id,
                group=GROUP,
                client_id=f"client-of-{session_id}",
                ttl_ms=ttl_ms,
                opened_unix_ms=self.clock.unix_ms(),
            )
        )

    async def acquire(self, session_id, *queue_ids):
        return await self.locks.acquire(session_id, [a_key(each) for each in queue_ids], "")

    async def close(self):
        await self.store.stop(5)
        await self.journal.close()
        await self.remote.close()


@contextlib.asynccontextmanager
async def service_site(folder, *, leads=True, **options):
    site = ServiceSite(folder, **{"flush_interval_ms": 10} | options)
    try:
        site.store.start(site.tasks)
        if leads:
            await site.lead()
        yield site
    finally:
        site.remote.passes.set()
        await site.close()
        assert site.faults == []
