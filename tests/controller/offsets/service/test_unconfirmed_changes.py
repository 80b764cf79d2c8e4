"""Changes that the store has not confirmed: nobody reads them, nothing rests on them, and none takes effect later."""

import asyncio
import shutil

import pytest
from fakes.leadership_listener import eventually
from service_site import OTHER, a_key, service_site

from controller.offsets.commits.results import OffsetNotFound, OffsetStatus
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.commits.writing import LEADS
from controller.offsets.storage.remote import PutOutcome, RowTooLarge
from controller.offsets.storage.row_flusher import RowNotWritable
from controller.offsets.storage.write_behind import Durability, InJournalOnly
from store.store import OutcomeUnknown

LATER_MS = 10_000
SCOPE = OffsetScope("DefaultCluster", "", "billing")


def write_through(of):
    return of.group == "payments"


def delete(site):
    return asyncio.create_task(site.service.delete(SCOPE, site.service.writer("alice", "")))


def reset(site, offset, queue_id=0):
    return asyncio.create_task(site.reset(offset, queue_id))


async def a_write_waits(site):
    await eventually(lambda: site.remote.held, seconds=10, what="a write waits for the store")


async def stored_by_another_manager(killed, folder, *offsets):
    """Let a manager with a journal of its own commit to the store of the killed one, and put the store back there."""
    folder.mkdir()
    for file in killed.glob("offsets*"):
        shutil.copy(file, folder)
    async with service_site(folder) as other:
        for each in offsets:
            assert (await other.commit(each)).status is OffsetStatus.OK
    for file in killed.glob("offsets*"):
        file.unlink()
    for file in folder.glob("offsets*"):
        shutil.copy(file, killed)


@pytest.mark.parametrize("change", [lambda site: reset(site, 10), delete], ids=["reset", "deletion"])
async def test_what_a_killed_manager_did_not_acknowledge_vanishes_and_what_it_acknowledged_holds(tmp_path, change):
    killed = tmp_path / "killed"
    async with service_site(tmp_path / "first", flush_interval_ms=LATER_MS) as first:
        await first.commit(50)
        await first.service.flush(None)
        await first.commit(8, 1)
        first.remote.passes.clear()
        unanswered = change(first)
        await a_write_waits(first)
        shutil.copytree(tmp_path / "first", killed)
        first.remote.passes.set()
        await unanswered
    await stored_by_another_manager(killed, tmp_path / "second", 60)
    async with service_site(killed) as again:
        assert (again.read().offset, again.read().reset_epoch) == (60, 0)
        assert again.read(1).offset == 8
        assert (await again.commit(61)).status is OffsetStatus.OK


