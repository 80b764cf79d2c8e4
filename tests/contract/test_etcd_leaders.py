"""Several controllers on one etcd: who leads, who takes over and when, and what a deposed one can no longer do."""

import asyncio
import contextlib
import time

import pytest
from contract.etcd_group import SOON_S, Controller, an_entry, group, leader_of
from controller_builders import SET
from fakes.leadership_listener import RecordingListener, eventually
from peers.etcd import Way, running_etcd

from remoting.clock import SystemClock
from store.etcd import calls
from store.etcd.client import EtcdClient, EtcdOptions
from store.etcd.etcd_store import IdTaken
from store.etcd.keys import Keys, entry_value
from store.etcd.lease_state_machine import LEASE_TTL_S, MARGIN_MS
from store.store import ControllerMember, Deposed, EntryMoved, OutcomeUnknown, StoreError, VersionedEntry

pytestmark = pytest.mark.etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def name(tmp_path):
    """A group of its own for each test."""
    return str(tmp_path)


@pytest.fixture
def way(etcd):
    way = Way(etcd.endpoints[0])
    yield way
    way.close()


async def test_one_of_three_controllers_leads_and_all_know_it(etcd, name):
    async with group(etcd.endpoints, number=3, group=name) as controllers:
        first, *others = controllers
        everybody = tuple(each.member for each in controllers)
        for each in others:
            await each.knows(first.member)
        for each in controllers:
            await eventually(
                lambda each=each: each.listener.members == everybody, seconds=SOON_S, what="all are listed"
            )
        assert [each.listener.is_leading for each in controllers] == [True, False, False]


@pytest.mark.parametrize(("run", "is_left"), [("another", True), ("mine", False)])
def test_leader_key_is_deleted_only_by_the_run_that_created_it(etcd, name, run, is_left):
    """Create revisions come again where etcd was put back to an older state."""
    keys, me, clock = Keys(name), ControllerMember(id="n1", address="10.0.0.1:9878"), SystemClock()
    client = EtcdClient(EtcdOptions(endpoints=tuple(etcd.endpoints)), clock)
    with contextlib.closing(client):

        def call(question):
            return client.request(question, deadline_ms=clock.now_ms() + 10_000)

        lease_id, _ = call(calls.grant_lease(LEASE_TTL_S))
        token = call(calls.campaign(keys, me, "mine", lease_id)).holder.token
        call(calls.release(keys, calls.OwnLeaderKey(me, run, token)))
        assert (call(calls.read_leader(keys)).holder is not None) == is_left
        call(calls.revoke_lease(lease_id))


