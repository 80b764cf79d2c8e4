"""The local file: what was acknowledged is there at the next start, and a file that cannot be used is named."""

import asyncio
import contextlib
import os
import shutil
import sqlite3

import pytest
from commit_builders import a_change, a_row
from commit_sites import CLOCK, embedded

from offsets.commits import log_file
from offsets.commits.events import CommitsLost
from offsets.commits.log_file import FILE_NAME, FileProblem, LogFile, StoreBusy


def rewrite(folder, *statements):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


async def stored(folder, *changes):
    """Store changes in a file, and close it."""
    async with embedded(folder) as site:
        for change in changes:
            await site.store.store([change])


async def test_acknowledged_offsets_are_there_without_a_graceful_end(tmp_path):
    async with embedded(tmp_path / "a") as site:
        await site.store.store([a_change(100), a_change(7, 1)])
        await site.store.store([a_change(101), a_change(5, row=a_row("other"))])
        copy = shutil.copytree(tmp_path / "a", tmp_path / "copy")
        async with embedded(copy) as after_crash:
            assert after_crash.offsets() == {0: 101, 1: 7}
            assert after_crash.offsets(a_row("other")) == {0: 5}


async def test_readers_see_nothing_before_it_is_synced(tmp_path):
    async with embedded(tmp_path) as site:
        work = site.store.store([a_change(100)])
        sending = work.send(None)
        assert site.offsets() == {}
        assert site.table.rows[a_row()].decided(0).offset == 100
        work.close()  # the caller gives up, and the change is stored all the same
        del sending
        await site.store.store([a_change(1, 1)])
        assert site.offsets() == {0: 100, 1: 1}


async def test_callers_that_wait_for_the_disk_share_a_transaction(tmp_path):
    async with embedded(tmp_path) as site:
        await asyncio.gather(*(site.store.store([a_change(offset)]) for offset in range(300)))
        assert site.offsets() == {0: 299}
        assert site.store._file.number < 300


async def test_records_are_rewritten_while_commits_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "RECORDS_BYTES_MAX", 4_000)
    monkeypatch.setattr(log_file, "REWRITTEN_CHANGES", 7)
    expected = {}
    async with embedded(tmp_path / "a") as site:
        for offset in range(1, 150):
            row = a_row(f"group-{offset % 40}")
            expected[row] = offset
            await site.store.store([a_change(offset, row=row)])
        assert site.store._file.log_bytes < 12_000
        deleted = a_row("group-0")
        await site.store.store_now([a_change(-1, row=deleted, epoch=9)])
        copy = shutil.copytree(tmp_path / "a", tmp_path / "copy")
    for folder in (tmp_path / "a", copy):
        with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection:
            assert connection.execute("SELECT min(number) FROM records").fetchone()[0] > 30
        async with embedded(folder) as after:
            shown = {row: after.offsets(row)[0] for row in expected}
            assert shown == expected | {deleted: -1}


async def test_deletion_that_was_forgotten_leaves_the_file(tmp_path, monkeypatch):
    async with embedded(tmp_path) as site:
        await site.store.store([a_change(-1, epoch=1, unix_ms=1), a_change(5, row=a_row("other"))])
        site.store.write_again(site.table.forget_deleted(CLOCK.unix_ms()))
        site.table.drop_empty()
        monkeypatch.setattr(log_file, "RECORDS_BYTES_MAX", 0)
        await site.store.store([a_change(6, row=a_row("other"))])
        await site.store._rewriting
    async with embedded(tmp_path) as after:
        assert set(after.table.rows) == {a_row("other")}


async def test_two_managers_do_not_share_a_file(tmp_path):
    async with embedded(tmp_path):
        with pytest.raises(FileProblem, match="another process uses it: give each offset manager its own folder"):
            LogFile(tmp_path, "embedded", CLOCK, print)


async def test_file_of_one_store_is_not_used_for_the_other(tmp_path):
    await stored(tmp_path, a_change(5))
    with pytest.raises(FileProblem, match="made with the store embedded, and etcd is configured"):
        LogFile(tmp_path, "etcd", CLOCK, print)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE records SET body = x'00' WHERE number = 2", "record 2 has a wrong checksum"),
        ("DELETE FROM records WHERE number = 2", "record 2 is missing"),
        ("PRAGMA user_version = 9", "it has schema 9"),
        ("PRAGMA application_id = 9", "another program's"),
    ],
)
async def test_file_whose_content_makes_no_sense_is_named_with_what_to_do(tmp_path, statement, why):
    await stored(tmp_path, *(a_change(offset) for offset in (1, 2, 3)))
    rewrite(tmp_path, statement)
    with pytest.raises(FileProblem, match=why) as caught:
        await stored(tmp_path)
    assert str(tmp_path / FILE_NAME) in str(caught.value)


@pytest.mark.parametrize("at", [0, 32 + 1_000], ids=["its head", "its middle"])
async def test_commits_behind_a_damaged_part_of_the_log_are_told(tmp_path, at):
    async with embedded(tmp_path / "a") as site:
        for offset in range(1, 6):
            await site.store.store([a_change(offset)])
        copy = shutil.copytree(tmp_path / "a", tmp_path / "copy")
    async with embedded(shutil.copytree(copy, tmp_path / "whole")) as whole:
        assert (whole.offsets(), whole.told) == ({0: 5}, [])
    with (copy / f"{FILE_NAME}-wal").open("r+b") as log:
        # Beside the schema the log has a frame of 24 bytes and a page or more for each commit.
        log.seek(at and os.fstat(log.fileno()).st_size - 3 * (24 + 4096))
        log.write(b"\0" * 600)
    async with embedded(copy) as damaged:
        assert damaged.offsets() != {0: 5}
        (told,) = damaged.told_of(CommitsLost)
        assert told.transactions >= 1


async def test_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"no database at all" * 100)
    with pytest.raises(FileProblem, match="it is damaged"):
        await stored(tmp_path)


async def test_file_that_is_removed_while_in_use_takes_nothing_any_more(tmp_path):
    async with embedded(tmp_path / "a") as site:
        await site.store.store([a_change(1)])
        (tmp_path / "a" / FILE_NAME).rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(FileProblem, match="removed or replaced while in use"):
                await site.store.store([a_change(2)])
        assert site.offsets() == {0: 1}
        assert len(site.told) == 1, "it is told once"


async def test_more_than_may_wait_for_the_disk_is_refused_before_anything_is_staged(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "WAITING_CHANGES_MAX", 3)
    async with embedded(tmp_path) as site:
        first = site.store.store([a_change(1), a_change(1, 1)])
        first.send(None)
        with pytest.raises(StoreBusy, match="2 changes wait for the disk"):
            await site.store.store([a_change(2), a_change(2, 1)])
        assert site.table.rows[a_row()].decided(0).offset == 1
        first.close()


async def test_closed_file_takes_nothing_and_may_be_closed_again(tmp_path):
    async with embedded(tmp_path) as site:
        await site.store.close()
        with pytest.raises(FileProblem, match="the offset manager is stopping"):
            await site.store.store([a_change(1)])
