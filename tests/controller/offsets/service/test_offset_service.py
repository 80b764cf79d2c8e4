"""What the service answers while changes are on their way, while it loads, and when it ceases to lead."""

import asyncio

import pytest
from fakes.leadership_listener import eventually
from service_site import OTHER, a_key, service_site

from controller.offsets.commits.freezes import Freeze
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus, OffsetUnavailable
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.writing import LEADS
from controller.offsets.service.manager_role import ManagerNotLeading, StillLoading
from controller.offsets.storage.remote import RowWrite
from controller.offsets.storage.write_behind import Durability, InJournalOnly
from controller.offsets.storage.write_behind_options import TooManyDirtyOffsets
from controller.offsets.values import StoredOffset
from store.store import Deposed, OutcomeUnknown


def write_through(of):
    return of.group == "payments"


async def test_a_manager_that_does_not_lead_names_the_leader(tmp_path):
    async with service_site(tmp_path, leads=False) as site:
        with pytest.raises(ManagerNotLeading, match="No offset manager is known to lead"):
            site.read()
        site.service.follows(OTHER)
        with pytest.raises(ManagerNotLeading, match=r"send requests to the one at 10\.0\.0\.2:9883"):
            await site.commit(1)


async def test_reads_are_unavailable_and_changes_refused_until_all_is_loaded(tmp_path):
    async with service_site(tmp_path, leads=False) as site:
        site.remote.error, site.remote.load_errors = OutcomeUnknown("etcd is cut off"), 1
        site.service.leads(None)
        assert isinstance(site.read(), OffsetUnavailable)
        with pytest.raises(StillLoading):
            await site.commit(1)
        await site.lead()
        assert isinstance(site.read(), OffsetNotFound)
        assert (await site.commit(1)).status is OffsetStatus.OK
        assert site.observer.of("load_failed") == [("etcd is cut off",)]


async def test_readers_see_an_offset_when_it_is_durable_and_not_before(tmp_path):
    async with service_site(tmp_path, is_write_through=write_through) as site:
        site.remote.passes.clear()
        commit = asyncio.create_task(site.commit(7, group="payments"))
        await asyncio.sleep(0.1)
        assert isinstance(site.read(group="payments"), OffsetNotFound)
        site.remote.passes.set()
        assert (await commit).status is OffsetStatus.OK
        assert site.read(group="payments").offset == 7


async def test_commits_of_one_queue_become_visible_in_their_order(tmp_path):
    async with service_site(tmp_path, is_write_through=write_through) as site:
        seen = []

        async def commit(offset):
            await site.commit(offset, group="payments")
            seen.append(site.read(group="payments").offset)

        await asyncio.gather(*(commit(offset) for offset in range(1, 60)))
        assert seen == sorted(seen)
        assert site.read(group="payments").offset == 59


async def test_a_commit_that_its_caller_gives_up_is_stored_all_the_same(tmp_path):
    async with service_site(tmp_path, is_write_through=write_through) as site:
        site.remote.passes.clear()
        commit = asyncio.create_task(site.commit(7, group="payments"))
        await asyncio.sleep(0.1)
        commit.cancel()
        await asyncio.wait({commit})
        site.remote.passes.set()
        await site.service.flush(None)
        assert (await site.commit(7, group="payments")).status is OffsetStatus.OK
        assert site.read(group="payments").offset == 7


async def test_what_could_not_be_stored_leaves_nothing_behind(tmp_path):
    async with service_site(tmp_path, dirty_keys_max=1, flush_interval_ms=10_000) as site:
        site.remote.passes.clear()
        assert (await site.commit(5)).status is OffsetStatus.OK
        with pytest.raises(TooManyDirtyOffsets):
            await site.commit(5, 1)
        assert isinstance(site.read(1), OffsetNotFound)
        assert (await site.commit(6)).status is OffsetStatus.OK
        site.remote.passes.set()
        await site.service.flush(None)
        assert (await site.commit(5, 1)).status is OffsetStatus.OK


async def test_a_commit_that_the_store_did_not_confirm_in_time_is_no_success(tmp_path):
    async with service_site(tmp_path, is_write_through=write_through, write_through_ms=1_000) as site:
        site.remote.passes.clear()
        with pytest.raises(InJournalOnly):
            await site.commit(7, group="payments")
        site.remote.passes.set()
        # The journal had it, so it is stored, and repeating it is harmless.
        assert (await site.commit(7, group="payments")).status is OffsetStatus.OK


async def test_nothing_is_acknowledged_after_the_lead(tmp_path):
    async with service_site(tmp_path, leads=False) as site:
        await site.lead(until_ms=site.clock.now_ms() + 5_000)
        assert (await site.commit(1)).status is OffsetStatus.OK
        site.remote.passes.clear()
        commit = asyncio.create_task(site.commit(2))
        await asyncio.sleep(0)
        # The process was paused for longer than its lead: another manager may lead, and has not this journal.
        site.clock.pass_ms(5_000)
        with pytest.raises(InJournalOnly):
            await commit
        with pytest.raises(ManagerNotLeading):
            site.read()


