"""Clients are queried about the queues that they hold; one that hangs delays nobody."""

import asyncio
import time

import pytest
from fakes.clock import FakeClock
from fakes.locking_broker import MEMBERS, RUNNING, OrderlyClient, holder_site
from holder_builders import BROKER, GROUP, a_member, a_queue

from controller.offsets.locks import holder_poller
from controller.offsets.locks.holders import UNCONFIRMED_MS, HeldGroupQueue
from controller.offsets.locks.overlaps import OverlapEnd
from controller.offsets.locks.poll_schedule import WAITED_FOR_MAX, ClientQuery
from remoting.protocol.errors import InvokeTimeout

QUEUE = HeldGroupQueue(GROUP, a_queue(0))
WAIT_S = 20


@pytest.fixture
async def site():
    async with holder_site() as site:
        yield site


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def list_members(site, masters):
    """Let a round begin and end at all masters."""
    site.poller.begin_listings(masters)
    await until(lambda: all(each.task.done() for each in site.poller._listings.values()))


@pytest.fixture
def always_due(monkeypatch):
    monkeypatch.setattr(holder_poller, "MEMBERS_PERIOD_MS", 0)


def confirm(site, client_id, *brokers):
    addresses = [each.address for each in brokers] or site.mirror.members.brokers_of(a_member(client_id))
    return site.poller.confirm(a_member(client_id), addresses)


async def test_holders_of_orderly_groups_are_found_by_polling(site):
    site.connect("c1", OrderlyClient(0, 1))
    site.connect("c2", OrderlyClient(2))
    await site.list_members()
    site.tasks.start(site.poller.poll(), "poll")
    await until(lambda: len(site.mirror.table) == 3)
    assert list(site.mirror.table.holders_of(QUEUE)) == ["c1"]


@pytest.mark.usefixtures("always_due")
async def test_members_of_all_groups_are_listed_and_a_master_that_left_is_no_way_to_clients(site):
    site.connect("c1", OrderlyClient(0))
    await list_members(site, {site.first.address: [GROUP, "nobody"], site.second.address: [GROUP]})
    assert set(site.mirror.members.brokers_of(a_member("c1"))) == {site.first.address, site.second.address}
    await list_members(site, {site.second.address: [GROUP]})
    assert site.mirror.members.brokers_of(a_member("c1")) == (site.second.address,)


@pytest.mark.usefixtures("always_due")
async def test_master_that_does_not_answer_is_requested_once_in_a_round_and_is_no_way_to_clients(site):
    site.connect("c1", OrderlyClient(0))
    await site.list_members()
    site.first.hangs_at.add(MEMBERS)
    site.first.received.clear()
    await list_members(site, {site.first.address: [GROUP, "g2", "g3"], site.second.address: [GROUP]})
    assert site.first.count(MEMBERS) == 1
    assert site.mirror.members.brokers_of(a_member("c1")) == (site.second.address,)
    site.second.refuses.add(MEMBERS)
    await list_members(site, {site.second.address: [GROUP, "g2"]})
    assert site.mirror.members.brokers_of(a_member("c1")) == (site.second.address,)


async def test_master_that_answers_slowly_delays_the_listing_at_no_other_one(site, monkeypatch):
    monkeypatch.setattr(holder_poller, "MEMBERS_PERIOD_MS", 50)
    monkeypatch.setattr(holder_poller, "WATCH_PERIOD_MS", 10)
    site.first.pause_s = 1
    masters = Masters(site.first, site.second)
    masters.addresses[site.first.address] = [f"g{number}" for number in range(60)]
    site.tasks.start(site.poller.keep_listing(masters), "members")
    await until(lambda: site.second.count(MEMBERS))
    slow = site.poller._listings[site.first.address]
    await until(lambda: site.second.count(MEMBERS) >= 3)
    # No further one begins where one goes on.
    assert site.poller._listings[site.first.address] is slow
    assert not slow.task.done()


