"""The manager that leads follows the holders of declared groups, and replays their locks at new masters."""

import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.order_site import ME, eventually, locks, order_site
from fakes.orderly_broker import LOCK, MEMBERS, UNLOCK, OrderlyClient
from orderly_builders import ORDERLY

from offsets.order import polling, service
from offsets.order.events import (
    BrokerLockOverlap,
    BrokerLocksReleased,
    BrokerLocksReplayed,
    OrderlyGroupsUnreadable,
)
from offsets.order.holders import BROKER_LOCK_MS, FRESH_MS, UNCONFIRMED_MS


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """What is repeated is repeated often."""
    monkeypatch.setattr(polling, "LIST_PERIOD_MS", 200)
    monkeypatch.setattr(service, "TICK_MS", 50)


@pytest.fixture
async def site():
    async with order_site() as site:
        site.tasks.keep_running(site.order.run, "order")
        site.tasks.keep_running(lambda: kept_fresh(site), "fresh")
        yield site


async def kept_fresh(site):
    while True:
        site.fresh()
        await asyncio.sleep(0.2)


async def test_new_master_gets_the_locks_of_holders_of_declared_groups(site):
    site.connect("c1", OrderlyClient(0, 1))
    await eventually(lambda: site.holds("c1"))
    site.fail_over()
    await eventually(lambda: site.told(BrokerLocksReplayed))
    assert locks(site.second) == {0: "c1", 1: "c1"}
    assert site.first.count(LOCK) == 0


async def test_holders_that_nobody_reaches_once_their_master_is_killed_get_their_locks_at_the_next_one(site):
    """Clients that come by a role address are connected to the master alone: polling has just confirmed them."""
    site.connect("c1", OrderlyClient(0), site.first)
    await eventually(lambda: site.holds("c1"))
    await asyncio.sleep(FRESH_MS / 1000 + 0.5)
    await site.first.close()
    site.elect(site.second)
    await eventually(lambda: site.told(BrokerLocksReplayed))
    assert locks(site.second) == {0: "c1"}


async def test_replayed_lock_whose_client_has_lost_the_queue_is_given_up(site):
    client = site.connect("c1", OrderlyClient(0))
    await eventually(lambda: site.holds("c1"))
    site.fail_over()
    await eventually(lambda: site.told(BrokerLocksReplayed))
    client.locked.clear()
    await eventually(lambda: site.told(BrokerLocksReleased))
    assert site.second.locks == {}


async def test_master_that_restarts_gets_the_locks_again(site):
    site.connect("c1", OrderlyClient(0))
    await eventually(lambda: site.holds("c1"))
    site.first.restart()
    site.elect(site.first)
    await eventually(lambda: site.first.locks)
    assert locks(site.first) == {0: "c1"}


async def test_group_that_is_undeclared_gets_no_locks(site):
    site.connect("c1", OrderlyClient(0))
    await eventually(lambda: site.holds("c1"))
    assert await site.declared.undeclare(ORDERLY, "alice")
    await eventually(lambda: not site.clients())
    site.fail_over()
    assert LOCK not in site.requests()


async def test_nothing_is_locked_while_replay_is_off_and_overlaps_are_found_all_the_same():
    async with order_site(replays=False) as site:
        site.tasks.keep_running(site.order.run, "order")
        site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.fail_over()
        site.connect("c2", OrderlyClient(0), site.second)
        await eventually(lambda: site.told(BrokerLockOverlap))
        assert site.told(BrokerLockOverlap)[0].clients == ("c1", "c2")
        assert not {LOCK, UNLOCK}.intersection(site.requests())


async def test_manager_that_does_not_lead_asks_nobody_and_one_that_ceases_to_takes_no_locks(site):
    site.connect("c1", OrderlyClient(0))
    await eventually(lambda: site.holds("c1"))
    site.lead.follows(None)
    site.fail_over()
    await asyncio.sleep(0.2)
    assert LOCK not in site.requests()
    assert not site.told(BrokerLocksReplayed)


# Pauses


@pytest.fixture
async def paused():
    """A site whose clock a test moves; nothing goes on by itself."""
    async with order_site(FakeClock()) as site:
        await site.declared.load()
        site.order._loaded_term = site.lead.term
        site.connect("c1", OrderlyClient(0))
        await site.mirrored()
        yield site


async def test_manager_that_does_not_lead_for_a_moment_still_knows_holders_and_locks(paused):
    await paused.replay.replay(paused.promotion())
    paused.order.look()
    paused.lead.follows(None)
    for _ in range(BROKER_LOCK_MS // 10_000):
        paused.pass_ms(10_000)
        paused.order.look()
    assert (paused.holds("c1"), paused.replayed()) == (True, {"c1": [0]})
    paused.pass_ms(1)
    paused.order.look()
    assert (paused.clients(), paused.declared.groups) == ([], None)


async def test_client_that_no_broker_lists_any_more_is_forgotten(paused):
    paused.disconnect_all()
    await paused.list_members()
    paused.pass_ms(UNCONFIRMED_MS - 1)
    paused.order.look()
    assert paused.clients() == ["c1"]
    paused.pass_ms(1)
    paused.order.look()
    assert paused.clients() == []


async def test_manager_that_never_led_sends_nothing():
    async with order_site() as site:
        site.lead.follows(None)
        site.connect("c1", OrderlyClient(0))
        await site.declared.load()
        site.order.look()
        site.fail_over()
        await asyncio.sleep(0.1)
        assert site.requests() == []


# Declared groups


async def test_groups_are_loaded_in_each_lead_and_a_store_that_fails_is_named_once():
    async with order_site() as site:
        site.store.fails = "etcd does not answer"
        site.tasks.keep_running(site.order.run, "order")
        await eventually(lambda: site.told(OrderlyGroupsUnreadable))
        await asyncio.sleep(0.2)
        assert [event.problem for event in site.events] == ["etcd does not answer"]
        assert MEMBERS not in site.requests()
        site.store.fails = ""
        await eventually(lambda: site.declared.groups == {ORDERLY})
        site.store.value = b"[]"
        site.lead.follows(None)
        site.lead.leads(None)
        await eventually(lambda: site.declared.groups == frozenset())
        assert site.lead.leader == ME