async def test_a_new_term_begins_with_what_is_stored(tmp_path):
    async with service_site(tmp_path, is_write_through=lambda _: True) as site:
        await site.commit(3)
        site.service.follows(OTHER)
        assert site.observer.of("leadership_lost") == [(OTHER.address,)]
        await site.lead()
        assert site.read().offset == 3
        assert [gained[:2] for gained in site.observer.of("leadership_gained")] == [(0, 0), (1, 0)]


async def test_a_store_that_was_put_back_gets_the_newer_offsets_again(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(5)
        await site.service.flush(None)
        await site.remote.delete({of: row.revision for of, row in (await site.remote.load_page(None)).rows.items()})
        site.service.put_back()
        with pytest.raises(StillLoading):
            await site.commit(6)
        await site.lead()
        assert site.read().offset == 5


async def test_a_reset_is_answered_when_the_store_has_it(tmp_path):
    async with service_site(tmp_path, flush_interval_ms=10_000) as site:
        await site.commit(50)
        stored = await site.reset(10)
        assert stored.durability is Durability.REMOTE
        assert site.store.dirty_keys == 0
        assert (await site.commit(51)).status is OffsetStatus.STALE
        (change,) = site.observer.of("changed_by_operator")
        assert change[:2] == ("reset", "alice")


async def test_a_reset_that_ends_with_the_lead_is_not_known_to_be_stored(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        await site.service.flush(None)
        site.remote.passes.clear()
        reset = asyncio.create_task(site.reset(10))
        await eventually(lambda: site.remote.held, seconds=10, what="the write is under way")
        site.service.follows(OTHER)
        site.remote.passes.set()
        with pytest.raises(Deposed, match="ceased to lead meanwhile"):
            await reset


async def test_new_epochs_have_the_time_and_the_number_of_the_lead(tmp_path):
    async with service_site(tmp_path, lead_number=lambda: 70) as site:
        await site.commit(50)
        await site.reset(10)
        assert site.read().reset_epoch == site.clock.unix_ms() * LEADS + 70
        await site.reset(5)
        assert site.read().reset_epoch == (site.clock.unix_ms() + 1) * LEADS + 70


async def test_a_deleted_offset_names_the_epoch_of_the_next_commit(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        await site.service.delete(OffsetScope("DefaultCluster", "", "billing"), site.service.writer("alice", ""))
        absent = site.read()
        assert absent == OffsetNotFound(site.clock.unix_ms() * LEADS)
        assert (await site.commit(51)).status is OffsetStatus.STALE
        assert (await site.commit(7, epoch=absent.reset_epoch)).status is OffsetStatus.OK
        await site.service.forget_deleted()
        assert site.read().offset == 7


async def test_a_manager_whose_journal_is_too_old_lets_another_one_lead_and_stands_again(tmp_path):
    async with service_site(tmp_path) as site:
        site.remote.passes.clear()
        # Long before the machine's clock, which the store has.
        site.clock.pass_ms(-100 * 24 * 3_600_000)
        await site.commit(50)
        site.service.follows(OTHER)
        site.remote.is_shared = True
        site.remote.passes.set()
        site.service.leads(None)
        await eventually(lambda: site.passed_on, seconds=10, what="it passes the lead on")
        ((why,),) = site.observer.of("load_failed")
        assert "move it away" in why
        with pytest.raises(ManagerNotLeading):
            site.read()
        # Meanwhile another one has stored what is newer.
        await site.remote.put([RowWrite(a_key().of, {0: StoredOffset(30, 1)}, 0)])
        await site.lead()
        assert site.read().offset == 30


async def test_a_preview_changes_nothing(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        writer = site.service.writer("alice", "")
        decision = site.service.preview_deletion(OffsetScope("DefaultCluster", "", "billing"), writer)
        assert [change.before.offset for change in decision.changes] == [50]
        assert site.read().offset == 50


async def test_a_freeze_ends_when_its_operation_does_not_renew_it(tmp_path):
    async with service_site(tmp_path) as site:
        freeze = Freeze(operation="op", reason="test", keys=frozenset({a_key()}), lease_ms=10_000)
        site.service.freeze(freeze)
        site.clock.pass_ms(9_000)
        site.service.renew_freeze("op")
        site.clock.pass_ms(9_000)
        site.service.end_freezes()
        assert (await site.commit(1)).status is OffsetStatus.FENCED
        site.clock.pass_ms(2_000)
        site.service.end_freezes()
        assert (await site.commit(1)).status is OffsetStatus.OK
        assert site.observer.of("thawed") == [("op", True)]


async def test_a_freeze_is_not_renewed_by_a_manager_that_was_paused_and_may_not_lead_any_more(tmp_path):
    async with service_site(tmp_path) as site:
        began_ms = site.clock.now_ms()
        site.service.leads(began_ms + 30_000)
        site.service.freeze(Freeze(operation="op", reason="test", keys=frozenset({a_key()}), lease_ms=600_000))
        read = site.clock.now_ms

        def read_then_paused():
            now_ms = read()
            site.clock.pass_ms(60_000)
            return now_ms

        site.clock.now_ms = read_then_paused
        with pytest.raises(ManagerNotLeading):
            site.service.renew_freeze("op")
