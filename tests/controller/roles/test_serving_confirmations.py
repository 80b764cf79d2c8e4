"""An elected master counts as serving once it has changed to master itself."""

import asyncio

import pytest
from controller_builders import a_set
from fakes.clock import FakeClock

from controller.failover.group import Group
from controller.roles.broker_roles import QUERIES_MAX, ServingConfirmations, again_ms
from controller.roles.changes import RoleChanges
from store.store import ControllerMember, SetStore

SOON_S = 20
FIRST = a_set(master=1, master_epoch=5)
SECOND = FIRST.with_master(2)


class Leader:
    """A controller that leads, and brokers that change to master when a test lets them."""

    def __init__(self):
        self.clock = FakeClock()
        me = ControllerMember(id="n0", address="x:1")
        self.group = Group("g", me, self.clock, SetStore(None), deposed=self.deposed)
        self.group.leads(None)
        self.changes = RoleChanges(self.clock)
        self.masters, self.queried, self.reported, self.tasks = set(), [], [], []
        self.gate = None
        self.serving = ServingConfirmations(
            self.group, self.clock, self.start, self.is_master, lambda *values: self.reported.append(values)
        )

    def deposed(self):
        self.serving.clear()

    def start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.append(task)
        return task

    async def is_master(self, address):
        self.queried.append(address)
        self.clock.pass_ms(10)
        if self.gate is not None:
            await self.gate.wait()
        return address in self.masters

    def publish(self):
        for each in self.changes.take():
            self.serving.role_changed(each)

    async def done(self):
        async with asyncio.timeout(SOON_S):
            await asyncio.wait(self.tasks)

    async def queries(self, number):
        async with asyncio.timeout(SOON_S):
            while len(self.queried) < number:
                await asyncio.sleep(0.001)


@pytest.fixture
async def leader():
    leader = Leader()
    yield leader
    leader.group.follows(None)
    await leader.done()


async def test_master_is_queried_until_it_has_changed_to_master(leader):
    leader.changes.set_changed(FIRST, SECOND)
    (change,) = leader.changes._collected
    leader.publish()
    await leader.queries(3)
    assert not leader.serving.is_confirmed(SECOND)
    assert not leader.reported
    leader.masters.add(SECOND.master_address)
    await leader.done()
    assert leader.serving.is_confirmed(SECOND)
    assert not leader.serving.is_confirmed(FIRST)
    assert leader.reported == [(change, 10 * len(leader.queried))]


def test_broker_that_does_not_change_to_master_is_queried_ever_less_often():
    waits = [(after_ms, again_ms(after_ms)) for after_ms in (0, 250, 300, 5_000, 60_000, 100_000, 3_600_000)]
    assert waits == [
        (0, 25),
        (250, 25),
        (300, 30),
        (5_000, 500),
        (60_000, 6_000),
        (100_000, 10_000),
        (3_600_000, 10_000),
    ]


async def test_next_election_ends_the_queries_of_the_one_before(leader):
    leader.changes.set_changed(FIRST, SECOND)
    leader.publish()
    await leader.queries(2)
    third = SECOND.with_master(3)
    leader.masters.add(third.master_address)
    leader.changes.set_changed(SECOND, third)
    leader.publish()
    await leader.done()
    assert leader.serving.is_confirmed(third)
    # Though it changes to master now.
    leader.masters.add(SECOND.master_address)
    assert not leader.serving.is_confirmed(SECOND)


async def test_answer_for_an_earlier_epoch_confirms_nothing(leader):
    leader.gate = asyncio.Event()
    leader.masters.add(SECOND.master_address)
    leader.changes.set_changed(FIRST, SECOND)
    leader.publish()
    await leader.queries(1)
    nobody = SECOND.with_master(None)
    leader.changes.set_changed(SECOND, nobody)
    leader.publish()
    leader.gate.set()
    await leader.done()
    assert not leader.serving.is_confirmed(SECOND)
    assert not leader.serving.is_confirmed(nobody)
    assert not leader.reported


async def test_controller_that_leads_no_longer_confirms_nothing(leader):
    leader.masters.add(SECOND.master_address)
    leader.changes.set_changed(FIRST, SECOND)
    leader.publish()
    await leader.done()
    leader.group.follows(None)
    assert not leader.serving.is_confirmed(SECOND)


async def test_election_is_confirmed_before_the_thousands_that_a_new_leader_found(leader):
    leader.gate = asyncio.Event()
    leader.changes.repeat(a_set(broker_name=f"broker-{i}") for i in range(QUERIES_MAX + 5))
    leader.publish()
    await leader.queries(QUERIES_MAX)
    leader.changes.set_changed(FIRST, SECOND)
    leader.publish()
    await leader.queries(QUERIES_MAX + 1)
    assert leader.queried.index(SECOND.master_address) == QUERIES_MAX
    leader.masters.update({SECOND.master_address, FIRST.master_address})
    leader.gate.set()
    await leader.done()
    assert len(leader.reported) == QUERIES_MAX + 6
