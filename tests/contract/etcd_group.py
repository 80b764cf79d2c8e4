"""Controllers of one group on an etcd, for the tests of the etcd store."""

import contextlib

from controller_builders import SET, a_set
from fakes.leadership_listener import RecordingListener, eventually

from controller.sets.stored_set import StoredSet
from remoting.clock import SystemClock
from store.etcd.etcd_store import EtcdOptions, EtcdStore
from store.store import ControllerMember

#: Far longer than any lease: how long a slow machine may take to come to a leader.
SOON_S = 40


def an_entry(epoch=5):
    return StoredSet(broker_set=a_set(master_epoch=epoch))


class Controller:
    """A store with its leadership listener."""

    def __init__(self, number, endpoints, **options):
        self.member = ControllerMember(id=f"n{number}", address=f"10.0.0.{number}:9878")
        self.store = EtcdStore(EtcdOptions(endpoints=tuple(endpoints), **options), SystemClock())
        self.listener = RecordingListener()
        self.is_closed = False

    async def join(self):
        await self.store.join(self.member, self.listener)
        return self

    async def leads(self):
        await eventually(lambda: self.listener.is_leading, seconds=SOON_S, what=f"{self.member.id} leads")
        return self

    async def knows(self, leader):
        await eventually(
            lambda: self.listener.leader == leader, seconds=SOON_S, what=f"{self.member.id} knows that {leader} leads"
        )

    async def commit(self, epoch=5, revision=0, name=SET):
        return await self.store.commit(name, an_entry(epoch), revision)

    async def vanish(self):
        """End as a killed process does: nothing is said to anybody."""
        self.is_closed = True
        for task in self.store._tasks:
            task.cancel()
        self.store._election.stop()
        self.store._close()

    async def close(self):
        if not self.is_closed:
            self.is_closed = True
            await self.store.resign()
            await self.store.close()


@contextlib.asynccontextmanager
async def group(endpoints, *, number=1, **options):
    """Let so many controllers join; the first of them leads."""
    controllers = [Controller(n, endpoints, **options) for n in range(1, number + 1)]
    try:
        for controller in controllers:
            await controller.join()
            await controllers[0].leads()
        yield controllers
    finally:
        for controller in reversed(controllers):
            await controller.close()


async def leader_of(controllers):
    """Return the one that leads, once exactly one does."""

    def the_one():
        leading = [each for each in controllers if each.listener.is_leading]
        return leading[0] if len(leading) == 1 else None

    return await eventually(the_one, seconds=SOON_S, what="one of them leads")
