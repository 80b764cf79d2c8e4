"""A replicated set of real brokers with orderly Java clients, and the manager's mirror of who holds which queue."""

import asyncio
import itertools
import threading
from concurrent.futures import Future

from fakes.locking_broker import MastersOfTest, RecordingHolderObserver
from peers.controllers import OurController
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import SUCCESS, Caller
from replicated import VERY_LONG_S, Moment, ReplicatedSet
from verdicts import Run

from controller.offsets.locks.holder_poller import HolderMirror, HolderPoller
from controller.offsets.locks.holders import GroupMember, HeldGroupQueue
from controller.offsets.locks.poll_schedule import WAITED_FOR_MAX
from controller.offsets.locks.release import LockRelease
from controller.offsets.locks.replay import LockReplay, Promotion
from controller.offsets.locks.replay_rules import ReplayedLocks
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
        self.observer = RecordingHolderObserver()
        self._ready: Future = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.result(CALL_S)

    async def _serve(self):
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        client = RemotingClient(self.clock)
        self.admin = AdminClient(client, AdminLimits(timeout_ms=3000, requests_per_peer_max=32))
        clients = AdminClient(client, AdminLimits(timeout_ms=3000, requests_per_peer_max=WAITED_FOR_MAX))
        self.mirror = HolderMirror(self.clock, self.observer)
        self.replayed = ReplayedLocks()
        self.failed = []
        async with BackgroundTasks(lambda name, error: self.failed.append((name, error))) as tasks:
            self.poller = HolderPoller(self.mirror, clients, self.admin, tasks, self.clock)
            masters = MastersOfTest()
            self.replay = LockReplay(self.mirror, self.poller, self.admin, self.replayed, self.clock, masters)
            self.release = LockRelease(self.mirror, self.poller, self.replayed, self.admin, self.clock, masters)
            self._polling = tasks.keep_running(self.poller.poll, "poll")
            self._ready.set_result(None)
            await self._end.wait()
            tasks._cancel_all()
        await client.close()

    def run(self, work):
        """Return what a coroutine returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def list_group(self, address, group):
        self.run(self.poller.list_group(address, group))

    def confirm(self, member, *addresses):
        return self.run(self.poller.confirm(member, addresses))

    def holder_of(self, group, queue):
        """Return the client ids of those who hold a queue by their last answers."""
        return sorted(self.mirror.table.holders_of(HeldGroupQueue(group, queue)))

    def lock(self, address, group, client_id, queue):
        """Lock a queue for anybody, and return whether that was granted."""
        return queue in self.run(self.admin.call(address, lock_queues(client_id, group, [queue])))

    def close(self):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(CALL_S)
        assert self.failed == []


class LockSite:
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
        return GroupMember(group, client_id)

    def consumed_by(self, name):
        return [each for each in self.traffic.read().consumed if each.client == name]

    def wait_for_consumed(self, name, *, after_unix_ms=0, seconds=VERY_LONG_S):
        """Return the first message that a client has consumed after a moment."""
        return wait_until(
            lambda: next((each for each in self.consumed_by(name) if each.unix_ms > after_unix_ms), None),
            seconds=seconds,
            what=f"{name} consumes",
        )

    def mirrored(self, member):
        """Wait until the mirror has the queue's holder from the client, by the slave: masters are not needed for it."""
        (slave,) = self.set.slaves

        def held():
            self.manager.list_group(slave.address, member.group)
            self.manager.confirm(member, slave.address)
            return self.manager.holder_of(member.group, self.queue) == [member.client_id]

        wait_until(held, seconds=VERY_LONG_S, what=f"{member.client_id} holds its queue")

    def locked_unix_ms(self, member, address):
        """Return when a client last locked its queue by its own answer; 0 if it does not answer or does not hold it."""
        try:
            consumer = self.manager.run(self.manager.admin.call(address, running_consumer(*member)))
        except RemotingError:
            return 0
        held = consumer.queues.get(self.queue)
        return held.last_lock_unix_ms or 0 if held is not None and held.is_locked else 0

    def fail_over(self, *, replays):
        """Kill the master; return the promotion, with its moment and what was replayed, None without a replay."""
        former, (slave,) = self.set.master, self.set.slaves
        former.process.kill()
        killed = Moment()
        wait_until(
            lambda: (state := self.set.state()) and state.addresses.get(state.master) == slave.address,
            seconds=VERY_LONG_S,
            what="the slave is promoted",
        )
        promotion = Promotion(
            broker_name=self.set.name,
            address=slave.address,
            former=former.address,
            promoted_ms=self.manager.clock.now_ms(),
        )
        report = self.manager.run(self.manager.replay.replay(promotion)) if replays else None
        return promotion, killed, report


class LoneBroker:
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
