"""Locks that a new master was given are given up once their client has lost the queue."""

import pytest
from fakes.clock import FakeClock
from fakes.order_site import locks, order_site
from fakes.orderly_broker import RUNNING, UNLOCK, OrderlyClient
from orderly_builders import a_member, a_queue, answer, held_by

from offsets.order.events import RELEASED, BrokerLocksReleased
from offsets.order.holders import BROKER_LOCK_MS, Holders
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


async def test_request_that_waits_too_long_after_its_check_is_not_sent(site, client):
    client.locked.pop(0)
    site.pass_ms(100)
    await ask(site)
    checks = len(site.requests())
    for broker in (site.first, site.second):
        broker.before_answer = lambda code: site.pass_ms(CHECKED_MS + 1) if code == RUNNING else None
    await release(site)
    assert len(site.requests()) == checks + 1
    assert site.second.count(UNLOCK) == 0


async def test_lock_that_brokers_have_ended_is_not_given_up(site, client):
    site.pass_ms(BROKER_LOCK_MS + 1)
    client.locked.pop(0)
    await ask(site)
    await release(site)
    assert (site.replayed(), site.second.count(UNLOCK)) == ({}, 0)


@pytest.mark.parametrize("fault", ["no master", "no answer", "not master"])
async def test_locks_that_cannot_be_given_up_now_are_given_up_later(site, client, fault):
    client.locked.clear()
    site.pass_ms(100)
    await ask(site)
    match fault:
        case "no answer":
            site.second.refuses.add(UNLOCK)
        case "not master":
            site.following.answered_ms = None
    await release(site, masters=fault != "no master")
    assert len(site.second.locks) == 2
    site.second.refuses.clear()
    site.fresh()
    await release(site)
    assert site.second.locks == {}
