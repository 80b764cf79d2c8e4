"""A broker with locks in its memory, to which orderly clients are connected; and what a mirror of holders needs."""

import contextlib
from contextlib import asynccontextmanager

from holder_builders import GROUP

from controller.offsets.locks.holder_poller import HolderMirror, HolderPoller
from controller.offsets.locks.release import LockRelease
from controller.offsets.locks.replay import LockReplay
from controller.offsets.locks.replay_rules import ReplayedLocks
from fakes.background import background_tasks
from fakes.orderly_broker import LOCK, MEMBERS, RUNNING, UNLOCK, LockingBroker, OrderlyClient
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import RemotingClient
from remoting.clock import SystemClock

__all__ = ["LOCK", "MEMBERS", "RUNNING", "UNLOCK", "LockingBroker", "OrderlyClient"]

#: Long enough for a busy machine; a test of a client that hangs takes as long.
TIMEOUT_MS = 2000


class RecordingHolderObserver:
    """What a mirror has reported."""

    def __init__(self):
        self.opened, self.closed, self.silent, self.released = [], [], [], []

    def overlap_opened(self, overlap):
        self.opened.append(overlap)

    def overlap_closed(self, overlap):
        self.closed.append(overlap)

    def locks_released(self, unlock):
        self.released.append(unlock)

    def client_silent(self, query, error):
        self.silent.append((query.member.client_id, type(error).__name__))


class MastersOfTest:
    """Whoever a test names is master, at any time."""

    def __init__(self):
        #: By broker name.
        self.addresses = {}
        #: Brokers that were masters.
        self.former = set()

    def is_master(self, broker_name, address):
        return address not in self.former

    def master_addresses(self):
        return self.addresses


class HolderSite:
    """Two brokers, a mirror of who holds what there, and what polls, replays and releases."""

    def __init__(self, client, tasks, clock, brokers):
        self.first, self.second = brokers
        self.clock = clock
        self.tasks = tasks
        self.observer = RecordingHolderObserver()
        self.mirror = HolderMirror(clock, self.observer)
        self.replayed = ReplayedLocks()
        requests = AdminClient(client, AdminLimits(timeout_ms=TIMEOUT_MS))
        many = AdminClient(client, AdminLimits(timeout_ms=TIMEOUT_MS, requests_per_peer_max=32))
        self.poller = HolderPoller(self.mirror, requests, requests, tasks, clock)
        self.masters = MastersOfTest()
        self.replay = LockReplay(self.mirror, self.poller, many, self.replayed, clock, self.masters)
        self.release = LockRelease(self.mirror, self.poller, self.replayed, requests, clock, self.masters)

    def connect(self, client_id, client, *brokers):
        for broker in brokers or (self.first, self.second):
            broker.clients[client_id] = client
        return client

    async def list_members(self, *brokers, group=GROUP):
        for broker in brokers or (self.first, self.second):
            await self.poller.list_group(broker.address, group)


@asynccontextmanager
async def holder_site(clock=None):
    clock = clock or SystemClock()
    client = RemotingClient(SystemClock())
    brokers = [await LockingBroker().open() for _ in range(2)]
    try:
        async with background_tasks() as tasks:
            try:
                yield HolderSite(client, tasks, clock, brokers)
            finally:
                tasks._cancel_all()
    finally:
        await client.close()
        for each in brokers:
            with contextlib.suppress(OSError):
                await each.close()
