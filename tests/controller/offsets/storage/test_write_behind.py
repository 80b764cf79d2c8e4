"""Between journal and remote store: when offsets arrive there, who waits for that, and what happens in trouble."""

import asyncio
import shutil

import pytest
from fakes.leadership_listener import eventually
from stored_offset_builders import a_commit, a_deletion, an_offset, queue_key, row_name
from write_behind_site import site

from controller.offsets.storage.row_flusher import RowNotWritable
from controller.offsets.storage.sqlite_file import FileRemoved
from controller.offsets.storage.write_behind import (
    Durability,
    InJournalOnly,
    OffsetsNotLoaded,
)
from controller.offsets.storage.write_behind_options import TooManyDirtyOffsets, WriteBehindOptions
from store.store import StoreError

SOON_S = 20
#: A flush interval that no test waits for.
LATER_MS = 10_000


async def clean(behind):
    await eventually(lambda: behind.dirty_keys == 0, seconds=SOON_S, what="everything is flushed")


async def test_acknowledged_offsets_reach_the_remote_store_by_themselves(tmp_path):
    async with site(tmp_path) as at:
        assert await at.commit(a_commit(100), a_commit(7, queue_id=1), a_commit(5, group="other")) is Durability.LOCAL
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 100, ("payments", 1): 7, ("other", 0): 5}


async def test_many_commits_of_one_queue_are_few_writes_in_their_order(tmp_path):
    async with site(tmp_path, flush_interval_ms=100) as at:
        await asyncio.gather(*(at.commit(a_commit(each)) for each in range(2000)))
        await at.behind.flush_all()
        written = [write.queues[0].offset for batch in at.remote.written for write in batch]
        assert written == sorted(written)
        assert written[-1] == 1999
        assert len(written) < 200


async def test_each_flush_takes_one_write(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        for offset in (100, 200, 300):
            await at.commit(a_commit(offset))
            await at.behind.flush_all()
        assert [write.queues[0].offset for batch in at.remote.written for write in batch] == [100, 200, 300]


async def test_nothing_is_written_while_nothing_is_committed(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        await clean(at.behind)
        writes = len(at.remote.written)
        await at.commit(a_commit(100))
        await clean(at.behind)
        assert len(at.remote.written) == writes, "an equal offset is no change"
        assert at.observer.ages[-1] == (0, 0)


async def test_write_through_answers_once_the_remote_store_has_it(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS, is_write_through=lambda of: of.group == "payments") as at:
        assert await at.commit(a_commit(100)) is Durability.REMOTE
        assert (await at.stored())[("payments", 0)] == 100
        # Of several groups the answer is that of the weakest.
        assert await at.commit(a_commit(101), a_commit(1, group="other")) is Durability.LOCAL
        assert (await at.stored())[("payments", 0)] == 101
        assert await at.commit(a_commit(2, group="other")) is Durability.LOCAL


async def test_write_through_says_that_the_remote_store_is_too_slow_and_writes_later(tmp_path):
    async with site(tmp_path, write_through_ms=50, is_write_through=lambda _: True) as at:
        at.remote.passes.clear()
        with pytest.raises(InJournalOnly, match=r"are in the journal, .* later: no answer within 50 ms"):
            await at.commit(a_commit(100))
        at.remote.passes.set()
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 100}


async def test_commits_of_further_queues_are_refused_while_too_many_are_dirty(tmp_path):
    async with site(tmp_path, dirty_keys_max=3) as at:
        at.remote.error = StoreError("etcd at 10.0.0.9:2379 is down")
        await at.commit(*(a_commit(1, queue_id=each) for each in range(3)))
        await eventually(lambda: at.observer.failures, seconds=SOON_S, what="a flush fails")
        with pytest.raises(TooManyDirtyOffsets, match=r"offsets of 3 queues.* limit is 3: try again in \d+ ms.* down"):
            await at.commit(a_commit(1, queue_id=3))
        with pytest.raises(TooManyDirtyOffsets):
            await at.commit(a_commit(2, queue_id=2), a_commit(1, queue_id=3))
        # What is dirty may become newer: it takes no more room.
        await at.commit(*(a_commit(2, queue_id=each) for each in range(3)))
        assert at.observer.refused == [3, 3]
        at.remote.error = None
        await clean(at.behind)
        await at.commit(a_commit(1, queue_id=3))
        await at.behind.flush_all()
        assert await at.stored() == {("payments", q): 2 for q in range(3)} | {("payments", 3): 1}


async def test_refusal_says_when_to_come_again(tmp_path):
    async with site(tmp_path, dirty_keys_max=1, flush_interval_ms=1000) as at:
        await at.commit(a_commit(1))
        with pytest.raises(TooManyDirtyOffsets) as refused:
            await at.commit(a_commit(1, queue_id=1))
        assert 1000 <= refused.value.wait_ms <= 10_000


async def test_flush_of_a_scope_returns_once_the_remote_store_has_it(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await at.commit(a_commit(100), a_commit(5, group="other"))
        await at.behind.flush(lambda of: of.group == "payments")
        assert (await at.stored())[("payments", 0)] == 100
        await at.behind.flush(lambda of: of.group == "nobody's")
        await at.behind.flush_all()
        assert at.behind.dirty_keys == 0


async def test_offset_committed_during_a_flush_is_flushed_by_the_next_one(tmp_path):
    async with site(tmp_path) as at:
        at.remote.passes.clear()
        await at.commit(a_commit(100))
        await eventually(lambda: at.remote.held, seconds=SOON_S, what="the write is under way")
        await at.commit(a_commit(200))
        at.remote.passes.set()
        await at.behind.flush_all()
        assert await at.stored() == {("payments", 0): 200}


async def test_failed_flush_is_tried_again(tmp_path):
    async with site(tmp_path) as at:
        at.remote.error = StoreError("etcd is down")
        await at.commit(a_commit(100))
        await eventually(lambda: len(at.observer.failures) > 2, seconds=SOON_S, what="it is tried again")
        assert at.behind.last_error == "etcd is down"
        assert at.behind.oldest_age_ms > 0
        at.remote.error = None
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 100}
        assert (at.behind.last_error, at.behind.oldest_age_ms) == ("", 0)


async def test_write_whose_answer_was_lost_is_repeated_without_harm(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        await clean(at.behind)
        at.remote.lost_answers = 1
        await at.commit(a_commit(200), a_commit(1, queue_id=1))
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 200, ("payments", 1): 1}
        await at.commit(a_commit(300))
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 300, ("payments", 1): 1}