async def test_lease_is_renewed_before_it_ends(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        until_ms = leader.listener.until_ms
        assert until_ms - SystemClock().now_ms() < LEASE_TTL_S * 1000
        await eventually(lambda: leader.listener.until_ms > until_ms + 4000, seconds=SOON_S, what="it is renewed")
        assert leader.listener.deposed_at == []


async def test_unreadable_entry_is_named_and_the_others_are_loaded(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        revision = await leader.commit(name="other")
        keys = Keys(name)
        etcd.ctl("put", keys.broker_set(SET).decode(), "{nonsense")
        etcd.ctl("put", keys.sets.decode() + "%FF", "{}")
        kept = dict(await leader.store.load())
        assert kept.pop("other") == VersionedEntry(an_entry(), revision)
        assert "cannot be read" in kept.pop(SET).problem
        ((_, no_name),) = kept.items()
        assert "%FF is not ours" in no_name.problem
        with pytest.raises(EntryMoved):
            await leader.commit()
        with pytest.raises(StoreError, match="cannot be read"):
            await leader.store.read(SET)
        # The members are told as before, and so is who has put it right.
        etcd.ctl("put", keys.broker_set(SET).decode(), entry_value(an_entry()).decode())
        await eventually(
            lambda: [each for each in leader.listener.entries if each[1].entry == an_entry()],
            seconds=SOON_S,
            what="it can be read again",
        )


async def test_leader_that_hands_over_can_be_elected_again(etcd, name):
    async with group(etcd.endpoints, number=2, group=name) as (leader, other):
        leader.store.pass_on()
        assert not leader.listener.is_leading
        with pytest.raises(Deposed):
            await leader.commit()
        await other.leads()
        await leader.knows(other.member)
        await other.commit()
        await other.store.resign()
        await leader.leads()
        assert (await leader.store.read(SET)).entry == an_entry()


async def test_resignation_hands_leadership_over_at_once(etcd, name):
    async with group(etcd.endpoints, number=2, group=name) as (leader, other):
        begin = time.perf_counter()
        await leader.store.resign()
        await other.leads()
        # Without it the lease would have to end first.
        assert time.perf_counter() - begin < LEASE_TTL_S - 1.5
        assert not leader.listener.is_leading
        await leader.knows(other.member)
        with pytest.raises(Deposed):
            await leader.commit()
        await other.commit()


async def test_vanished_leader_is_replaced(etcd, name):
    async with group(etcd.endpoints, number=3, group=name) as controllers:
        revision = await controllers[0].commit()
        await controllers[0].vanish()
        leader = await leader_of(controllers[1:])
        assert dict(await leader.store.load()) == {SET: VersionedEntry(an_entry(), revision)}
        await leader.commit(6, revision)


async def test_followers_receive_what_the_leader_stores_and_removes(etcd, name):
    async with group(etcd.endpoints, number=2, group=name) as (leader, other):
        revision = await leader.commit()
        await eventually(
            lambda: other.listener.entries == [(SET, VersionedEntry(an_entry(), revision))], seconds=SOON_S, what="it"
        )
        assert leader.listener.entries == []
        key = leader.store._keys.broker_set(SET).decode()
        etcd.ctl("del", key)
        for each in (leader, other):
            await eventually(
                lambda each=each: each.listener.entries and not each.listener.entries[-1][1].entry.broker_set,
                seconds=SOON_S,
                what="it is told to be gone",
            )
            assert each.listener.entries[-1][1].revision > revision


async def test_a_controller_restarted_within_its_lease_leads_at_once(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        await leader.vanish()
        again = Controller(1, etcd.endpoints, group=name)
        begin = time.perf_counter()
        await again.join()
        await again.leads()
        assert time.perf_counter() - begin < LEASE_TTL_S - 1.5
        await again.close()


async def test_two_processes_with_one_controller_id_do_not_keep_deposing_each_other(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        twin = Controller(1, etcd.endpoints, group=name)
        await twin.join()
        both = [leader, twin]
        await eventually(lambda: len(leader.listener.deposed_at) == 1, seconds=SOON_S, what="the first is deposed")
        await leader_of(both)
        leads = len(leader.listener.led_at) + len(twin.listener.led_at)
        await asyncio.sleep(4)
        assert len(leader.listener.led_at) + len(twin.listener.led_at) == leads
        await twin.close()


async def test_second_controller_with_a_used_id_is_refused_with_both_addresses(etcd, name):
    async with group(etcd.endpoints, group=name):
        other = Controller(1, etcd.endpoints, group=name)
        other.member = ControllerMember(id="n1", address="10.9.9.9:1")
        with pytest.raises(IdTaken, match=r"n1: this one at 10\.9\.9\.9:1 and one at 10\.0\.0\.1:9878"):
            await other.join()
        await other.close()


async def test_controller_restores_its_deleted_member_key(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        await eventually(lambda: leader.listener.members, seconds=SOON_S, what="it is listed")
        etcd.ctl("del", leader.store._keys.member("n1").decode())
        await eventually(lambda: not leader.listener.members, seconds=SOON_S, what="it is not listed")
        await eventually(lambda: leader.listener.members == (leader.member,), seconds=SOON_S, what="it is listed again")


async def test_leader_whose_key_is_deleted_is_deposed(etcd, name):
    async with group(etcd.endpoints, group=name) as (leader,):
        etcd.ctl("del", leader.store._keys.leader.decode())
        await eventually(lambda: leader.listener.deposed_at, seconds=SOON_S, what="it does not lead")
        await leader.leads()


# Cut off


async def test_cut_off_leader_stops_before_another_leads(etcd, name, way):
    cut_off = Controller(1, [way.endpoint], group=name)
    other = Controller(2, etcd.endpoints, group=name)
    try:
        await cut_off.join()
        await cut_off.leads()
        await other.join()
        way.hold()
        await other.leads()
        assert cut_off.listener.deposed_at[0] < other.listener.led_at[0]
        assert cut_off.listener.leader is None
        with pytest.raises(Deposed, match="does not lead"):
            await cut_off.commit()
        way.let_go()
        await cut_off.knows(other.member)
    finally:
        way.let_go()
        await cut_off.close()
        await other.close()


async def test_response_time_of_etcd_shortens_the_lease(etcd, name, way, monkeypatch):
    left_ms, leads = [], RecordingListener.leads

    def noting(listener, until_ms):
        left_ms.append(until_ms - SystemClock().now_ms())
        leads(listener, until_ms)

    monkeypatch.setattr(RecordingListener, "leads", noting)
    # Of the lease's 4 s a slow machine needs most for itself: it takes two answers to lead.
    way.delay_s = 0.2
    slow = Controller(1, [way.endpoint], group=name)
    try:
        await slow.join()
        # By its grant, and by a renewal.
        await eventually(lambda: len(left_ms) >= 2, seconds=SOON_S, what="its lease is renewed")
        assert max(left_ms) <= LEASE_TTL_S * 1000 - MARGIN_MS - 2 * 200
    finally:
        way.delay_s = 0
        await slow.close()


async def test_commit_with_a_lost_response_is_not_repeated(etcd, name, way):
    """Sent again it would be refused as overtaken by itself, and whoever asked be told that nothing was stored."""
    controller = Controller(1, [way.endpoint], group=name)
    try:
        await controller.join()
        await controller.leads()
        revision = 0
        for epoch in (1, 2, 3):
            way.hold_answers()
            sent = asyncio.create_task(controller.commit(epoch, revision))
            await eventually(lambda epoch=epoch: etcd_has(etcd, controller, epoch), seconds=SOON_S, what="etcd has it")
            way.cut()
            way.let_go()
            with pytest.raises(OutcomeUnknown):
                await sent
            await controller.leads()
            kept = await read_once_it_can_be(controller)
            assert kept.entry == an_entry(epoch)
            revision = kept.revision
    finally:
        way.let_go()
        await controller.close()


async def read_once_it_can_be(controller):
    """Return what is stored; connections that were cut are made anew meanwhile."""
    while True:
        with contextlib.suppress(StoreError):
            return await controller.store.read(SET)


def etcd_has(etcd, controller, epoch):
    """Return whether the set is stored with this master epoch, asked past the controller."""
    key = controller.store._keys.broker_set(SET).decode()
    return entry_value(an_entry(epoch)).decode() in etcd.ctl("get", key).stdout


async def test_late_commit_of_a_deposed_leader_is_refused(etcd, name, way):
    late = Controller(1, [way.endpoint], group=name)
    other = Controller(2, etcd.endpoints, group=name)
    try:
        await late.join()
        await late.leads()
        await other.join()
        revision = await late.commit(5)
        way.hold()
        sent = asyncio.create_task(late.commit(6, revision))
        with pytest.raises(OutcomeUnknown):
            await sent
        await other.leads()
        assert await other.store.read(SET) == VersionedEntry(an_entry(5), revision)
        way.let_go()
        await late.knows(other.member)
        assert await other.store.read(SET) == VersionedEntry(an_entry(5), revision)
        await other.commit(7, revision)
    finally:
        way.let_go()
        await late.close()
        await other.close()


async def test_commit_of_a_leader_that_missed_its_deposition_deposes_it(etcd, name, way):
    """It decides, another wins, then its transaction arrives, on a connection that works."""
    slow = Controller(1, [way.endpoint], group=name)
    try:
        await slow.join()
        await slow.leads()
        revision = await slow.commit(5)
        other_client = ControllerMember(id="n2", address="10.0.0.2:9878")
        key = slow.store._keys.leader.decode()
        way.delay_s = 0.4
        sent = asyncio.create_task(slow.commit(6, revision))
        etcd.ctl("del", key)
        etcd.ctl("put", key, '{"id":"n2","addr":"10.0.0.2:9878","run":"x"}')
        with pytest.raises(Deposed, match=r"n2 at 10\.0\.0\.2:9878 leads instead"):
            await sent
        assert not slow.listener.is_leading
        await slow.knows(other_client)
        assert (await slow.store.read(SET)) == VersionedEntry(an_entry(5), revision)
    finally:
        way.delay_s = 0
        etcd.ctl("del", key)
        await slow.close()


async def test_breaking_connections_do_not_prevent_leadership(etcd, name, way):
    """Among what is lost is the answer to a campaign, at times."""
    controller = Controller(1, [way.endpoint], group=name)
    try:
        await controller.join()
        for _ in range(30):
            way.cut()
            await asyncio.sleep(0.03)
        await controller.leads()
        revision = None
        while revision is None:
            with contextlib.suppress(OutcomeUnknown, Deposed):
                revision = await controller.commit(revision=(await controller.store.read(SET)).revision)
        assert await controller.store.read(SET) == VersionedEntry(an_entry(), revision)
    finally:
        await controller.close()


async def test_commit_does_not_wait_for_an_etcd_that_responds_after_five_seconds(etcd, name, way):
    controller = Controller(1, [way.endpoint], group=name)
    try:
        await controller.join()
        await controller.leads()
        revision = await controller.commit()
        way.delay_s = 5
        begin = time.perf_counter()
        with pytest.raises((OutcomeUnknown, Deposed)):
            await controller.commit(6, revision)
        assert time.perf_counter() - begin < 4
        await eventually(lambda: controller.listener.deposed_at, seconds=SOON_S, what="it does not lead")
        way.delay_s = 0
        await controller.leads()
        known = await controller.store.read(SET)
        await controller.commit(7, known.revision)
    finally:
        way.delay_s = 0
        await controller.close()


async def test_closing_does_not_wait_for_an_unresponsive_etcd(etcd, name, way):
    controller = Controller(1, [way.endpoint], group=name)
    await controller.join()
    await controller.leads()
    way.hold()
    pending = [asyncio.create_task(controller.commit(name=f"b{n}")) for n in range(30)]
    await asyncio.sleep(0.1)
    begin = time.perf_counter()
    await controller.close()
    # Below two seconds, on a machine that has time.
    assert time.perf_counter() - begin < 6
    results = await asyncio.gather(*pending, return_exceptions=True)
    assert all(isinstance(each, StoreError) for each in results)
    way.let_go()
