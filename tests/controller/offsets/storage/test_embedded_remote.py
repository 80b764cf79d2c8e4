"""The remote store in a file: what is damaged in it is named and kept, and everything else goes on."""

import contextlib
import shutil
import sqlite3

import pytest
from remote_stores import all_rows, embedded
from stored_offset_builders import an_offset, row_name

from controller.offsets.storage.embedded_remote import FILE_NAME, EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.remote import RowMoved, RowStored, RowWrite
from controller.offsets.storage.sqlite_file import FileDamaged, FileInUse, FileOfOtherVersion, FileRemoved
from remoting.clock import SystemClock


def a_write(offset=100, group="payments", *, revision=0):
    return RowWrite(row_name(group), {0: an_offset(offset)}, revision)


def rewrite(folder, *statements):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        for each in statements:
            connection.execute(each)


async def test_rows_are_there_after_a_restart_and_revisions_go_on(tmp_path):
    async with embedded(tmp_path) as remote:
        (first,) = (await remote.put([a_write()])).results
        await remote.delete({row_name(): first.revision})
    async with embedded(tmp_path) as remote:
        (second,) = (await remote.put([a_write()])).results
        assert second.revision > first.revision


async def test_batch_of_many_rows_is_one_transaction(tmp_path):
    async with embedded(tmp_path) as remote:
        outcome = await remote.put([a_write(group=f"g{n}") for n in range(1200)])
        assert outcome.is_atomic
        rows, _ = await all_rows(remote)
        assert len(rows) == 1200


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE offsets SET value = x'7b' WHERE key LIKE '%payments%'", "its checksum is wrong"),
        ("UPDATE offsets SET digest = digest + 1 WHERE key LIKE '%payments%'", "its checksum is wrong"),
    ],
)
async def test_damaged_row_is_named_and_never_written_over(tmp_path, statement, why):
    async with embedded(tmp_path) as remote:
        await remote.put([a_write(), a_write(7, "other")])
    rewrite(tmp_path, statement)
    async with embedded(tmp_path) as remote:
        rows, _ = await all_rows(remote)
        assert rows[row_name("other")].queues == {0: an_offset(7)}
        damaged = rows[row_name()]
        assert why in damaged.problem
        assert "DefaultCluster//payments/orders/broker-a" in damaged.problem
        (moved,) = (await remote.put([a_write(500)])).results
        assert isinstance(moved, RowMoved)
        assert why in moved.present.problem


async def test_key_of_somebody_else_is_named(tmp_path):
    async with embedded(tmp_path) as remote:
        await remote.put([a_write()])
    rewrite(tmp_path, "INSERT INTO offsets VALUES ('nonsense', 1, 0, x'')")
    async with embedded(tmp_path) as remote:
        rows, (foreign,) = await all_rows(remote)
        assert list(rows) == [row_name()]
        assert "nonsense has 1 parts" in foreign


async def test_second_manager_on_the_file_is_refused(tmp_path):
    async with embedded(tmp_path):
        with pytest.raises(FileInUse, match=FILE_NAME):
            EmbeddedRemote(tmp_path, SystemClock())


async def test_journal_and_store_may_share_a_folder(tmp_path):
    journal = Journal(tmp_path, SystemClock())
    async with embedded(tmp_path) as remote:
        assert isinstance((await remote.put([a_write()])).results[0], RowStored)
    await journal.close()


async def test_file_that_was_removed_stores_nothing(tmp_path):
    async with embedded(tmp_path / "store") as remote:
        await remote.put([a_write()])
        shutil.rmtree(tmp_path / "store")
        with pytest.raises(FileRemoved):
            await remote.put([a_write(7, "other")])
        with pytest.raises(FileRemoved):
            await remote.load_page(None)


async def test_store_of_another_release_is_refused(tmp_path):
    async with embedded(tmp_path):
        pass
    rewrite(tmp_path, "PRAGMA user_version = 7")
    with pytest.raises(FileOfOtherVersion, match="a store of offsets has schema 7"):
        EmbeddedRemote(tmp_path, SystemClock())


async def test_damaged_store_is_named_with_what_to_do(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"nothing of the kind" * 1000)
    with pytest.raises(FileDamaged, match="the offsets of all groups"):
        EmbeddedRemote(tmp_path, SystemClock())
