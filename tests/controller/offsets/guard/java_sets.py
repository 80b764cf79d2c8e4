"""Real brokers, with or without a controller, whose master is lost; and a guard that sets the offsets right."""

import asyncio
from dataclasses import dataclass, field

from peers.controllers import OurController
from peers.waiting import wait_until

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS
from controller.offsets.guard.candidates import SavedQueue, TableKey
from controller.offsets.guard.log_facts import SavedMoment
from controller.offsets.guard.rules import Tail
from controller.offsets.guard.runner import GuardedBroker, OffsetGuard
from controller.offsets.guard.unreset import UnresetGroups
from remoting.admin import offsets
from remoting.admin.brokers import broker_runtime
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.log_epochs import log_epochs
from remoting.admin.messages import send_message
from remoting.admin.offset_table import all_offsets
from remoting.admin.stored_messages import queue_entry
from remoting.admin.topics import TopicDefinition, update_topic
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.errors import InvokeError, Refused

SOON_S = 120
#: Brokers answer late on a machine that others use as well.
TIMEOUT_MS = 60_000
UNIX = SystemClock()


def admin(address, wanted):
    """Request something of a broker, over a connection of its own."""

    async def call():
        client = RemotingClient(UNIX)
        try:
            return await AdminClient(client, AdminLimits(timeout_ms=TIMEOUT_MS)).call(address, wanted)
        finally:
            await client.close()

    return asyncio.run(call())


def table(address, topic):
    """Return the offsets that a broker has of a topic, by entry and queue id."""
    pieces = admin(address, all_offsets()).of_topics([topic])
    return {TableKey(each.group, each.topic, each.is_broadcast): dict(each.offsets) for each in pieces if each}


def look(address, topic, offset, queue_id=0):
    """Return where the message at an offset of a queue is in the log; None if there is none."""
    entry = admin(address, queue_entry(topic, queue_id, offset))
    return entry.physical_offset if entry else None


def end_of(address, topic, queue_id=0):
    return admin(address, offsets.max_offset(topic, queue_id))


def offset_of(broker, group, topic):
    return table(broker.address, topic).get(TableKey(group, topic), {}).get(0)


def send(broker, topic, count):
    for number in range(count):
        message = send_message(topic, broker.name, b"%d" % number, producer_group="p", unix_ms=UNIX.unix_ms())
        admin(broker.address, message)


def make_topic(broker, topic, messages):
    """Create a topic with one queue that has so many messages."""
    admin(broker.address, update_topic(TopicDefinition(topic=topic, read_queue_nums=1, write_queue_nums=1, perm=6)))
    send(broker, topic, messages)


def online(lab, broker, namesrv, group):
    """Start a member of a group that pulls from a topic of its own: in all other topics nobody moves its offsets."""
    topic = f"only-{group}"
    make_topic(broker, topic, messages=1)
    lab.consumer(f"member-{group}", namesrv=[namesrv.address], topic=topic, group=group).ready()
    wait_until(lambda: offset_of(broker, group, topic), seconds=SOON_S, what="the member reads")


def read_moment(manager, *, ahead_s=0):
    """Return a moment from which the mirror has what there is now, all of it stored certainly before."""
    since = UNIX.unix_ms() + ahead_s * 1000 + CLOCK_MARGIN_MS

    def newest():
        sets = manager.get("/v1/offsets/mirror").body["sets"]
        return max((each["reading"]["readUnixMs"] for each in sets if each["reading"]), default=0)

    wait_until(lambda: newest() > since, seconds=SOON_S, what="a reading")
    return newest()


@dataclass
class Mirror:
    """What was read of a master before it was lost."""

    saved: dict
    moment: SavedMoment


def mirrored(address, topic, *, epoch):
    saved = {
        key: {queue_id: SavedQueue(offset) for queue_id, offset in queues.items()}
        for key, queues in table(address, topic).items()
    }
    log_end = admin(address, broker_runtime()).commit_log_max_offset
    moment = SavedMoment(epoch=epoch, unix_ms=UNIX.unix_ms(), was_restarted=False, log_end=log_end)
    return Mirror(saved, moment)


