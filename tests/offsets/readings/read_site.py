"""A broker set of two brokers in memory that is followed and read; time passes when a test says so."""

import asyncio
import contextlib

from fakes.clock import FakeClock
from read_brokers import Brokers, ReadBroker
from set_builders import CLUSTER, SET, a_master, an_address

from offsets.config import OffsetManagerConfig
from offsets.readings.readings import Readings
from offsets.sets.followed import FollowedSet, MasterChange, MasterChangeKind
from offsets.sets.following import Following
from offsets.values import QueueKey, SetName

PERIOD_MS = 5000
#: Brokers that hang are not waited for.
WAITS_MAX = 200
KEY = QueueKey("g", "orders", 0)
NAME = SetName(CLUSTER, SET)


class Site:
    """A set of two brokers that is followed and read; time passes when a test says so."""

    def __init__(self, folder, clock=None, brokers=None):
        self.clock, self.events, self.failures = clock or FakeClock(), [], []
        self.brokers = brokers or {1: a_broker(0), 2: a_broker(2)}
        self.client = Brokers(**{an_address(number): broker for number, broker in self.brokers.items()})
        self.following = Following(self.clock, self.events.append)
        self.readings = Readings(
            self.client,
            self.following,
            self.clock,
            self.events.append,
            lambda name, error: self.failures.append((name, error)),
            OffsetManagerConfig(store_path=str(folder), reading_period_ms=PERIOD_MS),
        )
        self.master = None
        self.elect(1, 5)

    def elect(self, number, epoch, *, boot=None):
        """Let a broker be master, as the controllers say."""
        before, self.master = self.master, a_master(number, epoch, boot_unix_ms=boot)
        members = tuple(map(an_address, self.brokers))
        self.following.sets = {SET: FollowedSet(NAME, self.master, members, epoch)}
        for listener in self.following.listeners:
            kind = MasterChangeKind.FOUND if before is None else MasterChangeKind.MOVED
            listener(MasterChange(kind, NAME, before, self.master, self.clock.unix_ms()))

    def promote(self, number, epoch):
        """Let a broker be master by its own answer too."""
        for other, broker in self.brokers.items():
            broker.broker_id = 0 if other == number else other
        broker = self.brokers[number]
        broker.epochs = [*broker.epochs, (epoch, broker.end)]
        self.elect(number, epoch)

    async def pass_ms(self, ms=PERIOD_MS, *, is_fresh=True):
        self.clock.pass_ms(ms)
        if is_fresh:
            self.following.answered_ms = self.clock.now_ms()
        # What is due begins at the next tick.
        await asyncio.sleep(0.005)
        for _ in range(WAITS_MAX):
            if not self._is_reading():
                break
            await asyncio.sleep(0.001)

    def _is_reading(self):
        found = self.readings._sets.values()
        return any(each.is_under_way for one in found for each in (one, *one.replicas.values()))

    async def read(self, count=1, *, offset=None, master=1):
        """Let periods pass in which messages are written and an offset moves."""
        for _ in range(count):
            self.brokers[master].write(2, body=b"of %d" % master)
            if offset is not None:
                self.brokers[master].offsets["orders@g"] = {0: offset}
            await self.pass_ms()

    def told(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def known(self, master=None):
        return self.readings.known_before(master or self.master, self.clock.now_ms())

    def status(self):
        (status,) = self.readings.statuses()
        return status

    def newest(self):
        return self.readings.newest()[NAME]


def a_broker(broker_id):
    broker = ReadBroker(SET)
    broker.broker_id, broker.epochs = broker_id, [(1, 0)]
    broker.offsets = {"orders@g": {0: 1}}
    broker.write(4)
    return broker


@contextlib.asynccontextmanager
async def running(folder, **values):
    site = Site(folder, **values)
    await site.readings.load()
    task = asyncio.create_task(site.readings.run())
    yield site
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await site.readings.close()
    assert site.failures == []
