"""A new master gets the locks of confirmed holders, and each result is told."""

import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.order_site import eventually, locks, order_site
from fakes.orderly_broker import BROKER, GROUP, LOCK, RUNNING, OrderlyClient
from orderly_builders import SET, a_member, a_queue, answer, held_by, listed

from history.rows import Moment, RowMaker
from offsets.order.events import REPLAY_DURATION, REPLAYS, BrokerLocksReplayed, ReplayOutcome
from offsets.order.holders import FRESH_MS, Holders
from offsets.order.replay import BATCH_QUEUES, REPLAY_MS_MAX, queues_to_replay
from offsets.values import SetName
from serving.telemetry.events import Count, Observation

GRANTED, HELD, UNANSWERED, UNCONFIRMED = ReplayOutcome


@pytest.fixture
async def site():
    async with order_site(FakeClock()) as site:
        yield site


def found(rows):
    return {(row.client_id, row.queue.queue.queue_id): row.outcome for row in rows}


def replay(site, **options):
    return site.replay.replay(site.promotion(**options))


async def blocked(site):
    """Take all turns of requests for locks; return what gives one back."""
    turns = site.replay._admin._turns
    for _ in range(turns._value):
        await turns.acquire()
    return turns.release


# Which queues


def test_queues_that_are_dropped_not_locked_or_of_another_set_are_not_replayed():
    holders = held_by((0, "c1", 0, 1))
    assert queues_to_replay(holders, a_member(), SET) == {a_queue(0), a_queue(1)}
    assert queues_to_replay(holders, a_member(), SetName(SET.cluster, "broker-b")) == frozenset()
    assert queues_to_replay(holders, a_member(), SetName("other", BROKER)) == frozenset()
    assert queues_to_replay(holders, a_member("nobody"), SET) == frozenset()
    for held in ({"is_dropped": True}, {"is_locked": False}):
        answer(holders, 1, "c1", 0, **held)
        assert queues_to_replay(holders, a_member(), SET) == frozenset()


def test_lock_that_expired_while_there_was_no_master_is_replayed():
    assert queues_to_replay(held_by((0, "c1", 0), (40_000, "c1", 0)), a_member(), SET) == {a_queue(0)}


def test_group_with_a_client_that_is_not_orderly_and_one_that_broadcasts_get_no_lock():
    holders = held_by((0, "c1", 0))
    answer(holders, 0, "c2", is_orderly=False)
    assert queues_to_replay(holders, a_member(), SET) == frozenset()
    holders = listed({"a:1": ["c1"]}, model="BROADCASTING")
    assert queues_to_replay(holders, a_member(), SET) == frozenset()


def test_queue_that_two_clients_hold_by_their_last_answers_is_replayed_for_neither():
    holders = held_by((0, "c1", 0, 1), (0, "c2", 0))
    assert queues_to_replay(holders, a_member("c1"), SET) == {a_queue(1)}
    assert queues_to_replay(holders, a_member("c2"), SET) == frozenset()


def test_owner_of_a_queue_that_another_client_still_consumes_is_replayed_and_that_one_is_not():
    holders = Holders()
    answer(holders, 0, "c1", 0)
    answer(holders, 0, "c2", 0, is_dropped=True, in_work=1)
    assert queues_to_replay(holders, a_member("c1"), SET) == {a_queue(0)}
    assert queues_to_replay(holders, a_member("c2"), SET) == frozenset()


# How they are taken