async def test_a_reset_is_read_once_the_store_has_it_and_not_before(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        site.remote.passes.clear()
        unanswered = reset(site, 10)
        await a_write_waits(site)
        assert site.read().offset == 50
        assert site.service.page(SCOPE, None, 10).offsets[0][1].offset == 50
        site.remote.passes.set()
        assert (await unanswered).durability is Durability.REMOTE
        assert (site.read().offset, site.read().reset_epoch) == (10, site.clock.unix_ms() * LEADS)
        assert site.store.dirty_keys == 0


async def test_a_reset_that_the_store_refuses_leaves_the_offset_and_its_row_as_they_were(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        await site.service.flush(None)
        put = site.remote.put

        async def refuse(writes):
            return PutOutcome([RowTooLarge("the row takes 2000000 bytes") for _ in writes], 0)

        site.remote.put = refuse
        with pytest.raises(RowNotWritable, match="takes 2000000 bytes"):
            await site.reset(10)
        site.remote.put = put
        assert site.read().offset == 50
        assert (await site.commit(51)).status is OffsetStatus.OK
        await site.service.flush(None)
        assert site.observer.of("changed_by_operator") == []


async def test_nothing_is_decided_on_a_reset_that_the_store_has_not_confirmed(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        site.remote.passes.clear()
        first = reset(site, 10)
        await a_write_waits(site)
        for epoch in (0, site.clock.unix_ms() * LEADS):
            result = await site.commit(51, epoch=epoch)
            assert (result.status, result.reason) == (
                OffsetStatus.UNKNOWN,
                "the offset is being reset, seeded or deleted: repeat in a second",
            )
        assert [each.status for each in (await site.reset(5)).results] == [OffsetStatus.UNKNOWN]
        # Other queues go on.
        assert (await site.commit(3, 1)).status is OffsetStatus.OK
        site.remote.passes.set()
        await first
        assert (await site.commit(51)).status is OffsetStatus.STALE
        assert (await site.commit(11, epoch=site.clock.unix_ms() * LEADS)).status is OffsetStatus.OK


async def test_a_repeated_deletion_is_no_success_until_the_first_one_is(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        await site.service.flush(None)
        site.remote.passes.clear()
        first, second = delete(site), delete(site)
        await a_write_waits(site)
        assert [each.status for each in (await second).results] == [OffsetStatus.UNKNOWN]
        site.remote.passes.set()
        assert [each.status for each in (await first).results] == [OffsetStatus.OK]
        assert (await delete(site)).results == ()
        assert site.read() == OffsetNotFound(site.clock.unix_ms() * LEADS)


async def test_a_reset_whose_answer_was_lost_is_repeated_until_it_is_known(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        put, lost = site.remote.put, []

        async def lose_two_answers(writes):
            outcome = await put(writes)
            if len(lost) < 2:
                lost.append(writes)
                raise OutcomeUnknown("the answer was lost")
            return outcome

        site.remote.put = lose_two_answers
        assert (await site.reset(10)).durability is Durability.REMOTE
        assert len(lost) == 2
        assert (site.read().offset, site.read().reset_epoch) == (10, site.clock.unix_ms() * LEADS)


async def test_a_reset_that_its_caller_gives_up_is_made_as_a_whole_and_reported(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        site.remote.passes.clear()
        given_up = reset(site, 10)
        await a_write_waits(site)
        given_up.cancel()
        await asyncio.wait({given_up})
        assert site.read().offset == 50
        site.remote.passes.set()
        await eventually(lambda: site.observer.of("changed_by_operator"), seconds=10, what="it is reported")
        assert site.read().offset == 10


async def test_a_reset_under_way_when_the_lead_ends_is_not_made_by_the_next_lead(tmp_path):
    async with service_site(tmp_path) as site:
        await site.commit(50)
        await site.service.flush(None)
        site.remote.put_error = OutcomeUnknown("etcd is cut off")
        unanswered = reset(site, 10)
        await eventually(lambda: site.store.last_error, seconds=10, what="a write has failed")
        site.service.follows(OTHER)
        site.remote.put_error = None
        await site.lead()
        with pytest.raises(OutcomeUnknown, match="does not lead any more"):
            await unanswered
        assert (site.read().offset, site.read().reset_epoch) == (50, 0)


async def test_many_rows_are_stored_in_parts_and_none_twice(tmp_path):
    async with service_site(tmp_path) as site:
        entries = [OffsetEntry(a_key(queue, group=f"g{group}"), 5) for group in range(700) for queue in range(2)]
        stored = await site.service.seed(entries, site.service.writer("alice", ""))
        assert {each.status for each in stored.results} == {OffsetStatus.OK}
        assert site.read(1, group="g699").offset == 5
        ((operation, writer, changes),) = site.observer.of("changed_by_operator")
        assert (operation, writer, len(changes)) == ("seed", "alice", 1400)


async def test_a_repeated_commit_that_the_store_has_not_confirmed_waits_for_it_too(tmp_path):
    async with service_site(tmp_path, is_write_through=write_through, write_through_ms=500) as site:
        site.remote.passes.clear()
        for _ in range(2):
            with pytest.raises(InJournalOnly):
                await site.commit(7, group="payments")
        site.remote.passes.set()
        stored = await site.service.commit([site.entry(7, group="payments")], "client-1")
        assert (stored.results[0].status, stored.durability) == (OffsetStatus.OK, Durability.REMOTE)
        assert site.store.dirty_keys == 0
