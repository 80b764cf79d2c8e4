"""A replicated set of real brokers with orderly Java clients, and the manager's mirror of who holds which queue."""

import asyncio
import itertools
import threading
from concurrent.futures import Future

from orderly_builders import CLUSTER
from peers.controllers import OurController
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller
from replicated import VERY_LONG_S, Moment, ReplicatedSet
from verdicts import Run

from offsets.order.holders import GroupQueue, Member, OrderlyGroup
from offsets.order.polling import TICK_MS, HolderPolling
from offsets.order.replay import LockReplay, Promotion
from offsets.sets.followed import SetMaster
from offsets.values import SetName
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.clients import running_consumer
from remoting.admin.locks import lock_queues
from remoting.admin.message_queues import MessageQueue
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.errors import RemotingError

#: Clients share out their queues so often by default.
DEFAULT_REBALANCE = "-Drocketmq.client.rebalance.waitInterval=20000"
#: How often clients query routes and send heartbeats by default.
DEFAULT_POLL_MS = 30_000
#: Clients of the others query routes each second, as if the master had an address that stays.
QUICK_POLL_MS = 1000
CALL_S = 60

SEND_MESSAGE = 310

_serial = itertools.count()


class LocksOfManager:
    """What the offset manager knows and does of locks, in an event loop of its own."""

    def __init__(self):
        self.clock = SystemClock()
        self.events = []
        self._ready: Future = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.result(CALL_S)

    async def _serve(self):
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        client = RemotingClient(self.clock)
        self.admin = AdminClient(client, AdminLimits(timeout_ms=3000, requests_per_peer_max=32))
        self.failed = []
        #: The groups that are listed, by the address of a master.
        self.masters = {}
        async with BackgroundTasks(lambda name, error: self.failed.append((name, error))) as tasks:
            self.polling = HolderPolling(client, tasks, self.clock, self.events.append)
            self.holders = self.polling.holders
            self.replay = LockReplay(self.polling, client, self.clock, self.events.append, lambda master: True)
            tasks.keep_running(self._poll, "poll")
            self._ready.set_result(None)
            await self._end.wait()
            tasks._cancel_all()
        await client.close()

    async def _poll(self):
        while True:
            self.polling.poll()
            self.polling.list_groups(self.masters)
            await asyncio.sleep(TICK_MS / 1000)

    def run(self, work):
        """Return what a coroutine returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def told(self, kind):
        return [event for event in self.events if type(event) is kind]

    def list_group(self, address, of):
        self.run(self.polling.list_group(address, of))

    def confirm(self, member, *addresses):
        return self.run(self.polling.confirm(member, *addresses))

    def holders_of(self, of, queue):
        """Return the ids of the clients that hold a queue by their last answers."""
        return sorted(self.holders.holders_of(GroupQueue(of, queue)))

    def lock(self, address, group, client_id, queue):
        """Lock a queue for anybody, and return whether that was granted."""
        return queue in self.run(self.admin.call(address, lock_queues(client_id, group, [queue])))

    def close(self):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(CALL_S)
        assert self.failed == []


class OrderlySite:
    """A set of two brokers with one queue, and clients of one release whose timers are those of everybody."""

    def __init__(self, lab, version):
        self._lab = lab
        self.namesrv = lab.name_server()
        controller = lab.kept(OurController(lab.folder)).start()
        self.version = version
        run = Run("ours", full=False, broker_version=version)
        self.set = ReplicatedSet(
            lab, run, name="ordered", namesrv=self.namesrv, controllers=[controller], count=2
        ).start()
        self.traffic = lab.traffic(namesrv=[self.namesrv.address], version=version, flags=[DEFAULT_REBALANCE])
        self.manager = LocksOfManager()
        self.queue = MessageQueue(topic=self.set.topic, broker_name=self.set.name, queue_id=0)

    def close(self):
        self.manager.close()
        self._lab.close()

    def complete(self):
        """Let all brokers run and be in sync."""
        for broker in self.set.brokers:
            if not broker.process.running:
                broker.start()
        self.set.wait_until_complete()

    def new_group(self):
        return f"group{next(_serial)}"

    def join(self, name, group, *, poll_ms=QUICK_POLL_MS, **options):
        """Start an orderly client and return its member."""
        client_id = self.traffic.receive(
            name, topic=self.set.topic, group=group, kind="orderly", poll_ms=poll_ms, heartbeat_ms=poll_ms, **options
        )
        return Member(OrderlyGroup(CLUSTER, group), client_id)

    def consumed_by(self, name):
        return [row for row in self.traffic.read().consumed if row.client == name]

    def wait_for_consumed(self, name, *, after_unix_ms=0, seconds=VERY_LONG_S):
        """Return the first message that a client has consumed after a moment."""
        return wait_until(
            lambda: next((row for row in self.consumed_by(name) if row.unix_ms > after_unix_ms), None),
            seconds=seconds,
            what=f"{name} consumes",
        )

    def mirrored(self, member):
        """Wait until the mirror has the queue's holder from the client, by the slave: masters are not needed for it."""
        (slave,) = self.set.slaves

        def held():
            self.manager.list_group(slave.address, member.of)
            self.manager.confirm(member, slave.address)
            return self.manager.holders_of(member.of, self.queue) == [member.client_id]

        wait_until(held, seconds=VERY_LONG_S, what=f"{member.client_id} holds its queue")

    def locked_unix_ms(self, member, address):
        """Return when a client last locked its queue by its own answer; 0 if it does not answer or does not hold it."""
        try:
            consumer = self.manager.run(
                self.manager.admin.call(address, running_consumer(member.of.group, member.client_id))
            )
        except RemotingError:
            return 0
        held = consumer.queues.get(self.queue)
        return held.last_lock_unix_ms or 0 if held is not None and held.is_locked else 0

    def fail_over(self, *, replays):
        """Kill the master; return the promotion, with its moment and what was replayed."""
        former, (slave,) = self.set.master, self.set.slaves
        former.process.kill()
        killed = Moment()
        wait_until(
            lambda: (state := self.set.state()) and state.addresses.get(state.master) == slave.address,
            seconds=VERY_LONG_S,
            what="the slave is promoted",
        )
        master = SetMaster(SetName(CLUSTER, self.set.name), 1, slave.address)
        promotion = Promotion(master, self.manager.clock.now_ms())
        self.manager.holders.drop_broker(former.address)
        rows = self.manager.run(self.manager.replay.replay(promotion)) if replays else []
        return promotion, killed, rows


