"""Histories of one broker set, its groups and one or two offset managers in virtual time, and what must always hold.

The managers' readings, repairs, proofs, rules and requests are the product's; brokers, clients, who is master and who
leads are a model, and all that happens is decided by the seed. A history is some minutes long: messages are sent and
consumed, slaves copy, operators reset, topics are made anew, masters are killed, promoted, restarted, wiped.

What must hold, asked at each write of a manager when it reaches a broker (`World.judge`): every message that the write
lets a group pass over has been read by the group, since the last rewind that the broker or the last reading knows.

Left out, so no history shows it:
- Files of the log, disks that fail half, ACL, RocksDB (part R and the acceptance tests), more than one set.
- Queues that are not dispatched yet, offsets files that are older than the log after a crash (a restart here loses the
  end of both or of none), brokers of two releases in one set.
- How members of several clients share queues: each group is one member.
- What happens at the new master in the moments between the look at its offsets and messages, and a write.
- A client that goes back to exactly the offset that the next master had as a replica: nobody can see that.
- Messages that the former master had and did not show: a slave keeps the queue of a topic that was made anew, numbers
  what comes after it otherwise than its master, and nobody sees that from offsets and logs.
- Clients that begin without an offset are not judged: what they skip is by their own policy.
"""

import asyncio
import random
from collections import defaultdict

from offset_fuzz.brokers import CLUSTER, SET, Broker, Log
from offset_fuzz.virtual_time import VirtualClock, VirtualLoop
from offsets.config import OffsetManagerConfig
from offsets.readings.readings import Readings
from offsets.repair.service import Repairer
from offsets.sets.followed import FollowedSet, MasterChange, MasterChangeKind, SetMaster
from offsets.sets.following import Following
from offsets.values import SetName
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import BackgroundTasks
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.errors import ConnectionRefused, InvokeTimeout

SET_NAME = SetName(CLUSTER, SET)
LEASE_S = 5.0
#: Between the look at a message and the write: a topic that is made anew in between is not noticed.
WRITTEN_WITHIN_S = 3.0


class Violation(AssertionError):
    """A write of a manager lets a group skip a message."""


class Group:
    """A group with one member, which may be offline."""

    def __init__(self, world, name, topics, *, pops):
        self.world, self.name, self.topics, self.pops = world, name, topics, pops
        self.is_online = world.chance(0.85)
        self.begins_at_first = world.chance(0.5)
        #: Its member says how far it is; one that has not pulled yet does not.
        self.tells = world.chance(0.4)
        #: How long it is connected before it pulls: its members share the queues first.
        self.shares_s = world.random.choice([0, 0, 5])
        #: (topic, queue id) -> where it reads next.
        self.positions = {}
        #: When it is connected to a broker.
        self.connected = {}
        #: (topic, queue id) -> after how many rewinds that somebody wanted it went on where it is.
        self.moves = {}
        #: (topic, queue id) -> the queue that it has read last.
        self.seen = {}
        #: What it has popped and not acknowledged.
        self.popped = []

    def is_connected(self, broker):
        return self.is_online and self.connected.get(broker.address, 1e18) <= self.world.loop.time()

    def pulls_from(self, broker):
        return self.is_connected(broker) and self.connected[broker.address] + self.shares_s <= self.world.loop.time()

    def connect(self, broker, within_s):
        self.connected.setdefault(broker.address, self.world.loop.time() + self.world.random.uniform(0, within_s))

    def consume(self, broker):
        for topic in self.topics:
            for queue_id in range(self.world.queues):
                if not self.world.chance(0.2):
                    self._pull(broker, topic, queue_id)

    def _pull(self, broker, topic, queue_id):
        key = self.name, topic, queue_id
        first, end = broker.ends(topic, queue_id)
        if key in broker.pending:
            self.positions[topic, queue_id] = broker.pending.pop(key)
            self.moves[topic, queue_id] = broker.moves.get(key, 0)
        position = self.positions.get((topic, queue_id))
        if position is None:
            position = broker.offset(*key)
            self.moves[topic, queue_id] = broker.moves.get(key, 0)
        if position is None:
            position = first if self.begins_at_first else end
            if not self.begins_at_first:
                self._pass_over(broker, key, 0, end)
        if position > end:
            self._pass_over(broker, key, 0, end)
        if position < first:
            # A replica may still have what has expired here.
            self._pass_over(broker, key, 0, first)
        position = min(max(position, first), end)
        queue = broker.queues.get((topic, queue_id))
        if self.seen.get((topic, queue_id)) is not queue:
            # Whatever is there, it goes on behind it by itself.
            self.seen[topic, queue_id] = queue
            self._pass_over(broker, key, 0, position)
        until = min(end, position + self.world.random.randrange(4))
        uids = {uid for _, uid in broker.queues.get((topic, queue_id), [])[position:until]}
        if self.pops:
            self.popped += uids
            broker.put_offset(*key, until, broker.moves.get(key, 0))
            acknowledged = {uid for uid in self.popped if self.world.chance(0.5)}
            self.popped = [uid for uid in self.popped if uid not in acknowledged]
            uids = acknowledged
        else:
            self.positions[topic, queue_id] = until
        self.world.read(key, uids)

    def _pass_over(self, broker, key, start, end):
        """Take messages that the group skips by itself: they count as read."""
        self.world.read(key, {uid for _, uid in broker.queues.get(key[1:], [])[start:end]})

    def commit(self, broker):
        if self.pops:
            return
        for (topic, queue_id), position in self.positions.items():
            key = self.name, topic, queue_id
            if key not in broker.pending:
                broker.put_offset(*key, position, self.moves.get((topic, queue_id), 0))


