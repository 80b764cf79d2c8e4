"""Journals that meet a store which they were not acknowledged for, and files that were put back to an older state."""

import shutil

import pytest
from remote_stores import embedded
from stored_offset_builders import a_commit, an_offset, row_name
from write_behind_site import site

from controller.offsets.app.store import open_journal, open_store
from controller.offsets.config import OffsetManagerConfig
from controller.offsets.storage.embedded_remote import MARK_NAME, EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.remote import RowWrite
from controller.offsets.storage.row_flusher import JournalOfOtherStore
from controller.offsets.storage.sqlite_file import FileDamaged
from remoting.clock import SystemClock
from serving.process.start import StartFailed
from store.store import StoreError

REFUSED = (
    r"offset-journal\.db: it has offsets of 1 queues for the store [0-9a-f]{16}, and this is the store [0-9a-f]{16}: "
    r"start the manager with the etcd, managerGroup or offsets\.db that it had.* or move the journal away"
)


def a_write(offset, revision=0):
    return RowWrite(row_name(), {0: an_offset(offset)}, revision)


async def left_dirty(folder):
    async with site(folder) as at:
        await at.commit(a_commit(5, group="other"))
        await at.behind.flush_all()
        at.remote.error = StoreError("the disk is full")
        await at.commit(a_commit(100))


async def test_journal_with_offsets_for_another_store_is_refused_and_goes_on_with_its_own(tmp_path):
    await left_dirty(tmp_path)
    (tmp_path / "remote").rename(tmp_path / "own")
    async with site(tmp_path, loaded=False) as at:
        with pytest.raises(JournalOfOtherStore, match=REFUSED):
            await at.behind.load()
        assert await at.stored() == {}
    shutil.rmtree(tmp_path / "remote")
    (tmp_path / "own").rename(tmp_path / "remote")
    async with site(tmp_path) as at:
        assert await at.stored() == {("payments", 0): 100, ("other", 0): 5}


async def test_journal_that_has_nothing_to_be_sent_goes_on_with_any_store(tmp_path):
    async with site(tmp_path) as at:
        await at.commit(a_commit(100))
        await at.behind.flush_all()
    shutil.rmtree(tmp_path / "remote")
    async with site(tmp_path) as at:
        assert at.journal.store_id == at.remote.store.id
        await at.commit(a_commit(7))
        await at.behind.flush_all()
        assert await at.stored() == {("payments", 0): 7}


async def test_start_with_another_file_ends_with_a_sentence(tmp_path):
    config, clock = OffsetManagerConfig(store_path=str(tmp_path)), SystemClock()
    journal = Journal(tmp_path, clock)
    await journal.belong_to("0123456789abcdef")
    await journal.record([a_commit(100)])
    await journal.close()
    journal = open_journal(config, clock)
    with pytest.raises(StartFailed, match=REFUSED):
        open_store(config, clock, None, journal)
    await journal.close()


async def test_file_that_was_put_back_to_an_older_state_is_named(tmp_path):
    async with embedded(tmp_path) as remote:
        (first,) = (await remote.put([a_write(100)])).results
    shutil.copy(tmp_path / "offsets.db", tmp_path / "backup")
    async with embedded(tmp_path) as remote:
        await remote.put([a_write(200, first.revision)])
    shutil.copy(tmp_path / "backup", tmp_path / "offsets.db")
    lacks = (
        r"offsets\.mark: it counts 2 revisions, and the store beside it lacks 1: .*an older copy was put in its place"
    )
    with pytest.raises(FileDamaged, match=f"{lacks}.*remove this file: groups go back"):
        EmbeddedRemote(tmp_path, SystemClock())
    (tmp_path / MARK_NAME).unlink()
    async with embedded(tmp_path) as remote:
        assert (await remote.load_page(None)).rows[row_name()].queues == {0: an_offset(100)}
