"""Locks are given up for clients that lost a queue, and for those that are lost."""

import pytest
from fakes.clock import FakeClock
from fakes.order_site import locks, order_site
from fakes.orderly_broker import GROUP, MEMBERS, RUNNING, UNLOCK, OrderlyClient
from orderly_builders import a_member, a_queue, answer, held_by

from offsets.order.events import RELEASED, BrokerLocksReleased
from offsets.order.holders import BROKER_LOCK_MS, LOST_MS, UNLISTED_MS, Holders
from offsets.order.replay import CHECKED_MS, lost_queues
from serving.telemetry.events import Count


@pytest.fixture
async def site():
    async with order_site(FakeClock()) as site:
        yield site


@pytest.fixture
async def client(site):
    """A client whose locks have been taken at the second broker."""
    client = site.connect("c1", OrderlyClient(0, 1))
    await site.mirrored()
    await site.replay.replay(site.promotion())
    assert locks(site.second) == {0: "c1", 1: "c1"}
    return client


async def ask(site):
    assert await site.polling.confirm(a_member("c1"))


async def release(site, *, masters=True):
    master = site.master(site.second)
    await site.replay.release({master.set_name: master} if masters else {})


async def lose_all(site):
    site.disconnect_all()
    site.pass_ms(LOST_MS)
    await site.list_members()


# Which locks


def lost(holders, since_ms):
    client = holders.client(a_member())
    client.replayed_ms = {a_queue(0): 1000, a_queue(1): 1000}
    return sorted(queue.queue_id for queue in lost_queues(client, since_ms))


def test_lock_is_lost_by_an_answer_after_the_replay_that_lacks_the_queue():
    assert lost(held_by((1000, "c1", 1)), 0) == [0]
    assert lost(held_by((999, "c1", 1)), 0) == []
    assert lost(held_by((1000, "c1", 1)), 1001) == []
    assert lost(Holders(), 0) == []


def test_queue_that_is_dropped_and_still_shown_and_one_of_an_old_client_are_left_to_the_client():
    holders = Holders()
    answer(holders, 1000, "c1", 0, 1, is_dropped=True)
    assert lost(holders, 0) == []
    answer(holders, 1001, "c1", version="V4_8_0")
    assert lost(holders, 0) == []


# How they are given up


async def test_replayed_lock_is_given_up_once_its_client_answers_that_it_has_lost_the_queue(site, client):
    await release(site)
    assert site.second.count(UNLOCK) == 0
    client.locked.pop(0)
    site.pass_ms(100)
    await ask(site)
    await release(site)
    assert (locks(site.second), site.replayed()) == ({1: "c1"}, {"c1": [1]})
    (event,) = site.told(BrokerLocksReleased)
    assert (event.client, event.queues, list(event.counted())) == ("c1", 1, [Count(RELEASED, (), 1)])
    await release(site)
    assert site.second.count(UNLOCK) == 1


async def test_lock_of_a_client_that_has_got_the_queue_again_is_left_to_it(site, client):
    client.locked.pop(0)
    site.pass_ms(100)
    await ask(site)
    # It has locked the queue since, and nobody has seen that.
    client.locked[0] = 1_700_000_000_100
    await release(site)
    assert (site.second.count(UNLOCK), len(site.second.locks)) == (0, 2)


async def test_lock_of_a_client_that_cannot_be_asked_again_is_not_given_up(site, client):
    client.locked.pop(0)
    site.pass_ms(100)
    await ask(site)
    for broker in (site.first, site.second):
        broker.refuses.add(RUNNING)
    await release(site)
    assert site.second.count(UNLOCK) == 0


@pytest.mark.parametrize("is_lost", [True, False])
async def test_request_that_waits_too_long_after_its_check_is_not_sent(site, client, is_lost):
    if is_lost:
        await lose_all(site)
    else:
        client.locked.pop(0)
        site.pass_ms(100)
        await ask(site)
    checks = len(site.requests())
    for broker in (site.first, site.second):
        broker.before_answer = lambda code: site.pass_ms(CHECKED_MS + 1) if code in {MEMBERS, RUNNING} else None
    await release(site)
    assert len(site.requests()) == checks + 1
    assert site.second.count(UNLOCK) == 0


async def test_lock_that_brokers_have_ended_is_not_given_up(site, client):
    site.pass_ms(BROKER_LOCK_MS + 1)
    client.locked.pop(0)
    await ask(site)
    await release(site)
    assert (site.replayed(), site.second.count(UNLOCK)) == ({}, 0)


async def test_locks_of_a_client_that_is_gone_are_given_up_and_it_is_forgotten(site, client):
    site.disconnect_all()
    site.pass_ms(LOST_MS - 1)
    await site.list_members()
    await release(site)
    assert len(site.second.locks) == 2
    site.pass_ms(1)
    await site.list_members()
    await release(site)
    assert (site.second.locks, site.holders.holdings, site.clients()) == ({}, 0, [])


async def test_locks_of_a_client_that_has_come_back_are_left_to_it(site, client):
    await lose_all(site)
    site.connect("c1", client)
    await release(site)
    assert (site.second.count(UNLOCK), site.clients()) == (0, ["c1"])


async def test_lock_that_another_client_has_taken_stays(site, client):
    site.second.locks[GROUP, 0] = "c2"
    await lose_all(site)
    await release(site)
    assert locks(site.second) == {0: "c2"}


async def test_master_lists_a_group_once_for_all_its_members_that_are_gone(site, client):
    other = site.connect("c2", OrderlyClient(2))
    await site.mirrored()
    site.second.locks[GROUP, 2] = "c2"
    await lose_all(site)
    lists = site.second.count(MEMBERS)
    site.connect("c2", other)
    await release(site)
    assert site.second.count(MEMBERS) == lists + 1
    assert (locks(site.second), site.clients()) == ({2: "c2"}, ["c2"])


@pytest.mark.parametrize("fault", ["no master", "no answer", "no list", "not master"])
async def test_locks_that_cannot_be_given_up_now_are_given_up_later(site, client, fault):
    await lose_all(site)
    match fault:
        case "no answer":
            site.second.refuses.add(UNLOCK)
        case "no list":
            site.second.refuses.add(MEMBERS)
        case "not master":
            site.following.answered_ms = None
    await release(site, masters=fault != "no master")
    assert len(site.second.locks) == 2
    site.second.refuses.clear()
    site.fresh()
    await release(site)
    assert site.second.locks == {}


async def test_client_whose_brokers_are_gone_with_it_is_forgotten(site, client):
    for broker in (site.first, site.second):
        site.holders.drop_broker(broker.address)
    site.pass_ms(UNLISTED_MS - 1)
    await release(site, masters=False)
    assert site.clients() == ["c1"]
    site.pass_ms(1)
    await release(site, masters=False)
    assert (site.holders.holdings, site.clients(), site.second.count(UNLOCK)) == (0, [], 0)
