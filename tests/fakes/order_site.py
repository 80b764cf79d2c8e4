"""A set of two brokers with orderly clients, the first of which is master, and what follows the order there."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

from orderly_builders import ORDERLY, SET, a_member, a_queue

from fakes.background import background_tasks
from fakes.orderly_broker import GROUP, LockingBroker
from offsets.lead import Lead
from offsets.order.declared import Declared
from offsets.order.replay import Promotion
from offsets.order.service import OrderService
from offsets.sets.followed import FollowedSet, SetMaster, change_of
from offsets.sets.following import Following
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from store.store import ControllerMember, StoreError

ME = ControllerMember(id="a", address="127.0.0.1:9883")


class StoredGroups:
    """A store of declared groups in memory, which fails on request."""

    def __init__(self, value=None):
        self.value, self.revision, self.fails = value, 0, ""

    async def read(self):
        self._check()
        return self.value, self.revision

    async def write(self, value, revision):
        self._check()
        if revision != self.revision:
            raise StoreError("it was changed by another manager")
        self.value, self.revision = value, revision + 1

    def _check(self):
        if self.fails:
            raise StoreError(self.fails)


class OrderSite:
    """Nothing goes on by itself: a test calls `look`, or starts `order.run`."""

    def __init__(self, client, tasks, clock, brokers, *, replays):
        self.first, self.second = brokers
        self.clock, self.tasks = clock, tasks
        self.events = []
        self.following = Following(clock, lambda event: None)
        self.lead = Lead(clock, lambda event: None)
        self.store = StoredGroups(b'[["DefaultCluster","g1"]]')
        self.declared = Declared(self.store, self.emit)
        self.order = OrderService(
            self.following, self.lead, self.declared, client, tasks, clock, self.emit, replays=replays
        )
        self.polling, self.replay = self.order.polling, self.order.replay
        self.holders = self.polling.holders
        self.epoch = 0
        self.lead.start(ME)
        self.elect(self.first)

    def emit(self, event):
        self.events.append(event)

    def told(self, kind):
        return [event for event in self.events if type(event) is kind]

    # Brokers and their masters

    def master(self, broker):
        return SetMaster(SET, self.epoch, broker.address, self.epoch)

    def elect(self, broker):
        """Let a broker be master, or nobody."""
        self.epoch += 1
        known = self.following.sets.get(SET.broker_name)
        members = (self.first.address, self.second.address)
        now = FollowedSet(SET, self.master(broker) if broker else None, members, self.epoch)
        change = change_of(known, known.master if known else None, now, self.clock.unix_ms())
        self.following.sets = {SET.broker_name: now}
        self.fresh()
        self.following.tell([change] if change else [])

    def fresh(self):
        self.following.answered_ms = self.clock.now_ms()

    def fail_over(self):
        self.elect(None)
        self.elect(self.second)

    def promotion(self, broker=None, *, ago_ms=0):
        """Return that a broker is the master which is known."""
        master = SetMaster(SET, self.epoch, (broker or self.second).address, self.epoch)
        members = self.following.sets[SET.broker_name].members
        self.following.sets = {SET.broker_name: FollowedSet(SET, master, members, self.epoch)}
        self.fresh()
        return Promotion(master, self.clock.now_ms() - ago_ms)

    # Clients

    def connect(self, client_id, client, *brokers):
        for broker in brokers or (self.first, self.second):
            broker.clients[client_id] = client
        return client

    def disconnect_all(self):
        for broker in (self.first, self.second):
            broker.clients.clear()

    async def list_members(self, *brokers):
        for broker in brokers or (self.first, self.second):
            await self.polling.list_group(broker.address, ORDERLY)

    async def mirrored(self, *brokers):
        """Let all clients be listed and confirmed."""
        await self.list_members(*brokers)
        for member in self.holders.members_of(ORDERLY):
            assert await self.polling.confirm(member)

    def holds(self, client_id, queue_id=0):
        return a_queue(queue_id) in self.holders.client(a_member(client_id)).holdings

    def clients(self):
        return [client_id for _, client_id in self.holders.members_of(ORDERLY)]

    def replayed(self):
        """Return by client the ids of the queues whose locks were taken for it."""
        taken = {member.client_id: self.holders.client(member).replayed_ms for member in self.holders.members()}
        return {name: sorted(queue.queue_id for queue in queues) for name, queues in taken.items() if queues}

    def pass_ms(self, ms):
        self.clock.pass_ms(ms)
        self.fresh()

    def requests(self):
        return [code for broker in (self.first, self.second) for code, _ in broker.received]


@asynccontextmanager
async def order_site(clock=None, *, replays=True):
    client = RemotingClient(SystemClock())
    brokers = [await LockingBroker().open() for _ in range(2)]
    try:
        async with background_tasks() as tasks:
            try:
                yield OrderSite(client, tasks, clock or SystemClock(), brokers, replays=replays)
            finally:
                tasks._cancel_all()
    finally:
        await client.close()
        for broker in brokers:
            with contextlib.suppress(OSError):
                await broker.close()


async def eventually(is_so):
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


def locks(broker):
    """Return the locks of the group at a broker by queue id."""
    return {queue_id: client_id for (group, queue_id), client_id in broker.locks.items() if group == GROUP}