async def test_master_that_leaves_while_it_answers_is_no_way_to_clients(site):
    site.connect("c1", OrderlyClient(0))
    site.first.pause_s = 0.2
    masters = {site.first.address: [GROUP], site.second.address: [GROUP]}
    site.poller.begin_listings(masters)
    await until(lambda: site.first.count(MEMBERS))
    await list_members(site, {site.second.address: [GROUP]})
    await asyncio.sleep(0.4)
    assert site.mirror.members.brokers_of(a_member("c1")) == (site.second.address,)


async def test_client_that_joins_at_a_new_master_is_found_there(site):
    site.connect("c1", OrderlyClient(0))
    await site.list_members()
    await confirm(site, "c1")
    site.connect("c2", OrderlyClient(1))
    site.connect("c3", OrderlyClient(1, group="g2"))
    site.mirror.schedule.watch(BROKER, site.second.address, site.clock.now_ms())
    await site.poller.list_at_new_masters()
    assert site.mirror.members.clients_of(GROUP) == ("c1", "c2")
    assert site.mirror.members.clients_of("g2") == ()


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
    assert site.observer.silent == [("hangs", "InvokeTimeout")]
    # It is left alone for a time.
    assert await confirm(site, "hangs") is False
    assert [fields["clientId"] for code, fields in site.first.received if code == RUNNING].count("hangs") == 1


async def test_clients_that_hang_together_take_few_threads_of_their_broker(site):
    names = [f"hangs-{number}" for number in range(3 * WAITED_FOR_MAX)]
    for each in names:
        site.connect(each, OrderlyClient(0), site.first).hangs = True
    await site.list_members(site.first)
    assert not any(await asyncio.gather(*(confirm(site, each) for each in names)))
    # When the first ones are given up, further ones get their turns.
    assert WAITED_FOR_MAX <= site.first.count(RUNNING) == len(site.observer.silent) < 2 * WAITED_FOR_MAX


async def test_client_is_queried_through_another_broker_if_the_first_does_not_have_it_or_is_gone(site):
    site.connect("c1", OrderlyClient(0), site.second)
    assert await confirm(site, "c1", site.first, site.second)
    await site.first.close()
    assert await confirm(site, "c1", site.first, site.second)
    assert not await confirm(site, "c1", site.first)


async def test_query_that_is_under_way_answers_a_second_caller(site):
    site.connect("c1", OrderlyClient(0))
    await site.list_members()
    assert await asyncio.gather(confirm(site, "c1"), confirm(site, "c1")) == [True, True]
    assert site.first.count(RUNNING) + site.second.count(RUNNING) == 1


async def test_unreadable_answer_is_no_answer(site):
    client = site.connect("c1", OrderlyClient(0))
    client.running = lambda: b'{"mqTable":{"no queue":{}}}'
    assert not await confirm(site, "c1", site.first)
    assert site.observer.silent == [("c1", "BodyError")]


async def test_two_holders_of_one_queue_are_found_at_once(site):
    site.connect("c1", OrderlyClient(0))
    second = site.connect("c2", OrderlyClient(0))
    second.locked = {0: 1_700_000_005_000}
    await site.list_members()
    await confirm(site, "c1")
    await confirm(site, "c2")
    await until(lambda: site.observer.opened)
    assert [each.overlap.queue for each in site.observer.opened] == [QUEUE]
    second.locked = {}
    async with asyncio.timeout(WAIT_S):
        # The answer to a query that was under way may be from before.
        while not site.observer.closed:
            await confirm(site, "c2")
    assert [each.why for each in site.observer.closed] == [OverlapEnd.RELEASED]


async def test_hand_over_between_two_answers_is_no_overlap(site):
    first, second = site.connect("c1", OrderlyClient(0)), site.connect("c2", OrderlyClient())
    await site.list_members()
    await confirm(site, "c1")
    first.locked, second.locked = {}, {0: 1_700_000_005_000}
    await confirm(site, "c2")
    await until(lambda: list(site.mirror.table.holders_of(QUEUE)) == ["c2"])
    assert site.observer.opened == []