class LoneOrderlyBroker:
    """One broker of a release, whose locks end after 15 s instead of 60 s."""

    LOCK_S = 15

    def __init__(self, lab, version):
        self._lab = lab
        self.namesrv = lab.name_server()
        flag = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={self.LOCK_S * 1000}"
        self.broker = lab.broker("alone", version=version, namesrv=[self.namesrv.address], flags=[flag]).start()
        self.version = version
        self.traffic = self.new_traffic("traffic")
        self.broker.ready()
        wait_until(lambda: registered(self.namesrv, self.broker), seconds=VERY_LONG_S, what="the broker is registered")
        self.manager = LocksOfManager()

    def close(self):
        self.manager.close()
        self._lab.close()

    def new_traffic(self, name):
        """Start clients in a process of their own."""
        return self._lab.traffic(name, namesrv=[self.namesrv.address], version=self.version, flags=[DEFAULT_REBALANCE])

    def send(self, topic):
        """Send a message to queue 0, creating the topic with one queue if there is none."""
        words = ["direct", topic, "TBW102", "1", "0", "0", str(self.manager.clock.unix_ms()), "0", "WAIT\x01true", "0"]
        fields = dict(zip("abcdefghij", words, strict=True))
        # A message without a key, as the clients of tests read it.
        answer = Caller(self.broker.address).request(SEND_MESSAGE, fields, b"direct:0\t-\t0")
        assert answer.code == SUCCESS, answer
