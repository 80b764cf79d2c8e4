"""Write-behind in trouble: a lost lead, a store that was put back, rows that cannot be read."""

import asyncio

import pytest
from fakes.leadership_listener import eventually
from stored_offset_builders import a_commit, a_deletion, an_offset, row_name
from write_behind_site import site

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.row_flusher import RowNotWritable
from controller.offsets.storage.write_behind import (
    OffsetsNotLoaded,
)
from controller.offsets.values import LAST_ROW_MARK, QueueKey
from store.store import Deposed, StoreError

SOON_S = 20


async def clean(behind):
    await eventually(lambda: behind.dirty_keys == 0, seconds=SOON_S, what="everything is flushed")


async def test_manager_that_is_deposed_takes_nothing_until_it_has_loaded_again(tmp_path):
    async with site(tmp_path) as at:
        at.remote.error = Deposed("m9 leads instead")
        await at.commit(a_commit(100))
        with pytest.raises(StoreError):
            await at.behind.flush_all()
        await eventually(lambda: at.observer.failures, seconds=SOON_S, what="the flush fails")
        with pytest.raises(OffsetsNotLoaded):
            await at.commit(a_commit(101))
        at.remote.error = None
        await at.behind.load()
        assert await at.stored() == {("payments", 0): 100}
        await at.commit(a_commit(101))


async def test_load_that_began_before_the_lead_was_lost_does_not_count(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        at.remote.passes.clear()
        loading = asyncio.create_task(at.behind.load())
        await eventually(lambda: at.remote.held, seconds=SOON_S, what="the write is under way")
        at.behind.not_leading()
        at.remote.passes.set()
        with pytest.raises(Deposed, match="while it loaded"):
            await loading
        with pytest.raises(OffsetsNotLoaded):
            await at.commit(a_commit(101))


async def test_remote_store_from_an_older_backup_is_raised_to_what_was_flushed(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(7, group="other"))
        await at.behind.flush_all()
        await at.commit(a_commit(200), a_commit(9, queue_id=1))
        await at.behind.flush_all()
        older = {row_name(): {0: an_offset(100)}, row_name("other"): {0: an_offset(8)}}
        await at.written_by_another(*older.items())
        at.behind.put_back()
        with pytest.raises(OffsetsNotLoaded):
            await at.commit(a_commit(201))
        rows = await at.behind.load()
        assert rows[row_name()].queues == {0: an_offset(200), 1: an_offset(9)}
        assert await at.stored() == {("payments", 0): 200, ("payments", 1): 9, ("other", 0): 8}
        assert at.observer.put_backs == [2]


LOCK, LAST_TOKEN = row_name(cluster="\x01c"), row_name(cluster=LAST_ROW_MARK)


async def put_back_with_locks(at):
    """Let the store lose a lock that it has, one that is on its way to it, the last token and an offset."""
    await at.commit(a_commit(200), *(OffsetChange(QueueKey(of, 0), None, an_offset(9)) for of in (LOCK, LAST_TOKEN)))
    await at.behind.flush_all()
    at.remote.error = StoreError("etcd does not answer")
    await at.commit(OffsetChange(QueueKey(LOCK, 1), None, an_offset(9)))
    older = {row_name(): {0: an_offset(100)}, LOCK: {}, LAST_TOKEN: {0: an_offset(7)}}
    await at.written_by_another(*older.items())
    at.behind.put_back()
    at.behind.not_leading()
    at.remote.error = None


async def test_locks_are_as_this_manager_had_them_where_nobody_has_led_since_the_store_was_put_back(tmp_path):
    async with site(tmp_path) as at:
        await put_back_with_locks(at)
        rows = await at.behind.load()
        assert rows[LOCK].queues.keys() == {0, 1}


async def test_locks_that_another_manager_released_after_the_store_was_put_back_do_not_come_again(tmp_path):
    async with site(tmp_path) as at:
        await put_back_with_locks(at)
        at.remote.leads_seen += 1
        rows = await at.behind.load()
        assert LOCK not in rows
        assert (rows[row_name()].queues, rows[LAST_TOKEN].queues) == ({0: an_offset(200)}, {0: an_offset(9)})


async def test_write_into_a_row_that_was_put_back_stores_again_what_it_has_lost(tmp_path):
    """The manager finds out by this write, before the election does."""
    async with site(tmp_path) as at:
        await at.commit(a_commit(200), a_commit(9, queue_id=1), a_commit(5, queue_id=2), a_commit(8, queue_id=3))
        await at.behind.flush_all()
        await at.written_by_another((row_name(), {0: an_offset(100), 2: an_offset(6)}))
        await at.commit(a_commit(10, queue_id=3))
        await at.behind.flush_all()
        assert await at.stored() == {("payments", 0): 200, ("payments", 1): 9, ("payments", 2): 6, ("payments", 3): 10}
        assert at.observer.put_backs == [3]


async def test_removed_value_does_not_come_again_where_the_answer_to_its_removal_was_lost(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(5, queue_id=1))
        await at.behind.flush_all()
        at.remote.lost_answers = 1
        await at.commit(a_deletion(an_offset(100)), a_commit(6, queue_id=1))
        await clean(at.behind)
        assert await at.stored() == {("payments", 1): 6}


async def test_row_that_cannot_be_read_is_named_and_kept_and_others_go_on(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(5, group="other"))
        await at.behind.flush_all()
        damage(at)
        rows = await at.behind.load()
        assert "its checksum is wrong" in rows[row_name()].problem
        assert [of for of, _ in at.observer.unwritable] == [row_name()]
        with pytest.raises(RowNotWritable, match="DefaultCluster//payments/orders/broker-a"):
            await at.commit(a_commit(101))
        await at.commit(a_commit(6, group="other"))
        await at.behind.flush_all()
        assert at.behind.problem(row_name("other")) == ""


def damage(at):
    file = at.remote.store._file
    file.connection.execute("UPDATE offsets SET digest = digest + 1 WHERE key LIKE '%payments%'")


async def test_row_that_cannot_be_written_uses_up_nobody_elses_room(tmp_path):
    async with site(tmp_path, dirty_keys_max=2) as at:
        await at.commit(a_commit(100))
        await at.behind.flush_all()
        at.remote.passes.clear()
        await at.commit(a_commit(200), a_commit(5, queue_id=1))
        await at.written_by_another((row_name(), {0: an_offset(150)}))
        damage(at)
        at.remote.passes.set()
        await eventually(lambda: at.behind.problem(row_name()), seconds=SOON_S, what="the row is found damaged")
        await at.commit(a_commit(5, group="other"), a_commit(5, queue_id=1, group="other"))
        await at.behind.flush(lambda of: of.group == "other")
        assert at.behind.dirty_keys == 2


async def test_row_that_no_request_takes_is_refused_until_offsets_of_it_are_deleted(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(7, queue_id=1))
        await at.behind.flush_all()
        at.remote.too_large = "the row takes 2000000 bytes"
        await at.commit(a_commit(200))
        await eventually(lambda: at.behind.problem(row_name()), seconds=SOON_S, what="the row is found too large")
        with pytest.raises(RowNotWritable, match="takes 2000000 bytes"):
            await at.commit(a_commit(300))
        assert at.behind.dirty_keys == 1
        at.remote.too_large = ""
        await at.commit(a_deletion(an_offset(7), queue_id=1))
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 200}