class FollowedMaster(Following):
    """Who is master, as a manager sees it: asked each second, and not while it is paused."""

    def see(self, world):
        self.answered_ms = self._clock.now_ms()
        master, broker = world.followed, world.master
        members = tuple(broker.address for broker in world.brokers)
        known = self.sets.get(SET)
        now = FollowedSet(set_name=SET_NAME, master=master, members=members)
        self.sets = {SET: now}
        former = None if known is None else known.master
        if master is None or broker is None or master == former:
            return
        kind = MasterChangeKind.FOUND if self.last is None else MasterChangeKind.MOVED
        if self.last is not None and self.last.address == master.address and master.master_epoch is None:
            kind = MasterChangeKind.GAINED if self.last == master else MasterChangeKind.RESTARTED
        change = MasterChange(kind, SET_NAME, self.last, master, self._clock.unix_ms())
        self.last = master
        self.tell([change])

    last = None


class _Repairing:
    """The requests of repairs: what these have seen decides, not what a reading saw at the same time."""

    def __init__(self, manager):
        self.manager = manager

    async def invoke(self, *values):
        return await self.manager.invoke(*values, repairs=True)

    def connection_number(self, address):
        return self.manager.connection_number(address)


class Manager:
    """A manager: the product's readings and repairs over the requests of this model."""

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.is_paused_until_s = 0.0
        self.lease_until_s = 0.0
        self.told = []
        #: What readings of the master knew of rewinds: (monotonic ms, moves).
        self.seen_moves = []
        #: Address -> what a broker had when it was read last as a replica, or by a repair, and what it knew of rewinds.
        self.seen_copies, self.seen_now = {}, {}
        self.tasks = BackgroundTasks(self._failed)
        self.following = FollowedMaster(world.clock, self.told.append)
        self.readings = Readings(
            self,
            self.following,
            world.clock,
            self.told.append,
            self._failed,
            OffsetManagerConfig(store_path=str(world.folder / str(number))),
        )
        limits = AdminLimits(requests_max=64, requests_per_peer_max=16)
        self.repairer = Repairer(
            AdminClient(_Repairing(self), limits),
            world.clock,
            self.told.append,
            world.folder / f"{number}-repairs",
            known_before=self.readings.known_before,
            parted=self.readings.parted,
            is_leading=self.is_leading,
            is_master=self.following.is_master,
            acts_for=lambda _: True,
            tasks=self.tasks,
        )
        self.following.listeners.append(self.repairer.changed)
        self.readings.restarted.append(self.repairer.restarted)

    def _failed(self, name, error):
        self.world.failure = self.world.failure or error

    # Who leads, who is master

    def is_leading(self):
        return self.world.loop.time() < self.lease_until_s

    async def run_lease(self):
        while True:
            await self._while_paused()
            now_s = self.world.loop.time()
            if self.world.leader in (None, self) or now_s >= self.world.leader_until_s:
                self.world.leader, self.world.leader_until_s = self, now_s + LEASE_S
                # Its own view of the lease ends earlier.
                self.lease_until_s = now_s + LEASE_S - 1
            await asyncio.sleep(1)

    async def run_following(self):
        while True:
            await self._while_paused()
            self.following.see(self.world)
            await asyncio.sleep(self.world.random.uniform(0.01, 1))

    async def _while_paused(self):
        while (left_s := self.is_paused_until_s - self.world.loop.time()) > 0:
            await asyncio.sleep(left_s)

    # Requests

    def connection_number(self, address):
        """Return another number for each process, and none now and then, as connections break."""
        broker = next(broker for broker in self.world.brokers if broker.address == address)
        return broker.boot_ms if broker.is_alive and not self.world.chance(0.02) else None

    async def invoke(self, address, request, timeout_ms, before_send=lambda: None, *, repairs=False):
        world = self.world
        await asyncio.sleep(world.random.uniform(0.0001, 0.003))
        await self._while_paused()
        before_send()
        broker = next(broker for broker in world.brokers if broker.address == address)
        if world.chance(world.loss):
            if world.chance(0.5) and broker.is_alive:
                broker.answer(request, self._judge)
            await asyncio.sleep(timeout_ms / 1000)
            raise InvokeTimeout(address, timeout_ms)
        if world.chance(0.05):
            await asyncio.sleep(world.random.uniform(0.01, 0.3))
        if not broker.is_alive:
            raise ConnectionRefused(address, "nobody listens")
        if request.code == BrokerRequestCode.GET_ALL_CONSUMER_OFFSET:
            seen = {key: (broker.offset(*key), moves) for key, moves in broker.moves.items()}
            if repairs:
                self.seen_now[address] = seen
            elif broker is world.master:
                self.seen_moves = [*self.seen_moves[-20:], (world.clock.now_ms(), dict(broker.moves))]
            else:
                self.seen_copies[address] = seen
        answer = broker.answer(request, self._judge)
        await asyncio.sleep(world.random.uniform(0.0001, 0.003))
        await self._while_paused()
        return answer

    def _judge(self, broker, group, topic, queue_id, offset, *, is_reset):
        self.world.judge(self, broker, (group, topic, queue_id), offset, is_reset=is_reset)

    def known_moves(self, key):
        """Return how many rewinds of a group in a queue its newest reading of a former master knows of."""
        known = self.readings.known_before(self.following.last, self.world.clock.now_ms())
        if known is None:
            return 0
        newest = known.readings[-1]
        seen = [moves for at_ms, moves in self.seen_moves if newest.began_ms <= at_ms <= newest.ended_ms]
        return seen[-1].get(key, 0) if seen else 0


