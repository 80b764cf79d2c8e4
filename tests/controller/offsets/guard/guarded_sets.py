"""Broker sets that fail over: fake masters, the mirror's own tables, followed masters, and a guard over all of them."""

import contextlib
import json
from dataclasses import replace

from fake_master import FakeMaster
from fakes.clock import FakeClock
from fakes.leadership_listener import eventually as eventually_true
from fakes.lines import Lines
from guard_logs import READ_MS, SIZE, Queue
from mirror_builders import unreadable

from controller.offsets.app.guarding import Guarding
from controller.offsets.app.guarding_parts import GuardingParts
from controller.offsets.guard.rules import Tail
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.comparison import MasterReading
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.regressions import (
    GuardWrites,
    KnownResets,
    KnownWrites,
    RegressionLog,
    regressions_of,
)
from controller.offsets.observability.guard_counters import GuardCounters
from controller.offsets.observability.guard_event_log import GuardEventLog
from controller.offsets.recording.offset_recorder import OffsetRecorder
from controller.offsets.topology.answers import MastersAnswer
from controller.offsets.topology.masters import Masters
from controller.offsets.topology.values import FollowedSet, SetMaster
from remoting.admin.offset_table import OffsetTable
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from serving.logging.logs import Logs, json_line

CLUSTER = "DefaultCluster"
#: Where the master was that is lost.
OLD_ADDRESS = "127.0.0.1:1"
ORDERS = ("orders", 0)
KEY = "orders@g"


def a_master(offsets, *, old=100, new=20, epochs=((1, 0), (2, None))):
    """Return a master whose group pulls, as its client says."""
    master = FakeMaster({ORDERS: Queue(old=old, new=new)}, offsets, epochs=epochs)
    master.clients = {"g": "pulls"}
    return master


async def eventually(condition):
    return await eventually_true(condition, seconds=20, what="the guard is so far")


def set_name(name="b"):
    return SetName(CLUSTER, name)


class KnownMasters(Masters):
    """The masters of all sets, by a controller that answers or does not."""

    def __init__(self):
        super().__init__()
        self.fresh = True
        self.listeners = []

    def is_fresh(self):
        return self.fresh

    def is_master(self, master):
        return self.fresh and super().is_master(master)


class Mirrors:
    """The mirror of each set, without the poller that reads brokers."""

    def __init__(self, clock):
        self._clock = clock
        self._mirrors = {}
        self._rewinds = KeptRewinds()
        self.resets, self.regressions = KnownResets(), RegressionLog()
        #: What the guard was about to set back.
        self.set_back = []
        #: Since when nobody listens where the former masters were.
        self.down_ms = None

    def read(self, table, *, name="b", address=OLD_ADDRESS, epoch=1, boot_ms=0, log_end=None):
        """Take an answer of a master that comes now; its log ends with the last message that a group has read."""
        run = MasterRun(address=address, master_epoch=epoch, boot_unix_ms=boot_ms)
        unix_ms = self._clock.unix_ms()
        body = json.dumps({"offsetTable": table}, separators=(",", ":")).encode()
        mirror = self._mirrors.setdefault(set_name(name), BrokerMirror(set_name(name)))
        highest = max((each for queues in table.values() for each in queues.values()), default=0)
        read = ReadState(run, unix_ms, unix_ms, highest * SIZE if log_end is None else log_end)
        changes = mirror.take(MasterReading(read=read, table=OffsetTable(body), requested_ms=self._clock.now_ms()))
        for each in regressions_of(changes, KnownWrites(self.resets, GuardWrites(), is_leading=True)):
            self.regressions.add(each)
        for _ in self._rewinds.slices(changes):
            pass

    def saved(self, name):
        return self._mirrors[name].saved if name in self._mirrors else None

    def saved_before(self, name, run):
        return self._mirrors[name].saved_before(run)

    def down_since(self, _name):
        return self.down_ms

    def settle(self, name, run):
        self._mirrors[name].settle(run)

    def rewinds(self, name):
        return self._rewinds.of_set(name)

    def unseen_resets(self, name, requested_unix_ms):
        return self.resets.unseen(name, requested_unix_ms)

    def is_reset_unseen(self, queue, requested_unix_ms):
        return self.resets.is_unseen(queue, requested_unix_ms)

    def guard_writes(self, queue, offset):
        self.set_back.append((str(queue.set_name), f"{queue.key.topic}@{queue.key.group}", queue.queue_id, offset))

    def restart(self):
        """Know what the file had after a restart of this manager: no monotonic time, and the readings."""
        for name, mirror in self._mirrors.items():
            saved, *former = (replace(each, requested_ms=None) for each in (mirror.saved, *mirror.former_runs))
            self._mirrors[name] = BrokerMirror.restored(name, saved, tuple(former))

    def spoil(self, name="b"):
        """Let what was read be unreadable, as a fault of this process might."""
        mirror = self._mirrors[set_name(name)]
        mirror.saved = unreadable(mirror.saved)

    def has_former(self, name="b"):
        return bool(self._mirrors[set_name(name)].former_runs)