async def test_key_that_names_no_row_is_reported_and_keeps_no_row_away(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        await at.behind.flush_all()
        at.remote.store._file.connection.execute("INSERT INTO offsets VALUES ('nonsense', 1, 0, x'')")
        assert list(await at.behind.load()) == [row_name()]
        assert ["nonsense" in each for each in at.observer.foreign] == [True]


async def test_row_that_became_unreadable_fails_its_flush_and_is_not_written_over(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        await at.behind.flush_all()
        at.remote.passes.clear()
        await at.commit(a_commit(200), a_commit(5, group="other"))
        flush = asyncio.create_task(at.behind.flush_all())
        await eventually(lambda: at.remote.held, seconds=SOON_S, what="the write is under way")
        await at.written_by_another((row_name(), {0: an_offset(150)}))
        damage(at)
        at.remote.passes.set()
        with pytest.raises(RowNotWritable, match="checksum"):
            await flush
        await at.behind.flush(lambda of: of.group == "other")
        assert at.behind.dirty_keys == 1
        with pytest.raises(RowNotWritable):
            await at.behind.flush_all()
        assert await at.behind.stop(within_s=SOON_S) == 1


async def test_flush_is_reported_with_its_size_and_time(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(*(a_commit(n, queue_id=n) for n in range(8)), a_commit(1, group="other"))
        await clean(at.behind)
        assert [(rows, keys) for rows, keys, _ in at.observer.flushed] == [(2, 9)]
        assert at.observer.flushed[0][2] >= 0
