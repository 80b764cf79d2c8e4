"""Commits behind which there is a real etcd: flushed, written through, taken up again at the next lead, or dropped."""

import asyncio
import itertools
import shutil

import pytest
from commit_builders import a_change, a_row
from commit_sites import CLOCK, SOON_S, on_etcd
from fakes.leadership_listener import eventually
from peers.etcd import running_etcd

from offsets.commits import log_file, write_behind
from offsets.commits.events import (
    CommitsRefused,
    FlushFailed,
    FlushRecovered,
    ForeignKeyFound,
    LocalOffsetsDropped,
    OffsetsCompensated,
    OffsetsLeftDirty,
    RowsFlushed,
    RowUnreadable,
)
from offsets.commits.log_file import StoreBusy
from offsets.commits.stored import encoded_row, path_of
from store.store import Deposed, OutcomeUnknown, StoreError

pytestmark = pytest.mark.etcd

#: No flush comes by itself.
LATER_MS = 10_000
_serial = itertools.count()


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def group():
    return f"group-{next(_serial)}"


def key_of(group, row=None):
    return f"/rmq-offsets/{group}/commits/{path_of(row or a_row())}"


def put(etcd, key, value):
    etcd.ctl("put", key, value)


async def kept(tmp_path, etcd, group, row=None):
    """Return the offsets that a manager with a folder of its own finds."""
    async with on_etcd(tmp_path / f"other{next(_serial)}", etcd, group, member="other") as site:
        return site.offsets(row)


async def clean(site):
    await eventually(lambda: not site.store.dirty_keys, seconds=SOON_S, what="etcd has everything")


async def test_acknowledged_offsets_come_to_etcd_within_the_interval_and_as_one_write(tmp_path, etcd, group):
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=300) as site:
        for offset in range(20):
            await site.store.store([a_change(offset), a_change(offset, 1)])
        assert site.store.dirty_keys == 2
        await clean(site)
        assert [(event.written, event.queues) for event in site.told_of(RowsFlushed)] == [(1, 2)]
    assert await kept(tmp_path, etcd, group) == {0: 19, 1: 19}


async def test_stop_flushes_first(tmp_path, etcd, group):
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(7)])
    assert await kept(tmp_path, etcd, group) == {0: 7}


async def test_group_that_is_written_through_is_acknowledged_and_seen_when_etcd_has_it(tmp_path, etcd, group):
    strict = a_row("strict")
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS, through={"strict"}) as site:
        work = asyncio.create_task(site.store.store([a_change(5, row=strict), a_change(6)]))
        await asyncio.sleep(0)
        assert site.offsets(strict) == {}
        await asyncio.wait_for(work, 5)
        assert (site.offsets(strict), site.offsets()) == ({0: 5}, {0: 6})
        assert str(5) in etcd.ctl("get", key_of(group, strict), "--print-value-only").stdout
        assert [name for name, _ in await site.store._newest_records()] == [a_row()], "not the other group"


async def test_reset_is_in_etcd_at_once_and_not_in_the_local_file(tmp_path, etcd, group):
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(50)])
        await asyncio.wait_for(site.store.store_now([a_change(10, epoch=7)]), 5)
        assert site.offsets() == {0: 10}
        assert [value.offset for value in (await site.store._newest_records()).values()] == [50]
        await site.store.store([a_change(11, epoch=7)])
    assert await kept(tmp_path, etcd, group) == {0: 11}


async def test_operator_changes_of_many_rows_are_all_written(tmp_path, etcd, group, monkeypatch):
    monkeypatch.setattr(write_behind, "FLUSH_ROWS_MAX", 30)
    rows = [a_row(f"group-{number}") for number in range(100)]
    async with on_etcd(tmp_path / "a", etcd, group) as site:
        await site.store.store_now([a_change(5, queue, row=row) for row in rows for queue in range(3)])
        assert all(site.offsets(row) == {0: 5, 1: 5, 2: 5} for row in rows)