async def test_client_that_is_gone_ends_its_overlap(site):
    for number, client_id in enumerate(("c1", "c2")):
        site.connect(client_id, OrderlyClient(0)).locked = {0: 1_700_000_000_000 + number}
    await site.list_members()
    await confirm(site, "c1")
    await confirm(site, "c2")
    await until(lambda: site.observer.opened)
    site.mirror.forget([a_member("c1")])
    assert [each.why for each in site.observer.closed] == [OverlapEnd.LOST]
    assert site.mirror.members.clients_of(GROUP) == ("c2",)


class Masters:
    """The masters of a site, with the groups of each."""

    def __init__(self, *brokers):
        self.addresses = {each.address: [GROUP] for each in brokers}

    def masters(self):
        return self.addresses


async def test_listing_and_polling_find_holders_without_any_help(site):
    site.connect("c1", OrderlyClient(0), site.first)
    site.tasks.start(site.poller.keep_listing(Masters(site.first)), "members")
    site.tasks.start(site.poller.poll(), "poll")
    await until(lambda: list(site.mirror.table.holders_of(QUEUE)) == ["c1"])


async def test_client_that_does_not_answer_for_90_s_is_no_holder_any_more():
    clock = FakeClock()
    async with holder_site(clock) as site:
        site.connect("c1", OrderlyClient(0))
        await site.list_members()
        await confirm(site, "c1")
        clock.pass_ms(UNCONFIRMED_MS)
        site.mirror.forget_unconfirmed()
        assert len(site.mirror.table) == 1
        clock.pass_ms(1)
        site.mirror.forget_unconfirmed()
        assert len(site.mirror.table) == 0
        assert site.mirror.members.clients_of(GROUP) == ("c1",)


async def test_client_that_answers_after_it_was_forgotten_leaves_nothing_behind():
    clock = FakeClock()
    async with holder_site(clock) as site:
        site.connect("c1", OrderlyClient(0))
        assert await confirm(site, "c1", site.first)
        site.first.clients.clear()
        query = ClientQuery(a_member("c1"), site.first.address)
        for _ in range(7):
            site.mirror.schedule.started(query, clock.now_ms())
            site.mirror.silent(query, clock.now_ms(), InvokeTimeout(site.first.address, 1000))
            site.mirror.schedule.ended(query)
        clock.pass_ms(UNCONFIRMED_MS + 1)
        assert not site.mirror.schedule.may_query(a_member("c1"), clock.now_ms())
        site.mirror.forget_unconfirmed()
        assert len(site.mirror.table) == 0
        assert site.mirror.schedule.may_query(a_member("c1"), clock.now_ms())


async def test_groups_of_one_broker_are_listed_with_a_pause_in_between(site, monkeypatch):
    monkeypatch.setattr(holder_poller, "LISTINGS_RATE_MAX", 20)
    began = time.perf_counter()
    await list_members(site, {site.first.address: [GROUP, "g2", "g3"], site.second.address: [GROUP]})
    assert site.first.count(MEMBERS) == 3
    # Two brokers share 20 requests a second.
    assert time.perf_counter() - began >= 0.2


async def test_listing_goes_on_by_itself_and_at_new_masters_too(site):
    site.connect("c1", OrderlyClient(0))

    class Source:
        def masters(self):
            return {site.first.address: [GROUP]}

    site.tasks.start(site.poller.keep_listing(Source()), "list")
    await until(lambda: site.mirror.members.clients_of(GROUP))
    await confirm(site, "c1")
    site.mirror.promoted(BROKER, site.second.address, site.first.address)
    site.tasks.start(site.poller.keep_listing_at_new_masters(), "list at new masters")
    await until(lambda: site.mirror.members.brokers_of(a_member("c1")) == (site.second.address,))


async def test_clients_of_groups_that_are_not_kept_are_forgotten(site):
    site.connect("c1", OrderlyClient(0))
    await site.list_members()
    await confirm(site, "c1")
    site.mirror.keep_groups({GROUP})
    assert len(site.mirror.table) == 1
    site.mirror.keep_groups({"other"})
    assert (len(site.mirror.table), len(site.mirror.members)) == (0, 0)
