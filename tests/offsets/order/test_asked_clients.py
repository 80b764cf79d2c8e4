"""Clients are asked for the queues that they hold; one that hangs delays nobody."""

import asyncio
import time

import pytest
from fakes.clock import FakeClock
from fakes.order_site import eventually, order_site
from fakes.orderly_broker import MEMBERS, RUNNING, OrderlyClient
from orderly_builders import CLUSTER, ORDERLY, a_group_queue, a_member

from offsets.order import polling
from offsets.order.events import QUERY_FAILURES, BrokerLockOverlap, BrokerLockOverlapEnded
from offsets.order.holders import UNCONFIRMED_MS, OrderlyGroup
from offsets.order.polling import WAITED_FOR_MAX
from serving.telemetry.events import Count, Counted

OTHERS = [OrderlyGroup(CLUSTER, name) for name in ("g2", "g3")]


@pytest.fixture
async def site():
    async with order_site() as site:
        yield site


async def list_groups(site, masters, monkeypatch):
    """Let a round begin and end at all masters."""
    monkeypatch.setattr(polling, "LIST_PERIOD_MS", 0)
    site.polling.list_groups({broker.address: groups for broker, groups in masters.items()})
    await eventually(lambda: all(listing.task.done() for listing in site.polling._listings.values()))


def confirm(site, client_id, *brokers):
    return site.polling.confirm(a_member(client_id), *(broker.address for broker in brokers))


def asked(broker, client_id):
    return [fields["clientId"] for code, fields in broker.received if code == RUNNING].count(client_id)


async def test_holders_are_found_by_polling(site):
    site.connect("c1", OrderlyClient(0, 1))
    site.connect("c2", OrderlyClient(2))
    await site.list_members()
    site.polling.poll()
    await eventually(lambda: site.holds("c1"))
    # That the group is orderly is known by now.
    site.polling.poll()
    await eventually(lambda: site.holders.holdings == 3)


async def test_master_that_left_is_no_way_to_clients(site, monkeypatch):
    site.connect("c1", OrderlyClient(0))
    await list_groups(site, {site.first: [ORDERLY, *OTHERS], site.second: [ORDERLY]}, monkeypatch)
    assert site.holders.brokers_of(a_member()) == {site.first.address, site.second.address}
    await list_groups(site, {site.second: [ORDERLY]}, monkeypatch)
    assert site.holders.brokers_of(a_member()) == {site.second.address}


async def test_master_that_leaves_while_it_answers_is_no_way_to_clients(site, monkeypatch):
    site.connect("c1", OrderlyClient(0))
    site.first.pause_s = 0.2
    site.polling.list_groups({site.first.address: [ORDERLY], site.second.address: [ORDERLY]})
    await eventually(lambda: site.first.count(MEMBERS))
    await list_groups(site, {site.second: [ORDERLY]}, monkeypatch)
    await asyncio.sleep(0.4)
    assert site.holders.brokers_of(a_member()) == {site.second.address}


async def test_master_that_does_not_answer_is_requested_once_in_a_round_and_is_no_way_to_clients(site, monkeypatch):
    site.connect("c1", OrderlyClient(0))
    await site.list_members()
    site.first.hangs_at.add(MEMBERS)
    site.first.received.clear()
    await list_groups(site, {site.first: [ORDERLY, *OTHERS], site.second: [ORDERLY]}, monkeypatch)
    assert site.first.count(MEMBERS) == 1
    assert site.holders.brokers_of(a_member()) == {site.second.address}
    site.second.refuses.add(MEMBERS)
    await list_groups(site, {site.second: [ORDERLY, *OTHERS]}, monkeypatch)
    assert site.holders.brokers_of(a_member()) == {site.second.address}


async def test_master_that_answers_slowly_delays_the_lists_of_no_other_one(site, monkeypatch):
    monkeypatch.setattr(polling, "LIST_PERIOD_MS", 50)
    site.first.pause_s = 1
    masters = {site.first.address: OTHERS, site.second.address: [ORDERLY]}
    site.polling.list_groups(masters)
    slow = site.polling._listings[site.first.address]

    def listed_again():
        site.polling.list_groups(masters)
        return site.second.count(MEMBERS) >= 3

    await eventually(listed_again)
    # No further round begins where one goes on.
    assert site.polling._listings[site.first.address] is slow
    assert not slow.task.done()


async def test_groups_of_one_broker_are_listed_with_a_pause_in_between(site, monkeypatch):
    monkeypatch.setattr(polling, "LISTS_RATE_MAX", 20)
    began = time.perf_counter()
    await list_groups(site, {site.first: [ORDERLY, *OTHERS], site.second: [ORDERLY]}, monkeypatch)
    assert site.first.count(MEMBERS) == 3
    # Two brokers share 20 requests a second.
    assert time.perf_counter() - began >= 0.2