async def test_new_master_has_the_locks_of_all_holders_by_one_request_for_each(site):
    names = [f"c{number:02}" for number in range(50)]
    for number, client_id in enumerate(names):
        site.connect(client_id, OrderlyClient(2 * number, 2 * number + 1))
    await site.mirrored()
    queries = site.requests().count(RUNNING)
    rows = await replay(site)
    assert list(found(rows).values()) == [GRANTED] * 100
    assert locks(site.second) == {number: names[number // 2] for number in range(100)}
    assert sum(map(len, site.replayed().values())) == 100
    # One request for each client, and none to clients: all were just confirmed.
    assert (site.second.count(LOCK), site.requests().count(RUNNING)) == (50, queries)


async def test_client_with_many_queues_gets_their_locks_in_several_requests(site):
    site.connect("c1", OrderlyClient(*range(BATCH_QUEUES + 1)))
    await site.mirrored()
    assert list(found(await replay(site)).values()) == [GRANTED] * (BATCH_QUEUES + 1)
    assert site.second.count(LOCK) == 2


async def test_what_became_of_locks_is_logged_counted_and_recorded(site):
    site.connect("c1", OrderlyClient(0, 1))
    await site.mirrored()
    site.second.locks[GROUP, 1] = "faster"
    site.second.before_answer = lambda code: site.clock.pass_ms(120)
    rows = await replay(site)
    assert found(rows) == {("c1", 0): GRANTED, ("c1", 1): HELD}
    assert locks(site.second) == {0: "c1", 1: "faster"}
    assert site.replayed() == {"c1": [0]}
    (event,) = site.told(BrokerLocksReplayed)
    assert event == BrokerLocksReplayed(
        cluster=SET.cluster,
        broker=BROKER,
        addr=site.second.address,
        epoch=site.epoch,
        group=GROUP,
        topic="TopicTest",
        granted=1,
        held_by_another=1,
        unanswered=0,
        unconfirmed=0,
        duration_ms=120,
    )
    assert Count(REPLAYS, ("granted",), 1) in event.counted()
    assert list(event.observed()) == [Observation(REPLAY_DURATION, 0.12)]
    (row,) = (row for recorded in event.rows() for row in recorded.rows(RowMaker("a", 0, "offsets"), Moment(0, 0)))
    assert {**row.columns, "queues": 2, "granted": 1, "master_epoch": site.epoch} == row.columns


async def test_holder_that_was_confirmed_too_long_ago_is_asked_through_the_new_master(site):
    kept, lost = site.connect("c1", OrderlyClient(0, 1)), site.connect("c2", OrderlyClient(2))
    await site.mirrored()
    site.elect(None)
    site.first.received.clear()
    kept.locked.pop(1)
    lost.locked.clear()
    site.pass_ms(FRESH_MS + 1)
    assert found(await replay(site)) == {("c1", 0): GRANTED}
    assert locks(site.second) == {0: "c1"}
    assert RUNNING not in [code for code, _ in site.first.received]


async def test_holder_that_does_not_confirm_gets_no_lock(site):
    client = site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    client.hangs = True
    site.pass_ms(FRESH_MS + 1)
    assert found(await replay(site)) == {("c1", 0): UNCONFIRMED}
    assert (site.second.locks, site.replayed()) == ({}, {})


async def test_holders_are_confirmed_while_there_is_no_master_and_not_through_the_failed_one(site):
    for number in range(8):
        site.connect(f"c{number}", OrderlyClient(number))
    await site.mirrored()
    site.pass_ms(FRESH_MS + 1)
    site.first.hangs_at.add(RUNNING)
    in_vain = site.first.count(RUNNING)
    site.elect(None)
    confirmed = [site.holders.client(member) for member in site.holders.members()]
    await eventually(lambda: all(client.is_fresh(site.clock.now_ms()) for client in confirmed))
    queries = site.second.count(RUNNING)
    assert set(found(await replay(site)).values()) == {GRANTED}
    assert (site.first.count(RUNNING), site.second.count(RUNNING)) == (in_vain, queries)


async def test_new_master_that_refuses_at_first_gets_the_request_again(site):
    site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    site.second.refuses.add(LOCK)
    task = asyncio.create_task(replay(site))
    await eventually(lambda: site.second.count(LOCK) > 1)
    site.second.refuses.clear()
    assert found(await task) == {("c1", 0): GRANTED}


async def test_new_master_that_never_answers_is_given_up_and_the_lock_counts_as_taken(site):
    site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    site.second.hangs_at.add(LOCK)
    task = asyncio.create_task(replay(site))
    await eventually(lambda: site.second.count(LOCK))
    site.pass_ms(REPLAY_MS_MAX + 1)
    assert found(await task) == {("c1", 0): UNANSWERED}
    assert (site.second.count(LOCK), site.replayed()) == (1, {"c1": [0]})


async def test_lock_whose_turn_comes_too_late_is_not_requested(site):
    site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    release = await blocked(site)
    task = asyncio.create_task(replay(site))
    await eventually(lambda: site.second.address in site.replay._admin._peers)
    site.pass_ms(FRESH_MS + 1)
    release()
    assert found(await task) == {("c1", 0): UNCONFIRMED}
    # What was not sent is not given up later: by then it would be the client's own lock.
    assert (site.second.count(LOCK), site.replayed()) == (0, {})


async def test_queue_that_its_holder_loses_before_the_turn_comes_is_not_requested(site):
    client = site.connect("c1", OrderlyClient(0, 1))
    await site.mirrored()
    release = await blocked(site)
    task = asyncio.create_task(replay(site))
    await eventually(lambda: site.second.address in site.replay._admin._peers)
    client.locked.pop(1)
    assert await site.polling.confirm(a_member("c1"))
    release()
    assert found(await task)["c1", 0] is GRANTED
    assert (locks(site.second), site.replayed()) == ({0: "c1"}, {"c1": [0]})


async def test_replay_ends_when_the_set_has_another_master(site):
    site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    site.second.refuses.add(LOCK)
    former = asyncio.create_task(replay(site))
    await eventually(lambda: site.second.count(LOCK))
    assert found(await replay(site, broker=site.first)) == {("c1", 0): GRANTED}
    site.second.refuses.clear()
    assert found(await former) == {("c1", 0): UNANSWERED}
    assert (locks(site.first), site.second.locks) == ({0: "c1"}, {})


async def test_replay_that_begins_too_late_sends_nothing(site):
    site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    assert found(await replay(site, ago_ms=REPLAY_MS_MAX + 1)) == {("c1", 0): UNCONFIRMED}
    assert site.second.count(LOCK) == 0


@pytest.mark.parametrize("change", ["another master", "nobody knows", "another manager leads"])
async def test_broker_gets_no_lock_unless_it_is_master_and_this_manager_leads(site, change):
    site.connect("c1", OrderlyClient(0))
    await site.mirrored()
    promotion = site.promotion()
    match change:
        case "another master":
            site.promotion(site.first)
        case "nobody knows":
            site.following.answered_ms = None
        case _:
            site.lead.follows(None)
    assert found(await site.replay.replay(promotion)) == {("c1", 0): UNCONFIRMED}
    assert site.second.count(LOCK) == 0