class GuardedSets:
    """A guard over some sets; each has one master at a time."""

    def __init__(self, client, tasks, *, mode="act", tail=Tail.MAY_BE_LOST):
        self.clock = FakeClock(unix_ms=READ_MS)
        self.masters, self.mirror = KnownMasters(), Mirrors(self.clock)
        self.serves, self.other_leads = True, False
        self.lines, self.counters = Lines(), GuardCounters()
        logs = Logs(self.lines, json_line(), self.clock, {})
        parts = GuardingParts(
            client=client,
            clock=self.clock,
            tasks=tasks,
            mirror=self.mirror,
            following=self.masters,
            serves=lambda: self.serves,
            other_leads=lambda: self.other_leads,
            observer=GuardEventLog(logs, self.counters, OffsetRecorder()),
        )
        self.guarding = Guarding(parts, mode, tail)
        #: Of background tasks; a test that expects some takes them out.
        self.failures = []

    def elect(self, address, epoch, *, name="b", broker_id=2, unclean=False):
        """Let a controller show a master, or none where the address is None."""
        master = None if address is None else SetMaster(CLUSTER, name, broker_id, address, epoch)
        followed = FollowedSet(CLUSTER, name, master, master_epoch=epoch, unclean_epoch=epoch if unclean else None)
        answer = MastersAnswer(controller_group="c", revision="1", complete=False, sets=(followed,))
        taken = self.masters.take(answer, now_ms=self.clock.now_ms(), unix_ms=self.clock.unix_ms())
        for each in self.masters.listeners:
            each.masters_changed(taken.changes)

    def remove(self, name="b"):
        answer = MastersAnswer(controller_group="c", revision="1", complete=False, sets=(), removed=(name,))
        taken = self.masters.take(answer, now_ms=self.clock.now_ms(), unix_ms=self.clock.unix_ms())
        for each in self.masters.listeners:
            each.masters_changed(taken.changes)

    async def ended(self, runs=1):
        """Return the last run, once so many have ended."""
        await eventually(lambda: len(self.guarding.runs.runs()) >= runs)
        return self.guarding.runs.runs()[0]

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]


@contextlib.asynccontextmanager
async def guarded_sets(*masters, looks=True, **options):
    """Let these fake masters listen, and a guard look each moment for what no change shows."""
    client = RemotingClient(SystemClock())
    async with BackgroundTasks(lambda _, error: sets.failures.append(error)) as tasks:
        for each in masters:
            await each.peer.open()
        try:
            sets = GuardedSets(client, tasks, **options)
            looking = tasks.keep_running(sets.guarding.look, "look") if looks else None
            yield sets
        finally:
            if looking is not None:
                looking.cancel()
            sets.guarding.stop()
            for each in masters:
                each.silent = None
            await eventually(lambda: not sets.guarding.running)
            await client.close()
            for each in masters:
                await each.peer.close()
    assert sets.failures == []