async def killed(tmp_path, etcd, group):
    """Return the folder of a manager that was killed before it flushed, and what it had acknowledged."""
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(3, 1)])
        await site.store.store_now([a_change(10, 2, epoch=1)])
        await site.store.store([a_change(100), a_change(7, 1), a_change(20, 2, epoch=1)])
        folder = shutil.copytree(tmp_path / "a", tmp_path / "killed")
        site.store.stop_leading()  # it flushes nothing more
    return folder, {0: 100, 1: 7, 2: 20}


async def test_what_only_the_local_file_has_comes_to_etcd_before_anything_is_read(tmp_path, etcd, group):
    folder, acknowledged = await killed(tmp_path, etcd, group)
    async with on_etcd(folder, etcd, group, interval_ms=LATER_MS) as site:
        assert site.offsets() == acknowledged
        assert site.told_of(OffsetsCompensated) == [OffsetsCompensated(queues=3)]
        assert site.store.dirty_keys == 0
    assert await kept(tmp_path, etcd, group) == acknowledged


async def test_what_only_the_local_file_has_is_dropped_if_another_manager_has_led_since(tmp_path, etcd, group):
    folder, _ = await killed(tmp_path, etcd, group)
    assert await kept(tmp_path, etcd, group) == {1: 3, 2: 10}, "a write has all of a row"
    async with on_etcd(folder, etcd, group) as site:
        assert site.offsets() == {1: 3, 2: 10}
        assert site.told_of(LocalOffsetsDropped) == [LocalOffsetsDropped(queues=3)]
    async with on_etcd(folder, etcd, group) as site:
        assert site.told_of(LocalOffsetsDropped) == [], "they are dropped once"


async def test_load_that_is_cut_short_anywhere_loses_nothing(tmp_path, etcd, group, monkeypatch):
    folder, acknowledged = await killed(tmp_path, etcd, group)
    for step in ("drop", "belong_to"):
        with monkeypatch.context() as patch:
            async with on_etcd(folder, etcd, group, loaded=False) as site:
                patch.setattr(site.store._file, step, _fails)
                with pytest.raises(StoreError, match="cut short"):
                    await site.load()
    async with on_etcd(folder, etcd, group) as site:
        assert site.offsets() == acknowledged


async def _fails(*_):
    raise StoreError("cut short")


async def test_write_whose_answer_was_lost_is_merged_and_written_again(tmp_path, etcd, group):
    async with on_etcd(tmp_path / "a", etcd, group) as site:
        await site.store.store([a_change(5)])
        await clean(site)
        # As if a write of this manager had been applied, and its answer lost.
        put(etcd, key_of(group), encoded_row({0: a_change(7).after, 3: a_change(1).after}).decode())
        await site.store.store([a_change(6, 1)])
        await site.store.store_now([a_change(2, 2, epoch=1)])
        await clean(site)
        assert site.offsets() == {0: 7, 1: 6, 2: 2, 3: 1}
    assert await kept(tmp_path, etcd, group) == {0: 7, 1: 6, 2: 2, 3: 1}


async def test_row_that_cannot_be_read_is_unavailable_and_not_written_over(tmp_path, etcd, group):
    put(etcd, key_of(group), '{"v":99}')
    async with on_etcd(tmp_path / "a", etcd, group) as site:
        assert "version 99" in site.table.unreadable[a_row()]
        await site.store.store([a_change(1, row=a_row("other"))])
        await clean(site)
        assert len(site.told_of(RowUnreadable)) == 1
    assert '{"v":99}' in etcd.ctl("get", key_of(group), "--print-value-only").stdout


async def test_row_that_becomes_unreadable_holds_up_no_other_and_its_operator_is_told(tmp_path, etcd, group):
    other = a_row("other")
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(1)])
        put(etcd, key_of(group), '{"v":99}')
        with pytest.raises(StoreError, match=r"1 of 2 queues were not changed: etcd: .* cannot be read"):
            await site.store.store_now([a_change(2, 1, epoch=1), a_change(2, row=other, epoch=1)])
        assert (site.offsets(other), site.offsets()) == ({0: 2}, {0: 1})
        assert (site.store.dirty_keys, a_row() in site.table.unreadable) == (0, True)


