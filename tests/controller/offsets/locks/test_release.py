"""Locks are given up for clients that lost a queue, and for those that are lost."""

import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.locking_broker import MEMBERS, RUNNING, UNLOCK, OrderlyClient, holder_site
from holder_builders import BROKER, GROUP, a_member

from controller.offsets.locks.group_members import LOST_MS, UNLISTED_MS
from controller.offsets.locks.replay import Promotion
from controller.offsets.locks.replay_rules import CHECKED_MS


@pytest.fixture
async def site():
    async with holder_site(FakeClock()) as site:
        yield site


@pytest.fixture
async def client(site):
    """A client whose locks have been taken at the second broker."""
    client = site.connect("c1", OrderlyClient(0, 1))
    await site.list_members()
    await query(site)
    await site.replay.replay(
        Promotion(broker_name=BROKER, address=site.second.address, former=None, promoted_ms=site.clock.now_ms())
    )
    assert site.second.locks == {(GROUP, 0): "c1", (GROUP, 1): "c1"}
    return client


async def query(site):
    member = a_member("c1")
    assert await site.poller.confirm(member, site.mirror.members.brokers_of(member))


async def release(site, *, masters=True):
    site.masters.addresses = {BROKER: site.second.address} if masters else {}
    await site.release.release()


async def test_replayed_lock_is_given_up_once_its_client_answers_that_it_has_lost_the_queue(site, client):
    await release(site)
    assert site.second.count(UNLOCK) == 0
    client.locked.pop(0)
    site.clock.pass_ms(100)
    await query(site)
    await release(site)
    assert site.second.locks == {(GROUP, 1): "c1"}
    assert [each.member.client_id for each in site.observer.released] == ["c1"]
    await release(site)
    assert site.second.count(UNLOCK) == 1


async def test_lock_of_a_client_that_has_got_the_queue_again_is_left_to_it(site, client):
    client.locked.pop(0)
    site.clock.pass_ms(100)
    await query(site)
    # It has locked the queue since, and the mirror has not seen that.
    client.locked[0] = 1_700_000_000_100
    await release(site)
    assert site.second.count(UNLOCK) == 0
    assert len(site.second.locks) == 2


async def test_lock_of_a_client_that_cannot_be_queried_again_is_not_given_up(site, client):
    client.locked.pop(0)
    site.clock.pass_ms(100)
    await query(site)
    for broker in (site.first, site.second):
        broker.refuses.add(RUNNING)
    await release(site)
    assert site.second.count(UNLOCK) == 0


@pytest.mark.parametrize("is_lost", [True, False])
async def test_request_that_waits_too_long_after_its_check_is_not_sent(site, client, is_lost):
    if is_lost:
        for broker in (site.first, site.second):
            broker.clients.clear()
        site.clock.pass_ms(LOST_MS)
        await site.list_members()
    else:
        client.locked.pop(0)
        site.clock.pass_ms(100)
        await query(site)
    checks = site.second.count(MEMBERS), site.first.count(RUNNING) + site.second.count(RUNNING)
    site.second.before_answer = lambda code: site.clock.pass_ms(CHECKED_MS + 1) if code in {MEMBERS, RUNNING} else None
    site.first.before_answer = site.second.before_answer
    await release(site)
    assert (site.second.count(MEMBERS), site.first.count(RUNNING) + site.second.count(RUNNING)) != checks
    assert site.second.count(UNLOCK) == 0


async def test_locks_of_a_client_that_has_come_back_are_left_to_it(site, client):
    for broker in (site.first, site.second):
        broker.clients.clear()
    site.clock.pass_ms(LOST_MS)
    await site.list_members()
    site.connect("c1", client)
    await release(site)
    assert site.second.count(UNLOCK) == 0
    assert site.mirror.members.clients_of(GROUP) == ("c1",)


async def test_client_whose_brokers_are_gone_with_it_is_forgotten(site, client):
    site.clock.pass_ms(UNLISTED_MS - 1)
    await release(site, masters=False)
    assert site.mirror.members.clients_of(GROUP) == ("c1",)
    site.clock.pass_ms(1)
    await release(site, masters=False)
    assert (len(site.mirror.table), site.mirror.members.clients_of(GROUP)) == (0, ())
    assert site.second.count(UNLOCK) == 0


async def test_locks_of_a_client_that_is_gone_are_given_up_and_it_is_forgotten(site, client):
    for broker in (site.first, site.second):
        broker.clients.clear()
    site.clock.pass_ms(LOST_MS - 1)
    await site.list_members()
    await release(site)
    assert len(site.second.locks) == 2
    site.clock.pass_ms(1)
    await site.list_members()
    await release(site)
    assert site.second.locks == {}
    assert (len(site.mirror.table), site.mirror.members.clients_of(GROUP)) == (0, ())


async def test_master_lists_a_group_once_for_all_its_members_that_are_gone(site, client):
    other = site.connect("c2", OrderlyClient(2))
    await site.list_members()
    assert await site.poller.confirm(a_member("c2"), [site.second.address])
    site.second.locks[GROUP, 2] = "c2"
    for broker in (site.first, site.second):
        broker.clients.clear()
    site.clock.pass_ms(LOST_MS)
    await site.list_members()
    lists = site.second.count(MEMBERS)
    site.connect("c2", other)
    await release(site)
    assert site.second.count(MEMBERS) == lists + 1
    assert site.second.locks == {(GROUP, 2): "c2"}
    assert site.mirror.members.clients_of(GROUP) == ("c2",)


@pytest.mark.parametrize("fault", ["no master", "no answer", "no list"])
async def test_locks_that_cannot_be_given_up_now_are_given_up_later(site, client, fault):
    for broker in (site.first, site.second):
        broker.clients.clear()
    site.clock.pass_ms(LOST_MS)
    await site.list_members()
    if fault != "no master":
        site.second.refuses.add({"no answer": UNLOCK, "no list": MEMBERS}[fault])
    await release(site, masters=fault != "no master")
    assert len(site.second.locks) == 2
    site.second.refuses.clear()
    await release(site)
    assert site.second.locks == {}


async def test_lock_that_another_client_has_taken_stays(site, client):
    site.second.locks[GROUP, 0] = "c2"
    for broker in (site.first, site.second):
        broker.clients.clear()
    site.clock.pass_ms(LOST_MS)
    await site.list_members()
    await release(site)
    assert site.second.locks == {(GROUP, 0): "c2"}


async def test_releasing_goes_on_by_itself(site, client):
    site.masters.addresses = {BROKER: site.second.address}
    client.locked.clear()
    site.clock.pass_ms(100)
    await query(site)
    site.tasks.start(site.release.keep_releasing(), "release")
    async with asyncio.timeout(20):
        while site.second.locks:
            await asyncio.sleep(0.01)


async def test_nothing_is_given_up_at_a_broker_that_is_not_master_any_more(site, client):
    client.locked.clear()
    site.clock.pass_ms(100)
    await query(site)
    site.masters.former = {site.second.address}
    await release(site)
    assert site.second.count(UNLOCK) == 0
    site.masters.former = set()
    site.clock.pass_ms(100)
    await query(site)
    await release(site)
    assert site.second.locks == {}