async def test_client_that_hangs_delays_no_other_one(site):
    site.connect("hangs", OrderlyClient(9), site.first).hangs = True
    for number in range(20):
        site.connect(f"c{number}", OrderlyClient(number), site.first)
    await site.list_members(site.first)
    silent = asyncio.create_task(confirm(site, "hangs"))
    await asyncio.sleep(0)
    assert all(await asyncio.gather(*(confirm(site, f"c{number}") for number in range(20))))
    assert not silent.done()
    assert await silent is False
    (event,) = site.told(Counted)
    assert list(event.counted()) == [Count(QUERY_FAILURES)]
    # It is left alone for a time.
    assert await confirm(site, "hangs") is False
    assert asked(site.first, "hangs") == 1


async def test_clients_that_hang_together_take_few_threads_of_their_broker(site):
    names = [f"hangs-{number}" for number in range(3 * WAITED_FOR_MAX)]
    for name in names:
        site.connect(name, OrderlyClient(0), site.first).hangs = True
    await site.list_members(site.first)
    assert not any(await asyncio.gather(*(confirm(site, name) for name in names)))
    # When the first ones are given up, further ones get their turns.
    assert WAITED_FOR_MAX <= site.first.count(RUNNING) == len(site.told(Counted)) < 2 * WAITED_FOR_MAX


async def test_client_is_asked_through_another_broker_if_the_first_does_not_have_it_or_is_gone(site):
    site.connect("c1", OrderlyClient(0), site.second)
    await site.list_members()
    assert await confirm(site, "c1", site.first)
    site.connect("c1", OrderlyClient(0), site.first)
    await site.list_members()
    await site.second.close()
    assert await confirm(site, "c1")
    await site.first.close()
    assert not await confirm(site, "c1", site.first)
    assert site.holders.brokers_of(a_member()) == frozenset()


async def test_query_that_is_under_way_answers_a_second_caller(site):
    site.connect("c1", OrderlyClient(0))
    await site.list_members()
    assert await asyncio.gather(confirm(site, "c1"), confirm(site, "c1")) == [True, True]
    assert site.requests().count(RUNNING) == 1


async def test_unreadable_answer_is_no_answer(site):
    site.connect("c1", OrderlyClient(0)).running = lambda: b'{"mqTable":{"no queue":{}}}'
    await site.list_members()
    assert not await confirm(site, "c1")
    assert len(site.told(Counted)) == 1


async def test_two_holders_of_one_queue_are_found_at_once_and_told_until_one_has_lost_it(site):
    site.connect("c1", OrderlyClient(0))
    second = site.connect("c2", OrderlyClient(0))
    second.locked = {0: 1_700_000_005_000}
    await site.mirrored()
    await eventually(lambda: site.told(BrokerLockOverlap))
    assert site.polling.overlaps.has(a_group_queue())
    second.locked = {}

    async with asyncio.timeout(20):
        # The answer to a query that was under way may be from before.
        while not site.told(BrokerLockOverlapEnded):
            await confirm(site, "c2")
    assert [(event.clients, event.reason) for event in site.told(BrokerLockOverlapEnded)] == [
        (("c1", "c2"), "released")
    ]
    assert len(site.told(BrokerLockOverlap)) == 1


async def test_hand_over_between_two_answers_is_no_overlap(site):
    first, second = site.connect("c1", OrderlyClient(0)), site.connect("c2", OrderlyClient())
    await site.list_members()
    await confirm(site, "c1")
    first.locked, second.locked = {}, {0: 1_700_000_005_000}
    await confirm(site, "c2")
    await eventually(lambda: list(site.holders.holders_of(a_group_queue())) == ["c2"])
    assert not site.events


async def test_client_that_is_forgotten_ends_its_overlap(site):
    for number, client_id in enumerate(("c1", "c2")):
        site.connect(client_id, OrderlyClient(0)).locked = {0: 1_700_000_000_000 + number}
    await site.mirrored()
    await eventually(lambda: site.told(BrokerLockOverlap))
    site.polling.forget([a_member("c1")])
    assert [event.reason for event in site.told(BrokerLockOverlapEnded)] == ["lost"]
    assert site.clients() == ["c2"]


async def test_client_that_does_not_answer_for_90_s_is_no_holder_any_more():
    async with order_site(FakeClock()) as site:
        client = site.connect("c1", OrderlyClient(0))
        await site.mirrored()
        client.hangs = True
        site.pass_ms(UNCONFIRMED_MS)
        site.polling.poll()
        assert site.holds("c1")
        site.pass_ms(1)
        site.polling.poll()
        assert (site.holders.holdings, site.clients()) == (0, ["c1"])