class World:
    """One history."""

    def __init__(self, seed, folder):
        self.seed, self.random, self.folder = seed, random.Random(seed), folder
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.story = []
        self.failure = None
        # What kind of brokers
        self.has_epochs = self.chance(0.6)
        self.can_pop = self.chance(0.8)
        self.copies_offsets = self.chance(0.5)
        self.resets_on_server = self.can_pop and self.chance(0.8)
        self.pops_in_kv = self.can_pop and self.chance(0.2)
        self.remaking_deletes_offsets = self.chance(0.5)
        self.slaves_clear_queues = self.chance(0.7)
        #: Members are connected with slaves too, not only with the master.
        self.reaches_slaves = self.chance(0.5)
        self.loss = self.random.choice([0, 0, 0.005, 0.03])
        self.has_equal_lengths = self.chance(0.3)
        self.rate = self.random.choice([0.3, 3, 20])
        self.queues = self.random.choice([1, 2])
        self.uids = 0
        self.epoch = 0
        self.topics = ["t", "u"]
        self.brokers = [Broker(self, number) for number in range(1, 2 + self.random.randint(1, 2))]
        self.master = self.followed = None
        self.leader, self.leader_until_s = None, 0.0
        #: By key: how many rewinds somebody wanted, and what was read since each of them.
        self.moves = defaultdict(int)
        self.reads = defaultdict(lambda: [set()])
        self.groups = {}
        for number in range(3):
            topics = self.random.sample(self.topics, self.random.randint(1, 2))
            group = Group(self, f"g{number}", topics, pops=self.can_pop and self.chance(0.2))
            self.groups[group.name] = group
        self.managers = [Manager(self, number) for number in range(self.random.choice([1, 1, 2]))]
        self.deleted = set()
        #: Groups that were stopped before or at the failover, and start again after it.
        self.returning = []
        #: When each topic was made anew last.
        self.remade_s = {}
        self.writes = self.raises = 0

    def chance(self, share):
        return self.random.random() < share

    def tell(self, what):
        self.story.append(f"{self.loop.time():8.3f} {what}")

    # What groups have read

    def read(self, key, uids):
        self.reads[key][-1] |= uids

    def moved(self, group, topic, queue_id, kept):
        """Take that somebody wants messages to be read again but for those in `kept`; return how often so far."""
        key = group, topic, queue_id
        self.reads[key].append({uid for uid in kept if any(uid in uids for uids in self.reads[key])})
        self.moves[key] += 1
        return self.moves[key]

    def judge(self, manager, broker, key, offset, *, is_reset):
        group, topic, queue_id = key
        member = self.groups[group]
        self.writes += 1
        old = broker.offset(*key) or 0
        self.tell(f"manager {manager.number} writes {key} {broker.offset(*key)} -> {offset} reset={is_reset}")
        if is_reset and (topic, queue_id) in member.positions:
            old = min(old, member.positions[topic, queue_id])
        if offset <= old:
            return
        self.raises += 1
        # What the manager saw there last: it cannot see what happens in the moments before the write.
        now = manager.seen_now.get(broker.address, {}).get(key, (None, 0))
        then = manager.seen_copies.get(broker.address, {}).get(key, (None, 0))
        known = max(then[1] if then[0] == now[0] else now[1], manager.known_moves(key))
        read = set().union(*self.reads[key][known:])
        first, _ = broker.ends(topic, queue_id)
        passed = {uid for _, uid in broker.queues.get((topic, queue_id), [])[max(old, first) : offset]}
        # Messages of a deleted topic come back where a slave keeps its queues: nobody waits for them.
        unread = passed - read - self.deleted - self._hidden(manager, topic, queue_id)
        is_race = self.loop.time() - self.remade_s.get(topic, -1e9) < WRITTEN_WITHIN_S
        if unread and not is_race:
            why = f"seed {self.seed}: {key} on {broker.address} goes to {offset} over {sorted(unread)}"
            self.failure = self.failure or Violation(why)

    def _hidden(self, manager, topic, queue_id):
        """Return the messages that the master whose readings count has in its log, and does not show in the queue."""
        known = manager.readings.known_before(manager.following.last, self.clock.now_ms())
        if known is None:
            return set()
        former = next(broker for broker in self.brokers if broker.address == known.readings[-1].master)
        logged = {each.uid for each in former.log.messages if (each.topic, each.queue_id) == (topic, queue_id)}
        return logged - {uid for _, uid in former.queues.get((topic, queue_id), [])}

    # What happens

    def run(self, seconds=150):
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._run(seconds))
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()
        if self.failure is not None:
            raise self.failure

    async def _run(self, seconds):
        for broker in self.brokers:
            self._boot(broker)
        self._elect(self.brokers[0])
        for group in self.groups.values():
            self._connect(group, 5)
        works = [self._produce(), self._consume(), self._copy(), self._operate(), self._fail()]
        for manager in self.managers:
            works += [manager.run_lease(), manager.run_following(), manager.readings.run()]
        tasks = [asyncio.ensure_future(work) for work in works]
        end_s = self.loop.time() + seconds
        while self.loop.time() < end_s and self.failure is None:
            await asyncio.sleep(1)
            for task in tasks:
                if task.done() and task.exception() is not None:
                    raise task.exception()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _boot(self, broker):
        broker.boot()
        for group in self.groups.values():
            group.connected.pop(broker.address, None)

    def _elect(self, broker):
        self.epoch += 1
        self.master = broker
        if self.has_epochs:
            broker.epochs.append((self.epoch, broker.log.end))
        self.followed = SetMaster(
            SET_NAME,
            broker.number,
            broker.address,
            self.epoch if self.has_epochs else None,
            None if self.has_epochs else broker.boot_ms,
        )
        for group in self.groups.values():
            group.connect(broker, self.random.choice([0.1, 30]))
        self.tell(f"{broker.address} is master of epoch {self.epoch}, its log ends at {broker.log.end}")

    def _send(self, count):
        for _ in range(count):
            self.uids += 1
            topic, queue_id = self.random.choice(self.topics), self.random.randrange(self.queues)
            self.master.store(topic, queue_id, self.uids)

    async def _produce(self):
        while True:
            await asyncio.sleep(self.random.expovariate(self.rate))
            if self.master is not None and self.master.is_alive:
                self._send(self.random.randint(1, 3))

    async def _consume(self):
        tick = 0
        while True:
            await asyncio.sleep(0.5)
            tick += 1
            master = self.master if self.master is not None and self.master.is_alive else None
            alive = [broker for broker in self.brokers if broker.is_alive]
            for group in self.groups.values():
                if not group.is_online:
                    continue
                if master is not None and group.pulls_from(master):
                    group.consume(master)
                # Pulls carry commits too. Without a master clients commit to any replica.
                if master is None and alive and tick % 10 == 0:
                    group.commit(self.random.choice(alive))
                elif master is not None and group.pulls_from(master) and (tick % 10 == 0 or self.chance(0.3)):
                    group.commit(master)
                if self.chance(0.002):
                    self._stop_or_start(group)

    def _connect(self, group, within_s):
        for broker in self.brokers:
            if self.reaches_slaves or broker is self.master:
                group.connect(broker, within_s)

    def _stop_or_start(self, group):
        group.is_online = not group.is_online
        group.positions = {}
        if group.is_online:
            group.connected = {}
            self._connect(group, 1)

    async def _copy(self):
        tick = 0
        while True:
            await asyncio.sleep(0.2)
            tick += 1
            master = self.master
            if master is None or not master.is_alive:
                continue
            for broker in self.brokers:
                if broker is master or not broker.is_alive or broker.is_frozen:
                    continue
                if self.chance(0.8):
                    self._catch_up(broker, master)
                    broker.replicate(master, self.random.choice([3, 100]))
                if self.copies_offsets and tick % 50 == broker.number:
                    broker.copy_offsets(master)

    def _catch_up(self, broker, master):
        """Cut what is not in the log of the master, as a slave does that joins with the epochs of both."""
        if not self.has_epochs:
            return
        mine, its = broker.log.messages, master.log.messages
        count = min(len(mine), len(its))
        # Logs with epochs are copied from where they part only: below a message that both have they are the same.
        while count and mine[count - 1].uid != its[count - 1].uid:
            count -= 1
        if count < len(mine):
            broker.cut_log(broker.log.places[count])

    async def _operate(self):
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 15))
            master = self.master
            if master is None or not master.is_alive:
                continue
            group = self.random.choice(list(self.groups.values()))
            topic, queue_id = self.random.choice(group.topics), self.random.randrange(self.queues)
            what = self.random.choice(["reset", "reset", "seek", "delete", "remake", "expire"])
            self.tell(f"{what} {group.name} {topic} {queue_id}")
            if what in ("reset", "seek"):
                self._rewind(master, group, topic, queue_id, is_seek=what == "seek")
            elif what == "delete" and not group.is_online:
                master.drop_offsets(group.name, topic)
            elif what == "remake":
                self._remake(topic)
            elif what == "expire" and master.log.places:
                self._expire()

    def _remake(self, topic):
        self.remade_s[topic] = self.loop.time()
        self.master.remake(topic)
        if self.chance(0.5):
            self._send(self.random.randint(20, 600))

    def _rewind(self, master, group, topic, queue_id, *, is_seek):
        key = group.name, topic, queue_id
        offset = self.random.randint(0, master.offset(*key) or 0)
        kept = {uid for _, uid in master.queues.get((topic, queue_id), [])[:offset]}
        if group.pops:
            return
        moves = self.moved(*key, kept)
        if is_seek:
            # It commits that within 5 s.
            if group.is_online:
                group.positions[topic, queue_id], group.moves[topic, queue_id] = offset, moves
            return
        master.put_offset(*key, offset, moves)
        if self.resets_on_server and self.chance(0.7):
            master.pending[key] = offset
        elif group.is_online:
            group.positions[topic, queue_id], group.moves[topic, queue_id] = offset, moves

    def _expire(self):
        log = self.master.log
        begin = log.places[self.random.randrange((len(log.places) + 1) // 2)]
        for broker in self.brokers:
            if broker.log.end > begin:
                broker.log.begin = max(broker.log.begin, begin)

    async def _fail(self):
        await asyncio.sleep(self.random.uniform(12, 30))
        copy = None
        while True:
            if self.chance(0.4):
                copy = (
                    self.master.log.copy(),
                    {k: dict(v) for k, v in self.master.offsets.items()},
                    list(self.master.epochs),
                )
            for broker in self.brokers:
                broker.is_frozen = broker is not self.master and self.chance(0.2)
            await asyncio.sleep(self.random.uniform(3, 25))
            if len(self.managers) > 1 and self.chance(0.3):
                self._pause(self.random.choice(self.managers))
            await self._before_failover()
            await self._failover(copy)
            await asyncio.sleep(self.random.uniform(2, 40))

    async def _before_failover(self):
        """Let somebody change an offset just before the end of the master, which slaves may still copy."""
        if self.chance(0.4):
            # The last seconds of the log are on no slave.
            for broker in self.brokers:
                broker.is_frozen = broker is not self.master
            await asyncio.sleep(self.random.uniform(0.2, 6))
        if self.master is None or self.chance(0.5):
            return
        group = self.random.choice(list(self.groups.values()))
        topic, queue_id = self.random.choice(group.topics), self.random.randrange(self.queues)
        what = self.random.choice(["reset", "seek", "delete", "remake"])
        self.tell(f"{what} {group.name} {topic} {queue_id}, moments before the end")
        if what == "delete":
            if group.is_online and self.chance(0.7):
                # A group is stopped before it is deleted, and may start again once another broker is master.
                self._stop_or_start(group)
                self.returning.append(group)
            self.master.drop_offsets(group.name, topic)
        elif what == "remake":
            self._remake(topic)
        else:
            self._rewind(self.master, group, topic, queue_id, is_seek=what == "seek")
        await asyncio.sleep(self.random.uniform(0, 6))
        for broker in self.brokers:
            if self.copies_offsets and broker is not self.master and broker.is_alive and self.chance(0.5):
                broker.copy_offsets(self.master)

    def _pause(self, manager):
        seconds = self.random.choice([1, 8, 60])
        manager.is_paused_until_s = self.loop.time() + self.random.uniform(0, 2) + seconds
        self.tell(f"manager {manager.number} is paused for {seconds} s")

    async def _failover(self, copy):
        former = self.master
        former.is_alive = False
        for group in self.groups.values():
            if group.is_online and self.chance(0.3):
                # Its members end with the master, and forget where they were.
                self._stop_or_start(group)
                self.returning.append(group)
        before, self.followed = self.followed, None
        self.master = None
        self.tell(f"{former.address} is killed, its log ends at {former.log.end}")
        await asyncio.sleep(self.random.uniform(0.1, 8))
        others = [broker for broker in self.brokers if broker.is_alive]
        if others and self.chance(0.65):
            best = max(broker.log.end for broker in others)
            clean = [broker for broker in others if broker.log.end == best]
            chosen = self.random.choice(others if self.chance(0.3) else clean)
            self.followed = before
            self._elect(chosen)
            if self.chance(0.4):
                self._send(self.random.randint(20, 600))
            self._start_returning(0.5)
            if len(self.managers) > 1 and self.chance(0.2):
                self._pause(self.random.choice(self.managers))
            await asyncio.sleep(self.random.uniform(1, 10))
            if self.chance(0.4):
                self._remake(self.random.choice(self.topics))
            self._start_returning(1)
            self._boot(former)
            return
        self._lose(former, copy)
        self._boot(former)
        self.followed = before
        if self.has_epochs:
            self._elect(former)
        else:
            self.master = former
            self.followed = before._replace(boot_unix_ms=former.boot_ms)
            for group in self.groups.values():
                group.connect(former, self.random.choice([0.1, 30]))
            self.tell(f"{former.address} is master again, its log ends at {former.log.end}")
        await asyncio.sleep(self.random.uniform(0, 10))
        self._start_returning(1)

    def _start_returning(self, share):
        for group in [group for group in self.returning if self.chance(share)]:
            self.returning.remove(group)
            if not group.is_online:
                self._stop_or_start(group)

    def _lose(self, broker, copy):
        """Let a broker come back with its store, or with less."""
        what = self.random.choice(["intact", "intact", "tail", "wiped", "older"])
        self.tell(f"{broker.address} comes back: {what}")
        if what == "tail":
            count = min(len(broker.log.places), self.random.randint(1, 20))
            if count:
                broker.cut_log(broker.log.places[-count])
        elif what == "wiped":
            broker.log, broker.offsets, broker.epochs = Log(), {}, []
            broker.rebuild()
        elif what == "older" and copy is not None:
            log, offsets, epochs = copy
            broker.log = log.copy()
            if self.chance(0.6):
                broker.offsets = {k: dict(v) for k, v in offsets.items()}
            broker.epochs = list(epochs)
            broker.rebuild()
        if self.chance(0.5):
            broker.offsets = {
                name: {queue: entry for queue, entry in queues.items() if self.chance(0.9)}
                for name, queues in broker.offsets.items()
            }
        # What it has forgotten, it knows no more.
        broker.moves = {
            (group, topic, queue_id): entry.moves
            for (group, topic), queues in broker.offsets.items()
            for queue_id, entry in queues.items()
        }