async def test_caller_that_gives_up_has_its_offsets_flushed_all_the_same(tmp_path):
    async with site(tmp_path) as at:
        task = asyncio.create_task(at.commit(a_commit(100)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await at.commit(a_commit(1, group="other"))
        await clean(at.behind)
        assert await at.stored() == {("payments", 0): 100, ("other", 0): 1}


def lose_the_lead(at):
    at.behind.not_leading()


def stop_at_once(at):
    at.stopping = asyncio.create_task(at.behind.stop(within_s=0))


def lose_the_row(at):
    at.behind._waiters.fail(RowNotWritable("the row is too large"), row_name())


@pytest.mark.parametrize(
    ("trouble", "why"), [(lose_the_lead, "does not lead"), (stop_at_once, "is stopping"), (lose_the_row, "too large")]
)
async def test_trouble_after_the_journal_has_it_is_told_apart_from_a_refusal(tmp_path, trouble, why):
    async with site(tmp_path, is_write_through=lambda _: True) as at:
        at.remote.passes.clear()
        commit = asyncio.create_task(at.commit(a_commit(100)))
        await eventually(lambda: at.behind.dirty_keys, seconds=SOON_S, what="the journal has it")
        trouble(at)
        with pytest.raises(InJournalOnly, match=why):
            await commit


async def test_caller_that_is_cancelled_is_not_answered_before_the_journal_has_it(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        commit = asyncio.create_task(at.commit(a_commit(100)))
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        assert at.behind.dirty_keys == 1


async def test_caller_that_is_cancelled_gets_the_error_where_nothing_is_stored(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        (tmp_path / "journal" / "offset-journal.db").unlink()
        commit = asyncio.create_task(at.commit(a_commit(200)))
        await asyncio.sleep(0)
        commit.cancel()
        with pytest.raises(FileRemoved):
            await commit


async def test_deleted_group_leaves_no_row(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(5, group="other"))
        await at.behind.flush_all()
        await at.commit(a_deletion(an_offset(100)))
        await at.behind.flush_all()
        assert await at.stored() == {("other", 0): 5}
        assert list(await at.behind.load()) == [row_name("other")]


# Stop


async def test_graceful_stop_flushes_everything_and_takes_nothing_more(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await at.commit(*(a_commit(n, queue_id=n) for n in range(100)))
        under_way = asyncio.create_task(at.commit(a_commit(5, group="other")))
        await asyncio.sleep(0)
        assert await at.behind.stop(within_s=SOON_S) == 0
        assert await under_way is Durability.LOCAL
        assert await at.stored() == {("payments", n): n for n in range(100)} | {("other", 0): 5}
        with pytest.raises(OffsetsNotLoaded, match="is stopping"):
            await at.commit(a_commit(101))


async def test_graceful_stop_waits_for_commits_under_way(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        under_way = asyncio.create_task(at.commit(a_commit(5)))
        await asyncio.sleep(0)
        assert await at.behind.stop(within_s=SOON_S) == 0
        assert await under_way is Durability.LOCAL
        assert await at.stored() == {("payments", 0): 5}


async def test_stop_gives_up_in_time_and_leaves_the_rest_in_the_journal(tmp_path):
    async with site(tmp_path) as at:
        at.remote.error = StoreError("etcd is down")
        await at.commit(a_commit(100))
        assert await at.behind.stop(within_s=0.2) == 1
    async with site(tmp_path) as at:
        assert await at.stored() == {("payments", 0): 100}


# Start


async def test_nothing_is_taken_before_the_rows_are_loaded(tmp_path):
    async with site(tmp_path, loaded=False) as at:
        with pytest.raises(OffsetsNotLoaded, match="not loaded"):
            await at.commit(a_commit(100))


async def test_restart_raises_the_remote_store_before_anything_is_read(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(50, queue_id=1))
        await clean(at.behind)
        at.remote.error = StoreError("etcd is down")
        await at.commit(a_commit(120), a_commit(7, group="new"))
    async with site(tmp_path, flush_interval_ms=LATER_MS, loaded=False) as at:
        assert await at.stored() == {("payments", 0): 100, ("payments", 1): 50}
        rows = await at.behind.load()
        assert rows[row_name()].queues == {0: an_offset(120), 1: an_offset(50)}
        assert rows[row_name("new")].queues == {0: an_offset(7)}
        assert await at.stored() == {("payments", 0): 120, ("payments", 1): 50, ("new", 0): 7}
        assert at.observer.compensations == [(2, 0)]


async def test_restart_without_remote_store_takes_nothing_until_it_is_there(tmp_path):
    async with site(tmp_path, loaded=False) as at:
        at.remote.error = StoreError("etcd is down")
        with pytest.raises(StoreError, match="etcd is down"):
            await at.behind.load()
        with pytest.raises(OffsetsNotLoaded):
            await at.commit(a_commit(100))
        at.remote.error = None
        await at.behind.load()
        await at.commit(a_commit(100))


async def test_older_copy_of_the_journal_does_not_take_the_remote_store_back(tmp_path):
    async with site(tmp_path) as at:
        at.remote.error = StoreError("etcd is down")
        await at.commit(a_commit(100), a_commit(900, queue_id=1))
    shutil.copytree(tmp_path / "journal", tmp_path / "older")
    async with site(tmp_path) as at:
        reset = an_offset(10, epoch=1)
        await at.commit(a_commit(500), a_commit()._replace(key=queue_key(1), before=an_offset(900), after=reset))
        await at.behind.flush_all()
    shutil.rmtree(tmp_path / "journal")
    shutil.copytree(tmp_path / "older", tmp_path / "journal")
    async with site(tmp_path) as at:
        assert await at.stored() == {("payments", 0): 500, ("payments", 1): 10}
        assert at.observer.compensations == [(0, 2)]
        assert at.behind.dirty_keys == 0


async def test_offsets_of_another_manager_are_merged_into_those_of_this_one(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100), a_commit(50, queue_id=1))
        await at.behind.flush_all()
        await at.written_by_another((row_name(), {0: an_offset(300), 1: an_offset(50), 2: an_offset(9)}))
        await at.commit(a_commit(200), a_commit(60, queue_id=1))
        await at.behind.flush_all()
        assert await at.stored() == {("payments", 0): 300, ("payments", 1): 60, ("payments", 2): 9}


@pytest.mark.parametrize("options", [{"flush_interval_ms": 9}, {"flush_interval_ms": 10_001}, {"dirty_keys_max": 0}])
def test_absurd_options_are_refused(options):
    with pytest.raises(ValueError, match=r"choose 10 to 10000|1 or more"):
        WriteBehindOptions(**options)