async def test_deleted_row_leaves_etcd_once_it_is_forgotten(tmp_path, etcd, group):
    async with on_etcd(tmp_path / "a", etcd, group) as site:
        await site.store.store_now([a_change(-1, epoch=1, unix_ms=1)])
        site.store.write_again(site.table.forget_deleted(CLOCK.unix_ms()))
        gone = lambda: not etcd.ctl("get", key_of(group)).stdout  # noqa: E731
        await eventually(gone, seconds=SOON_S, what="the key is removed")
        await clean(site)
        site.table.drop_empty()
        assert site.table.rows == {}


async def test_manager_that_leads_no_more_writes_nothing_and_says_that_the_outcome_is_unknown(tmp_path, etcd, group):
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS, through={"strict"}) as site:
        etcd.ctl("del", f"/rmq-offsets/{group}/leader")
        with pytest.raises(OutcomeUnknown, match="ceased to lead"):
            await site.store.store([a_change(5, row=a_row("strict"))])
        with pytest.raises(Deposed):
            await site.store.store([a_change(6)])
    assert await kept(tmp_path, etcd, group, a_row("strict")) == {}


async def test_etcd_that_is_away_holds_up_commits_only_beyond_the_limit(tmp_path, group, monkeypatch):
    monkeypatch.setattr(write_behind, "STOP_S", 0.2)
    monkeypatch.setattr(write_behind, "CONFIRMED_S", 0.5)
    with running_etcd(tmp_path / "etcd") as etcd:
        async with on_etcd(tmp_path / "a", etcd, group, through={"strict"}, dirty_keys_max=3) as site:
            etcd.kill()
            await site.store.store([a_change(1), a_change(1, 1)])
            await site.store.store([a_change(2), a_change(2, 1)])
            with pytest.raises(StoreBusy, match="etcd lacks the offsets of 3 queues, as many as it may"):
                await site.store.store([a_change(1, 2), a_change(1, 3)])
            await eventually(lambda: site.told_of(FlushFailed), seconds=SOON_S, what="a flush fails")
            with pytest.raises(OutcomeUnknown, match="no answer of etcd within"):
                await site.store.store([a_change(1, row=a_row("strict"))])
            assert len(site.told_of(CommitsRefused)) == len(site.told_of(FlushFailed)) == 1
            etcd.restart()
            await eventually(
                lambda: site.told_of(FlushRecovered) or not site.lead.is_leading(), seconds=SOON_S, what="-"
            )
            if site.lead.is_leading():
                assert site.offsets() == {0: 2, 1: 2}


async def test_stop_without_etcd_leaves_the_offsets_in_the_file_and_says_so(tmp_path, group, monkeypatch):
    monkeypatch.setattr(write_behind, "STOP_S", 0.2)
    with running_etcd(tmp_path / "etcd") as etcd:
        async with on_etcd(tmp_path / "a", etcd, group) as site:
            await site.store.store([a_change(1)])
            await clean(site)
            etcd.kill()
            await site.store.store([a_change(2), a_change(2, 1)])
            await site.store.close()
            assert site.told_of(OffsetsLeftDirty) == [OffsetsLeftDirty(dirty_keys=2)]
        etcd.restart()
        async with on_etcd(tmp_path / "a", etcd, group) as site:
            assert site.offsets() == {0: 2, 1: 2}


async def test_records_of_what_etcd_has_are_dropped_and_what_it_lacks_stays(tmp_path, etcd, group, monkeypatch):
    monkeypatch.setattr(write_behind, "RECORDS_BYTES_MAX", 2_000)
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=10) as site:
        for offset in range(300):
            await site.store.store([a_change(offset, offset % 20)])
        await clean(site)
        await eventually(lambda: site.store._file.log_bytes < 4_000, seconds=SOON_S, what="records are dropped")
        monkeypatch.setattr(site.store._rows, "put", _fails)
        for offset in range(300, 400):
            await site.store.store([a_change(offset, offset % 20)])
            await asyncio.sleep(0.002)
        await eventually(lambda: site.store._file.log_bytes < 4_000, seconds=SOON_S, what="records are replaced")
        folder = shutil.copytree(tmp_path / "a", tmp_path / "killed")
        site.store.stop_leading()
    async with on_etcd(folder, etcd, group) as site:
        assert site.offsets() == {number % 20: number for number in range(380, 400)}


