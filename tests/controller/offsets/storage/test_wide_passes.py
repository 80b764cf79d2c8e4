"""Thousands of dirty rows hold up neither those who wait for a few of them, nor the event loop."""

import asyncio
import contextlib
import tracemalloc

import pytest
from fakes.leadership_listener import eventually
from remote_stores import all_rows
from stored_offset_builders import a_commit, an_offset, row_name
from write_behind_site import site

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.dirty_offsets import DirtyTable
from controller.offsets.storage.flush_order import FlushOrder
from controller.offsets.storage.flush_pass import WAITED_ROWS_MAX, FlushPass
from controller.offsets.storage.flush_waiters import FlushWaiters
from controller.offsets.storage.remote import PutOutcome, RowTooLarge
from controller.offsets.storage.row_flusher import FLUSH_ROWS_MAX, RowNotWritable
from controller.offsets.storage.write_behind import SCOPE_ROWS, InJournalOnly
from controller.offsets.storage.write_behind_options import TooManyDirtyOffsets
from controller.offsets.values import QueueKey, is_lock_row
from store.store import StoreError

SOON_S = 20
#: A flush interval that no test waits for.
LATER_MS = 10_000
ROWS = 5 * FLUSH_ROWS_MAX
#: A flush that nobody waited for took 525 bytes for each dirty row.
FLUSH_BYTES_MAX = 500_000


def wide(rows=ROWS):
    return [a_commit(1, group=f"wide-{n}") for n in range(rows)]


def is_write_through(of):
    return of.group.startswith("through")


async def pass_under_way(at, *changes):
    """Let a pass over many rows wait for the store to take its first part."""
    at.remote.passes.clear()
    await at.commit(*changes)
    at.behind._is_urgent.set()
    await eventually(lambda: at.remote.held, seconds=SOON_S, what="the first part is under way")


async def dirty_after(at, *callers):
    """Let the store take parts, and return how many queues are dirty when all callers are answered."""
    at.remote.passes.set()
    await asyncio.gather(*callers)
    return at.behind.dirty_keys


async def started(*waits):
    tasks = [asyncio.create_task(each) for each in waits]
    await asyncio.sleep(0.1)
    return tasks


async def test_commit_that_is_written_through_waits_for_no_wide_pass(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS, is_write_through=is_write_through) as at:
        await pass_under_way(at, *wide())
        callers = await started(at.commit(a_commit(7, group="through")))
        assert await dirty_after(at, *callers) >= ROWS - 3 * FLUSH_ROWS_MAX
        assert (await at.stored())[("through", 0)] == 7


async def test_wide_commit_that_is_written_through_keeps_no_narrow_one_waiting(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS, is_write_through=is_write_through) as at:
        await pass_under_way(at, *wide())
        first = await started(at.commit(*(a_commit(1, group=f"through-{n}") for n in range(ROWS))))
        narrow = await started(at.commit(a_commit(7, group="through")))
        assert await dirty_after(at, *narrow) >= 2 * ROWS - 3 * FLUSH_ROWS_MAX
        assert not first[0].done()
        await first[0]