@dataclass
class Notes:
    """Keeps what the guard did, by group and queue id."""

    by_queue: dict = field(default_factory=dict)
    #: What is left until members come.
    unreset: UnresetGroups | None = None

    def is_reset_since(self, _):
        return False

    def sets_back(self, *_):
        pass

    def guarded(self, _, guarded):
        self.by_queue[guarded.candidate.group, guarded.candidate.queue_id] = guarded

    def of(self, group, queue_id=0):
        found = self.by_queue[group, queue_id]
        return found.decision.action.value, found.decision.offset, found.outcome.value


def guard(broker, mirror, tail=Tail.MAY_BE_LOST):
    """Run the guard at a broker, and return its notes and its report."""

    async def run():
        client, notes = RemotingClient(UNIX), Notes()
        try:
            offset_guard = OffsetGuard(AdminClient(client, AdminLimits()), UNIX, notes)
            wanted = GuardedBroker(
                broker_name=broker.name,
                address=broker.address,
                saved=mirror.saved,
                moment=mirror.moment,
                tail=tail,
                is_recent=True,
                is_stale=False,
                awaits_members=True,
            )
            report = await offset_guard.guard(wanted, lambda: True)
            notes.unreset = offset_guard.unreset
            return notes, report
        finally:
            await client.close()

    return asyncio.run(run())


class Pair:
    """Two brokers under a controller; the topic has the name of the set, and one queue."""

    def __init__(self, lab, version, **properties):
        self.lab, self.topic, self.version = lab, "pair", version
        self.controller = lab.kept(OurController(lab.folder, enableElectUncleanMaster=True)).start()
        wait_until(self.controller.serves, seconds=SOON_S, what="the controller serves")
        self.namesrv = lab.name_server()
        settings = self.controller.broker_settings() | {"version": version, "namesrv": [self.namesrv.address]}
        labels = [f"pair-n{number}" for number in range(2)]
        self._brokers = [lab.broker(self.topic, label=label, **(settings | properties)) for label in labels]
        for each in self._brokers:
            each.start()
        for each in self._brokers:
            each.ready()
        complete = lambda state: state.master is not None and len(state.in_sync) == 2  # noqa: E731
        self.first = self.wait_for(complete, "both in sync")
        self.master = self._at(self.first.addresses[self.first.master])
        self.slave = next(each for each in self._brokers if each is not self.master)

    def wait_for(self, condition, what):
        """Return the first state of the set that fulfils `condition`."""

        def found():
            state = self.controller.set_state(self.topic)
            return state if state is not None and condition(state) else None

        return wait_until(found, seconds=SOON_S, what=what)

    def clients(self, **options):
        return {"namesrv": [self.namesrv.address], "topic": self.topic, "version": self.version} | options

    def send(self, count):
        """Send so many messages or some more."""
        load = self.lab.load("load", **self.clients(**{"interval-ms": 4, "poll-ms": 200})).ready()
        load.wait_for_more(count=count, seconds=SOON_S).stop()

    def mirrored(self):
        return mirrored(self.master.address, self.topic, epoch=self.first.master_epoch)

    def freeze_slave(self):
        """Pause the slave until the controller has taken it out of the SyncStateSet."""
        self.slave.process.pause()
        self.wait_for(lambda state: len(state.in_sync) == 1, "the slave is out of sync")

    def kill_master(self):
        """Kill the master, and return the epoch of the one that was promoted once it serves."""
        self.master.process.kill()
        self.slave.process.resume()
        promoted = self.wait_for(lambda state: state.master not in (None, self.first.master), "a new master")
        wait_until(self._serves, seconds=SOON_S, what="the new master serves")
        return promoted.master_epoch

    def epochs(self, broker):
        return {each.epoch: each.start_offset for each in admin(broker.address, log_epochs()).epochs}

    def _serves(self):
        try:
            return admin(self.slave.address, log_epochs()).broker_id == 0
        except (InvokeError, Refused):
            return False

    def _at(self, address):
        return next(each for each in self._brokers if each.address == address)