async def test_commit_that_comes_while_records_are_replaced_is_not_dropped_with_them(
    tmp_path, etcd, group, monkeypatch
):
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(5)])
        monkeypatch.setattr(write_behind, "RECORDS_BYTES_MAX", 0)
        trimming = asyncio.ensure_future(site.store._trim())
        await asyncio.sleep(0)
        await site.store.store([a_change(9), a_change(1, 1)])
        await trimming
        folder = shutil.copytree(tmp_path / "a", tmp_path / "killed")
        site.store.stop_leading()
    async with on_etcd(folder, etcd, group) as site:
        assert site.offsets() == {0: 9, 1: 1}


async def test_records_are_replaced_by_one_so_that_none_gets_under_another_lead(tmp_path, etcd, group, monkeypatch):
    monkeypatch.setattr(log_file, "REWRITTEN_CHANGES", 1)
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(5, queue_id) for queue_id in range(9)])
        monkeypatch.setattr(write_behind, "RECORDS_BYTES_MAX", 0)
        before = site.store._file.number
        await site.store._trim()
        # The second one is of the transaction that drops the others.
        assert site.store._file.number <= before + 2


async def test_load_during_which_the_lead_was_lost_and_won_again_sends_nothing(tmp_path, etcd, group, monkeypatch):
    folder, acknowledged = await killed(tmp_path, etcd, group)
    async with on_etcd(folder, etcd, group, loaded=False) as site:
        newest, former = site.store._newest_records, site.lead.number

        async def wins_again():
            etcd.ctl("del", f"/rmq-offsets/{group}/leader")
            with pytest.raises(Deposed):
                await site.store._rows.lead_with("nobody")
            await eventually(lambda: site.lead.number not in (0, former), seconds=SOON_S, what="it leads again")
            return await newest()

        with monkeypatch.context() as patch:
            patch.setattr(site.store, "_newest_records", wins_again)
            with pytest.raises(Deposed, match="lost the lead while it loaded"):
                await site.load()
        assert (await site.load()).offsets() == acknowledged


async def test_records_are_kept_by_a_manager_that_leads_no_more(tmp_path, etcd, group, monkeypatch):
    monkeypatch.setattr(write_behind, "RECORDS_BYTES_MAX", 0)
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(5)])
        site.store.stop_leading()
        await site.store._trim()
        folder = shutil.copytree(tmp_path / "a", tmp_path / "killed")
    async with on_etcd(folder, etcd, group) as site:
        assert site.offsets() == {0: 5}


async def test_fault_in_the_middle_of_a_flush_loses_nothing(tmp_path, etcd, group, monkeypatch):
    async with on_etcd(tmp_path / "a", etcd, group, interval_ms=LATER_MS) as site:
        await site.store.store([a_change(5)])
        with monkeypatch.context() as patch:
            patch.setattr(site.store._rows, "put", _breaks)
            with pytest.raises(ZeroDivisionError):
                await site.store._flush()
        assert site.store.dirty_keys == 1
    assert await kept(tmp_path, etcd, group) == {0: 5}


async def _breaks(*_):
    raise ZeroDivisionError


async def test_key_that_is_no_row_is_told_and_left_alone(tmp_path, etcd, group):
    put(etcd, f"/rmq-offsets/{group}/commits/strange", "1")
    async with on_etcd(tmp_path / "a", etcd, group) as site:
        await site.store.store([a_change(5)])
        assert [event.error for event in site.told_of(ForeignKeyFound)] == [
            f"etcd: the key /rmq-offsets/{group}/commits/strange is not ours: strange is not the key of a row"
        ]
    assert "1" in etcd.ctl("get", f"/rmq-offsets/{group}/commits/strange", "--print-value-only").stdout
