"""How long it is stored that offsets were deleted, and what an old journal may do then."""

import shutil

import pytest
from fakes.leadership_listener import eventually
from stored_offset_builders import a_commit, an_offset, queue_key, row_name
from write_behind_site import site

from controller.offsets.storage.remote import RowWrite
from controller.offsets.storage.row_flusher import JournalTooOld
from controller.offsets.values import DELETED
from remoting.clock import SystemClock
from store.store import StoreError

SOON_S = 20
DAY_MS = 24 * 3_600_000


async def clean(behind):
    await eventually(lambda: behind.dirty_keys == 0, seconds=SOON_S, what="everything is flushed")


def deleted(days_ago, *, epoch=1):
    return an_offset(DELETED, epoch, unix_ms=SystemClock().unix_ms() - days_ago * DAY_MS)


def a_change_to(after, queue_id=0):
    return a_commit(queue_id=queue_id)._replace(after=after)


async def test_deleted_offsets_are_remembered_for_a_week_and_leave_nothing_then(tmp_path):
    async with site(tmp_path) as at:
        old, recent = deleted(8), deleted(6)
        await at.commit(a_change_to(old), a_change_to(recent, 1), a_commit(5, queue_id=2))
        await at.behind.flush_all()
        assert await at.behind.forget_deleted() == [(queue_key(0), old)]
        rows = await at.behind.load()
        assert rows[row_name()].queues == {1: recent, 2: an_offset(5)}


async def test_row_of_nothing_but_long_deleted_offsets_is_removed_by_the_next_load(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_change_to(deleted(8)), a_commit(5, group="other"))
        await at.behind.flush_all()
        assert list(await at.behind.load()) == [row_name("other")]


async def test_deletion_that_the_store_lacks_is_not_forgotten(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        await at.behind.flush_all()
        at.remote.error = StoreError("etcd is down")
        await at.commit(a_change_to(deleted(8)))
        assert await at.behind.forget_deleted() == []
        at.remote.error = None
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): DELETED}


async def test_journal_from_before_what_is_remembered_is_refused_unless_the_store_has_all_of_it(tmp_path):
    async with site(tmp_path) as at:
        at.remote.error = StoreError("etcd is down")
        await at.commit(a_change_to(an_offset(150, unix_ms=deleted(7).unix_ms)))
    async with site(tmp_path, loaded=False) as at:
        with pytest.raises(JournalTooOld, match=r"offset-journal.db: .* of 1 queues .* 6 days .*: move it away"):
            await at.behind.load()
        await at.remote.store.put([RowWrite(row_name(), {0: an_offset(30, epoch=1)}, 0)])
        await at.behind.load()
        assert await at.stored() == {("payments", 0): 30}


async def test_journal_of_any_age_counts_where_no_other_manager_writes(tmp_path):
    async with site(tmp_path) as at:
        at.remote.error = StoreError("the disk is full")
        await at.commit(a_change_to(an_offset(150, unix_ms=deleted(70).unix_ms)))
    async with site(tmp_path, loaded=False) as at:
        at.remote.is_shared = False
        await at.behind.load()
        assert await at.stored() == {("payments", 0): 150}


@pytest.mark.parametrize(
    ("of_the_first", "of_the_second", "left"),
    [
        # Its deletion arrived, the answer was lost, and the group began anew.
        ([deleted(0)], [deleted(0), an_offset(50, epoch=1)], 50),
        # Its commit did not arrive, and the group was deleted and made anew.
        ([an_offset(150)], [deleted(0), an_offset(30, epoch=1)], 30),
        # Its deletion and the next commit did not arrive; another one deleted the group, which is further on.
        ([deleted(0), an_offset(5, epoch=1)], [deleted(0), an_offset(50, epoch=1)], 50),
        # As above, and nothing was stored after the deletion.
        ([an_offset(150)], [deleted(0)], DELETED),
    ],
)
async def test_manager_that_leads_again_undoes_nothing_of_what_the_next_one_stored(
    tmp_path, of_the_first, of_the_second, left
):
    first, second = tmp_path / "m1", tmp_path / "m2"
    async with site(first) as at:
        await at.commit(a_commit(100))
        await at.behind.flush_all()
        at.remote.error = StoreError("etcd is down")
        for each in of_the_first:
            await at.commit(a_change_to(each))
    shutil.copytree(first / "remote", second / "remote")
    async with site(second) as at:
        for each in of_the_second:
            await at.commit(a_change_to(each))
        await at.behind.flush_all()
    shutil.rmtree(first / "remote")
    shutil.copytree(second / "remote", first / "remote")
    async with site(first) as at:
        assert await at.stored() == {("payments", 0): left}
        assert at.behind.dirty_keys == 0
