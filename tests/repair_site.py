"""A broker set in memory, its readings, and the product's repairs and restores over them; nothing happens by itself."""

import asyncio

from fakes.clock import FakeClock
from offset_fuzz.brokers import CLUSTER, SET, Broker

from offsets.at_broker import fingerprint_of
from offsets.proof import Fingerprint
from offsets.readings.reading import KnownBefore, Reading, ReplicaReading
from offsets.repair.runs import OffsetsLost, OffsetsRepaired
from offsets.repair.service import Repairer
from offsets.sets.followed import FollowedSet, MasterChange, MasterChangeKind, SetMaster
from offsets.values import GroupTopic, SetName
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.log_epochs import LogEpoch
from remoting.admin.stored_messages import read_message
from remoting.background_tasks import BackgroundTasks
from remoting.protocol.errors import ConnectionRefused, InvokeTimeout

NAME = SetName(CLUSTER, SET)


class Group:
    """A group with a member, or without."""

    def __init__(self, *, is_online=True, pops=False, positions=None):
        self.is_online, self.pops, self.tells = is_online, pops, True
        self.positions = {("t", 0): 1_000_000} if positions is None else positions
        self.topics = ["t"]

    def is_connected(self, _):
        return self.is_online


class Site:
    """Master A, slave B, static roles unless `has_epochs`."""

    def __init__(self, folder, *, has_epochs=False, resets_on_server=True, pops_in_kv=False, can_pop=True):
        self.folder, self.clock = folder, FakeClock()
        self.has_epochs, self.resets_on_server, self.pops_in_kv = has_epochs, resets_on_server, pops_in_kv
        self.has_equal_lengths = False
        self.can_pop, self.slaves_clear_queues, self.remaking_deletes_offsets = can_pop, True, True
        self.groups = {"g": Group()}
        self.a, self.b = Broker(self, 1), Broker(self, 2)
        for broker in (self.a, self.b):
            broker.boot()
        self.uids, self.epoch, self.deleted = 0, 1, set()
        self.master = self.a
        self.a.epochs.append((1, 0))
        self.readings, self.copies, self.marks, self.former_marks = [], [], {}, ()
        self._former_end = None
        self.is_leading = self.knows_master = True
        self.told, self.parted = [], []
        #: Called before each request is sent: may raise, and change anything.
        self.before = lambda broker, request: None
        #: Codes that are answered and whose answer is lost.
        self.lost = set()
        self.codes = []
        self.tasks = BackgroundTasks(self._failed)
        self.failures = []

    def _failed(self, name, error):
        self.failures.append(error)

    def moved(self, *_):
        return 0

    # What happens

    def send(self, count=1, *, topic="t", queue_id=0):
        for _ in range(count):
            self.uids += 1
            self.master.store(topic, queue_id, self.uids)

    def commit(self, offset, *, group="g", topic="t", queue_id=0, at=None):
        (at or self.master).put_offset(group, topic, queue_id, offset, 0)

    def copy(self):
        self.b.replicate(self.a, 1 << 30)

    def read(self, *, ago_ms=0):
        """Read the master, and the slave after it; a message comes in between two readings."""
        now_ms = self.clock.now_ms() - ago_ms
        log = self.master.log
        if self._former_end is not None and (message := log.at(self._former_end)) is not None:
            body = self.master._message({"offset": str(self._former_end)}, None).body
            self.marks[self._former_end] = fingerprint_of(read_message(body))
            assert message.length
        elif log.messages:
            body = self.master._message({"offset": str(log.places[-1])}, None).body
            self.marks[log.places[-1]] = fingerprint_of(read_message(body))
        self._former_end = log.end
        mark = self.marks[max(self.marks)] if self.marks else None
        epochs = None
        if self.has_epochs:
            epochs = tuple(LogEpoch(epoch=epoch, start_offset=start) for epoch, start in self.master.epochs)
        reading = Reading(
            set_name=NAME,
            master=self.master.address,
            master_epoch=self.epoch if self.has_epochs else None,
            boot_unix_ms=self.master.boot_ms,
            began_ms=now_ms - 20,
            ended_ms=now_ms - 10,
            ended_unix_ms=self.clock.unix_ms() - ago_ms,
            first_end=log.end,
            second_end=log.end,
            epochs=epochs,
            fingerprints=() if mark is None else (mark,),
            offsets=_table(self.master),
        )
        self.readings.append(reading)
        copy = ReplicaReading(address=self.b.address, began_ms=now_ms - 9, ended_ms=now_ms - 8, offsets=_table(self.b))
        self.copies.append(copy)
        self.clock.pass_ms(100)

    @property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        return tuple(self.marks[place] for place in sorted(self.marks))

    @property
    def followed(self):
        broker = self.master
        epoch, boot = (self.epoch, None) if self.has_epochs else (None, broker.boot_ms)
        return SetMaster(NAME, broker.number, broker.address, epoch, boot)

    @property
    def sets(self):
        return {SET: FollowedSet(set_name=NAME, master=self.followed)}

    def promote(self, broker):
        self.master.is_alive = False
        self.master, self.epoch = broker, self.epoch + 1
        broker.epochs.append((self.epoch, broker.log.end))

    def known_before(self, master, _):
        former = [reading for reading in self.readings if reading.master != master.address]
        former = former or self.readings
        if not former:
            return None
        copies = [copy for copy in self.copies if copy.address == master.address]
        return KnownBefore(
            readings=tuple(former),
            replica_readings=tuple(copies),
            fingerprints=self.fingerprints,
            lost=self.former_marks,
        )

    # The product

    def admin(self):
        return AdminClient(self, AdminLimits(requests_max=64, requests_per_peer_max=16))

    def repairer(self, acts_for=lambda _: True):
        return Repairer(
            self.admin(),
            self.clock,
            self.told.append,
            self.folder / "repairs",
            known_before=self.known_before,
            parted=lambda master, place: self.parted.append(place),
            is_leading=lambda: self.is_leading,
            is_master=lambda master: self.knows_master and master == self.followed,
            acts_for=acts_for,
            tasks=self.tasks,
        )

    async def run(self, repairer, kind=MasterChangeKind.MOVED):
        """Let a run go to its end, without waiting for members."""
        repairer.changed(MasterChange(kind, NAME, None, self.followed, self.clock.unix_ms()))
        for _ in range(4_000):
            await asyncio.sleep(0.001)
            self.clock.pass_ms(1)
            if repairer.running == 0 or any(isinstance(event, OffsetsLost | OffsetsRepaired) for event in self.told):
                break
        # It is kept on disk by a thread, and ends, unless it waits for members.
        await _until(lambda: repairer.running == 0 or any((self.folder / "repairs").glob("*")), steps=2_000)
        await _until(lambda: repairer.running == 0, steps=200)
        assert not self.failures, self.failures

    async def invoke(self, address, request, timeout_ms, before_send=lambda: None):
        await asyncio.sleep(0)
        broker = self.a if address == self.a.address else self.b
        self.before(broker, request)
        before_send()
        self.codes.append(request.code)
        if not broker.is_alive:
            raise ConnectionRefused(address, "nobody listens")
        answer = broker.answer(request, lambda *_, **__: None)
        if request.code in self.lost:
            raise InvokeTimeout(address, timeout_ms)
        return answer

    def connection_number(self, address):
        """Return none: what a process reported earlier is not kept."""


async def _until(is_over, steps):
    for _ in range(steps):
        if is_over():
            return
        await asyncio.sleep(0.005)


def _table(broker):
    return {
        GroupTopic(group, topic): {queue: entry.offset for queue, entry in queues.items()}
        for (group, topic), queues in broker.offsets.items()
    }
