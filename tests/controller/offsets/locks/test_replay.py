"""A new master gets the locks of confirmed holders, and each result is known."""

import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.locking_broker import LOCK, RUNNING, OrderlyClient, holder_site
from holder_builders import BROKER, GROUP, a_member

from controller.offsets.locks.replay import REPLAY_MS, REPLAY_MS_MAX, Promotion
from controller.offsets.locks.replay_rules import FRESH_MS, ReplayOutcome


@pytest.fixture
async def site():
    async with holder_site(FakeClock()) as site:
        yield site


async def mirrored(site, *brokers):
    """Let the mirror have what all clients hold."""
    await site.list_members(*brokers)
    for client_id in site.mirror.members.clients_of(GROUP):
        member = a_member(client_id)
        assert await site.poller.confirm(member, site.mirror.members.brokers_of(member))


async def eventually(is_so):
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


def promotion(site, *, of=None, ago_ms=0, former=True):
    """The second broker takes the place of the first one."""
    return Promotion(
        broker_name=BROKER,
        address=(of or site.second).address,
        former=site.first.address if former else None,
        promoted_ms=site.clock.now_ms() - ago_ms,
    )


def found(report):
    return {(each.client_id, each.queue.queue.queue_id): each.outcome for each in report.results}


async def test_new_master_has_the_locks_of_all_holders_by_one_request_for_each(site):
    names = [f"c{number:02}" for number in range(50)]
    for number, client_id in enumerate(names):
        site.connect(client_id, OrderlyClient(2 * number, 2 * number + 1))
    await mirrored(site)
    report = await site.replay.replay(promotion(site))
    assert report.count(ReplayOutcome.GRANTED) == len(report.results) == 100
    assert site.second.locks == {(GROUP, number): names[number // 2] for number in range(100)}
    assert report.late == 0
    assert len(site.replayed) == 100
    # One request for each client, and none to clients: all were just confirmed.
    assert site.second.count(LOCK) == 50


@pytest.mark.parametrize(("took_ms", "late"), [(REPLAY_MS, 0), (REPLAY_MS + 1, 1)])
async def test_lock_that_is_taken_more_than_500_ms_after_the_promotion_is_late(site, took_ms, late):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    site.second.before_answer = lambda code: site.clock.pass_ms(took_ms)
    report = await site.replay.replay(promotion(site))
    assert found(report) == {("c1", 0): ReplayOutcome.GRANTED}
    assert (report.late, report.elapsed_ms) == (late, took_ms)


async def test_holder_that_was_confirmed_too_long_ago_is_queried_through_the_new_master(site):
    kept, lost = site.connect("c1", OrderlyClient(0, 1)), site.connect("c2", OrderlyClient(2))
    await mirrored(site)
    await site.first.close()
    site.first.received.clear()
    kept.locked.pop(1)
    lost.locked.clear()
    site.clock.pass_ms(FRESH_MS + 1)
    report = await site.replay.replay(promotion(site))
    assert found(report) == {("c1", 0): ReplayOutcome.GRANTED}
    assert site.second.locks == {(GROUP, 0): "c1"}
    assert site.first.received == []


async def test_holder_that_does_not_confirm_gets_no_lock(site):
    client = site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    client.hangs = True
    site.clock.pass_ms(FRESH_MS + 1)
    report = await site.replay.replay(promotion(site))
    assert found(report) == {("c1", 0): ReplayOutcome.UNCONFIRMED}
    assert (site.second.locks, len(site.replayed)) == ({}, 0)


async def test_holders_are_confirmed_while_there_is_no_master(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    site.clock.pass_ms(FRESH_MS + 1)
    await site.first.close()
    await site.replay.prepare(BROKER, site.first.address, [site.second.address])
    queries = site.second.count(RUNNING)
    report = await site.replay.replay(promotion(site))
    assert found(report) == {("c1", 0): ReplayOutcome.GRANTED}
    assert site.second.count(RUNNING) == queries


async def test_lock_that_somebody_else_has_is_reported_and_left(site):
    site.connect("c1", OrderlyClient(0, 1))
    await mirrored(site)
    site.second.locks[GROUP, 1] = "faster"
    report = await site.replay.replay(promotion(site))
    assert found(report) == {("c1", 0): ReplayOutcome.GRANTED, ("c1", 1): ReplayOutcome.HELD_BY_ANOTHER}
    assert site.second.locks[GROUP, 1] == "faster"
    assert len(site.replayed) == 1


async def test_concurrent_group_gets_no_lock(site):
    site.connect("c1", OrderlyClient(0))
    site.connect("c2", OrderlyClient(1, is_orderly=False))
    await mirrored(site)
    report = await site.replay.replay(promotion(site))
    assert (report.results, site.second.locks) == ((), {})


async def test_new_master_that_refuses_at_first_gets_the_request_again(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    site.second.refuses.add(LOCK)
    replay = asyncio.create_task(site.replay.replay(promotion(site)))
    await eventually(lambda: site.second.count(LOCK) > 1)
    site.second.refuses.clear()
    assert found(await replay) == {("c1", 0): ReplayOutcome.GRANTED}


async def test_new_master_that_never_answers_is_given_up_and_the_lock_counts_as_taken(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    site.second.hangs_at.add(LOCK)
    replay = asyncio.create_task(site.replay.replay(promotion(site)))
    await eventually(lambda: site.second.count(LOCK))
    site.clock.pass_ms(REPLAY_MS_MAX + 1)
    assert found(await replay) == {("c1", 0): ReplayOutcome.UNANSWERED}
    assert (site.second.count(LOCK), len(site.replayed)) == (1, 1)


async def test_lock_whose_turn_comes_too_late_is_not_requested(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    turn = site.replay._admin._turns
    for _ in range(turn._value):
        await turn.acquire()
    replay = asyncio.create_task(site.replay.replay(promotion(site)))
    await eventually(lambda: site.second.address in site.replay._admin._peers)
    site.clock.pass_ms(FRESH_MS + 1)
    turn.release()
    assert found(await replay) == {("c1", 0): ReplayOutcome.UNCONFIRMED}
    # What was not sent is not given up later: by then it would be the client's own lock.
    assert (site.second.count(LOCK), len(site.replayed)) == (0, 0)


async def test_queue_that_its_holder_loses_before_the_turn_comes_is_not_requested(site):
    client = site.connect("c1", OrderlyClient(0, 1))
    await mirrored(site)
    turn = site.replay._admin._turns
    for _ in range(turn._value):
        await turn.acquire()
    replay = asyncio.create_task(site.replay.replay(promotion(site)))
    await eventually(lambda: site.second.address in site.replay._admin._peers)
    client.locked.pop(1)
    assert await site.poller.confirm(a_member("c1"), {site.second.address})
    turn.release()
    assert found(await replay)[("c1", 0)] is ReplayOutcome.GRANTED
    assert site.second.locks == {(GROUP, 0): "c1"}
    assert len(site.replayed) == 1


async def test_replay_ends_when_the_set_has_another_master(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    site.second.refuses.add(LOCK)
    former = asyncio.create_task(site.replay.replay(promotion(site)))
    await eventually(lambda: site.second.count(LOCK))
    latest = await site.replay.replay(promotion(site, of=site.first, ago_ms=-1, former=False))
    assert found(latest) == {("c1", 0): ReplayOutcome.GRANTED}
    site.second.refuses.clear()
    assert found(await former) == {("c1", 0): ReplayOutcome.UNANSWERED}
    assert (site.first.locks, site.second.locks) == ({(GROUP, 0): "c1"}, {})


async def test_promotion_that_is_reported_after_a_later_one_is_not_replayed(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    await site.replay.replay(promotion(site, former=False))
    report = await site.replay.replay(promotion(site, of=site.first, ago_ms=1, former=False))
    assert found(report) == {("c1", 0): ReplayOutcome.UNCONFIRMED}
    assert site.mirror.schedule.watched(site.clock.now_ms()) == {BROKER: site.second.address}
    assert site.first.locks == {}


async def test_replay_that_begins_too_late_sends_nothing(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    report = await site.replay.replay(promotion(site, ago_ms=REPLAY_MS_MAX + 1, former=False))
    assert found(report) == {("c1", 0): ReplayOutcome.UNCONFIRMED}
    assert (site.second.count(LOCK), report.elapsed_ms > REPLAY_MS_MAX) == (0, True)


async def test_holders_of_a_set_with_a_new_master_are_watched(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    await site.replay.replay(promotion(site))
    schedule, members = site.mirror.schedule, site.mirror.members
    now_ms = site.clock.now_ms()
    assert schedule.due(site.mirror.table, members, now_ms, 1) == ()
    assert schedule.due(site.mirror.table, members, now_ms + 2500, 1)


async def test_broker_that_is_not_master_any_more_gets_no_lock(site):
    site.connect("c1", OrderlyClient(0))
    await mirrored(site)
    site.masters.former = {site.second.address}
    report = await site.replay.replay(promotion(site))
    assert found(report) == {("c1", 0): ReplayOutcome.UNCONFIRMED}
    assert site.second.count(LOCK) == 0