async def test_flush_of_a_late_row_waits_for_no_wide_pass(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await pass_under_way(at, *wide(), a_commit(7, group="late"))
        callers = await started(at.behind.flush(lambda of: of.group == "late"))
        assert await dirty_after(at, *callers) >= ROWS - 3 * FLUSH_ROWS_MAX
        assert (await at.stored())[("late", 0)] == 7


async def test_change_of_an_operator_has_its_turn_within_a_wide_pass(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await pass_under_way(at, *wide())
        reset = OffsetChange(QueueKey(row_name("reset"), 0), None, an_offset(3, epoch=1))
        callers = await started(at.behind.write([reset]))
        assert await dirty_after(at, *callers) >= ROWS - 2 * FLUSH_ROWS_MAX


async def test_wide_pass_writes_each_row_once_and_the_newest_offset_of_each(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await pass_under_way(at, *wide())
        flushes = await started(at.behind.flush_all(), at.behind.flush(lambda of: of.group.endswith("9")))
        await at.commit(a_commit(2, group=f"wide-{ROWS - 1}"))
        assert await dirty_after(at, *flushes) == 0
        written = [write.of.group for batch in at.remote.written for write in batch]
        assert len(written) == ROWS
        assert await at.stored() == {(f"wide-{n}", 0): 1 + (n == ROWS - 1) for n in range(ROWS)}


async def test_row_that_became_unreadable_during_a_pass_is_not_written_over(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await at.commit(a_commit(5, group="zz"))
        await at.behind.flush_all()
        await pass_under_way(at, *wide(), a_commit(7, group="zz"))
        await at.written_by_another((row_name("zz"), {0: an_offset(6)}))
        file = at.remote.store._file
        file.connection.execute("UPDATE offsets SET digest = digest + 1 WHERE key LIKE '%zz%'")
        reset = OffsetChange(QueueKey(row_name("zz"), 0), an_offset(5), an_offset(3, epoch=1))
        # It finds the row unreadable between two parts of the pass, which is to write it later.
        callers = await started(at.behind.write([reset]))
        await dirty_after(at, *callers)
        await eventually(lambda: at.behind.dirty_keys == 1, seconds=SOON_S, what="the pass is over")
        rows, _ = await all_rows(at.remote.store)
        assert "checksum" in rows[row_name("zz")].problem
        with pytest.raises(RowNotWritable, match="checksum"):
            await at.behind.flush_all()


async def test_pass_ends_where_the_lead_is_lost_between_two_parts(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await pass_under_way(at, *wide())
        at.behind.not_leading()
        at.remote.passes.set()
        await eventually(lambda: at.behind.dirty_keys < ROWS, seconds=SOON_S, what="the first part is flushed")
        await asyncio.sleep(0.1)
        assert at.behind.dirty_keys == ROWS - FLUSH_ROWS_MAX
        await at.behind.load()
        assert at.behind.dirty_keys == 0


async def test_flushes_of_everything_take_little_memory_however_much_is_dirty(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        await pass_under_way(at, *wide(4000))
        tracemalloc.start()
        try:
            flushes = await started(*(at.behind.flush_all() for _ in range(10)))
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken < 10 * FLUSH_BYTES_MAX
        assert await dirty_after(at, *flushes) == 0


async def test_flush_lets_others_run_while_it_looks_at_many_rows(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS) as at:
        at.remote.passes.clear()
        for _ in range(2):
            await at.commit(*wide(2 * SCOPE_ROWS))
        looks = 0

        def is_nobodys(_):
            nonlocal looks
            looks += 1
            return False

        flush = asyncio.create_task(at.behind.flush(is_nobodys))
        longest = before = 0
        while not flush.done():
            await asyncio.sleep(0)
            longest, before = max(longest, looks - before), looks
        await flush
        assert looks == 2 * SCOPE_ROWS
        assert longest <= SCOPE_ROWS
        at.remote.passes.set()


# Which rows come first


LOCK = row_name(cluster="\x01c")


def lock_change(offset):
    return OffsetChange(QueueKey(LOCK, 0), None, an_offset(offset))


async def one_part(at):
    """Let the store take the one part that is under way, and return once the next write is."""
    before = len(at.remote.written)
    at.remote.passes.set()
    at.remote.passes.clear()
    await eventually(lambda: len(at.remote.written) > before and at.remote.held, seconds=SOON_S, what="the next write")


def is_before(at, group, lock_offset):
    """Return whether the store got a group no later than an offset of the lock."""
    rows = [row for part in at.remote.written for row in part]
    lock_at = next(n for n, row in enumerate(rows) if row.of == LOCK and row.queues[0].offset == lock_offset)
    return group in [row.of.group for row in rows[:lock_at]]


async def test_release_is_not_before_final_offsets_though_its_lock_was_written_earlier_in_the_pass(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS, is_write_through=is_lock_row) as at:
        at.remote.passes.clear()
        await at.commit(*wide())
        (grant,) = await started(at.commit(lock_change(1)))
        while at.behind.dirty_keys > FLUSH_ROWS_MAX + 2:
            await one_part(at)
        await grant
        reset = OffsetChange(QueueKey(row_name("reset"), 0), None, an_offset(3, epoch=1))
        callers = await started(at.behind.write([reset]))
        await one_part(at)  # the change of the operator has its turn before the last rows
        await at.commit(a_commit(7, group="final"))
        callers += await started(at.behind.record([lock_change(2)], before={row_name("final")}))
        await dirty_after(at, *callers)
        assert is_before(at, "final", 2)


async def test_release_that_was_not_confirmed_in_time_is_not_before_final_offsets(tmp_path):
    """Also where the lock was dirty before them, and nobody waits for either any more."""
    async with site(tmp_path, is_write_through=is_lock_row, write_through_ms=50) as at:
        at.remote.error = StoreError("etcd does not answer")
        with pytest.raises(InJournalOnly):
            await at.commit(lock_change(1))
        await at.commit(a_commit(7, group="final"))
        with pytest.raises(InJournalOnly):
            await at.behind.record([lock_change(2)], before={row_name("final")})
        at.remote.error = None
        await at.behind.flush_all()
        assert is_before(at, "final", 2)


async def test_release_stays_behind_a_final_offset_whose_row_has_moved(tmp_path):
    """As where the answer to the write before was lost, and the copy of the row is not what the store has."""
    async with site(tmp_path, is_write_through=is_lock_row) as at:
        await at.commit(a_commit(6, group="final"), lock_change(1))
        at.remote.lost_answers = 1
        await at.commit(a_commit(7, group="final"))
        await eventually(lambda: not at.remote.lost_answers, seconds=SOON_S, what="the answer is lost")
        await at.commit(a_commit(8, group="final"))
        states = []
        put = at.remote.store.put

        async def watched_put(writes):
            outcome = await put(writes)
            states.append(
                ((await at.stored())[("final", 0)], (await all_rows(at.remote.store))[0][LOCK].queues[0].offset)
            )
            return outcome

        at.remote.store.put = watched_put
        await at.behind.record([lock_change(2)], before={row_name("final")})
        assert (7, 1) in states, "the row had moved"
        assert states[-1] == (8, 2)
        assert (7, 2) not in states


@pytest.mark.parametrize("is_dirty_before", [True, False])
async def test_release_waits_for_no_final_offset_that_cannot_be_written(tmp_path, is_dirty_before):
    """Whether that is known when the release is recorded, or found by the flush."""
    async with site(tmp_path, flush_interval_ms=LATER_MS, is_write_through=is_lock_row) as at:
        put = at.remote.store.put

        async def put_but_final(writes):
            fitting = [each for each in writes if each.of.group != "final"]
            results = iter((await put(fitting)).results if fitting else ())
            return PutOutcome(
                [RowTooLarge("too large") if each.of.group == "final" else next(results) for each in writes], 1
            )

        at.remote.store.put = put_but_final
        await at.commit(a_commit(7, group="final"))
        if is_dirty_before:
            with pytest.raises(RowNotWritable):
                await at.behind.flush_all()
        with contextlib.suppress(InJournalOnly):
            await at.behind.record([lock_change(2)], before={row_name("final")})
        await at.behind.flush_rows([LOCK])
        assert (await all_rows(at.remote.store))[0][LOCK].queues[0].offset == 2


async def test_wide_release_is_written_in_parts_and_behind_all_its_final_offsets(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS, is_write_through=is_lock_row) as at:
        finals = wide(2 * FLUSH_ROWS_MAX)
        locks = [
            OffsetChange(QueueKey(each.key.of._replace(cluster="\x01c"), 0), None, an_offset(1)) for each in finals
        ]
        at.remote.passes.clear()
        (grant,) = await started(at.commit(*locks))
        await at.commit(*finals)
        releases = [each._replace(after=an_offset(2)) for each in locks]
        release = at.behind.record(releases, before={each.key.of for each in finals})
        await dirty_after(at, grant, release)
        assert max(len(part) for part in at.remote.written) <= FLUSH_ROWS_MAX
        rows = [write for part in at.remote.written for write in part]
        released = [n for n, write in enumerate(rows) if is_lock_row(write.of) and write.queues[0].offset == 2]
        final = [n for n, write in enumerate(rows) if not is_lock_row(write.of)]
        assert len(released) == len(final) == len(finals)
        assert max(final) < min(released)


async def test_release_that_was_refused_holds_nothing_back(tmp_path):
    async with site(tmp_path, flush_interval_ms=LATER_MS, dirty_keys_max=1) as at:
        await at.commit(a_commit(7, group="final"))
        with pytest.raises(TooManyDirtyOffsets):
            await at.behind.record([lock_change(2)], before={row_name("final")})
        assert not at.behind._flusher.order.is_held(LOCK)


# The order of a pass


async def waiting(waiters, *rows):
    task = asyncio.create_task(waiters.wait({of: {0: 1} for of in rows}))
    await asyncio.sleep(0)
    return task


def names(prefix, count):
    return [row_name(f"{prefix}-{n}") for n in range(count)]


def a_pass(rows, waiters):
    return FlushPass(rows, waiters, FlushOrder(DirtyTable()))


def parts_of(flush_pass):
    parts = []
    while part := flush_pass.next_part():
        parts.append(part)
    return parts


async def test_pass_without_callers_keeps_its_order():
    rows = names("row", 2 * FLUSH_ROWS_MAX + 1)
    parts = parts_of(a_pass(rows, FlushWaiters()))
    assert [each for part in parts for each in part] == rows
    assert [len(part) for part in parts] == [FLUSH_ROWS_MAX, FLUSH_ROWS_MAX, 1]


async def test_rows_that_nobody_waits_for_have_a_share_of_each_part():
    waiters = FlushWaiters()
    task = await waiting(waiters, *names("waited", 1000))
    rows = names("row", 2 * FLUSH_ROWS_MAX)
    part = a_pass(rows, waiters).next_part()
    assert part == [*names("waited", WAITED_ROWS_MAX), *rows[: FLUSH_ROWS_MAX - WAITED_ROWS_MAX]]
    task.cancel()


async def test_rows_that_are_waited_for_are_in_a_part_once_and_make_it_no_smaller():
    waiters = FlushWaiters()
    rows = names("row", 2 * FLUSH_ROWS_MAX)
    task = await waiting(waiters, *rows[:10])
    part = a_pass(rows, waiters).next_part()
    assert part == rows[:FLUSH_ROWS_MAX]
    task.cancel()


async def test_pass_of_one_part_keeps_its_order_whoever_waits():
    waiters = FlushWaiters()
    rows = names("row", FLUSH_ROWS_MAX)
    task = await waiting(waiters, rows[-1])
    assert a_pass(rows, waiters).next_part() == rows
    task.cancel()
