"""The journal of offsets: what it acknowledged is there at the next start, and a file that is damaged is named."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest
from fakes.leadership_listener import eventually
from stored_offset_builders import a_commit, a_deletion, an_offset, queue_key, row_name

from controller.offsets.storage import journal as journal_module
from controller.offsets.storage.formats.checks import ChangeRefused
from controller.offsets.storage.formats.records import FlushedRow
from controller.offsets.storage.journal import FILE_NAME, MARK_NAME, Journal, JournalBusy, JournalClosed
from controller.offsets.storage.sqlite_file import FileDamaged, FileInUse, FileOfOtherVersion, FileProblem, FileRemoved
from controller.offsets.values import OFFSET_MAX
from remoting.clock import SystemClock
from store import high_water

SOON_S = 20


@contextlib.asynccontextmanager
async def opened(folder):
    journal = Journal(folder, SystemClock())
    try:
        yield journal
    finally:
        await journal.close()


def shown(journal):
    return {
        (of.group, queue_id): each.after
        for of, row in journal.dirty.rows.items()
        for queue_id, each in row.offsets.items()
    }


def copied(folder, tmp_path):
    """Return what a killed process leaves: the files as they are at this moment."""
    return shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True)


def rewrite(folder, *statements):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        for each in statements:
            connection.execute(each)


async def test_acknowledged_offsets_are_there_without_a_graceful_end(tmp_path):
    async with opened(tmp_path / "a") as journal:
        await journal.record([a_commit(100), a_commit(7, queue_id=1)])
        await journal.record([a_commit(101), a_commit(5, group="other")])
        async with opened(copied(tmp_path / "a", tmp_path)) as after_crash:
            assert shown(after_crash) == {
                ("payments", 0): an_offset(101), ("payments", 1): an_offset(7), ("other", 0): an_offset(5),
            }  # fmt: skip


async def test_changes_of_one_queue_are_kept_in_the_order_of_the_calls(tmp_path):
    async with opened(tmp_path) as journal:
        numbers = await asyncio.gather(*(journal.record([a_commit(each)]) for each in range(300)))
        assert numbers == sorted(numbers)
        assert journal.dirty.get(queue_key()).after == an_offset(299)
        assert len(set(numbers)) < 300, "callers that wait for the disk share a transaction"


async def test_flushed_offsets_are_not_dirty_at_the_next_start(tmp_path):
    async with opened(tmp_path) as journal:
        number = await journal.record([a_commit(100), a_commit(7, queue_id=1)])
        await journal.record([a_commit(200)])
        journal.flushed([FlushedRow(row_name(), {0: number, 1: number})], 0)
    async with opened(tmp_path) as journal:
        assert shown(journal) == {("payments", 0): an_offset(200)}


async def test_deletion_is_kept_with_what_it_deleted(tmp_path):
    async with opened(tmp_path) as journal:
        await journal.record([a_commit(100)])
        await journal.record([a_deletion(an_offset(100))])
    async with opened(tmp_path) as journal:
        dirty = journal.dirty.get(queue_key())
        assert (dirty.after, dirty.deleted) == (None, an_offset(100))


async def test_caller_that_gives_up_has_its_changes_stored_all_the_same(tmp_path):
    async with opened(tmp_path) as journal:
        task = asyncio.create_task(journal.record([a_commit(100)]))
        await asyncio.sleep(0)
        task.cancel()
        await eventually(lambda: len(journal.dirty), seconds=SOON_S, what="it is dirty")


async def test_file_stays_small_while_offsets_are_committed_and_flushed_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "LOG_BYTES_MIN", 20_000)
    async with opened(tmp_path) as journal:
        stuck = await journal.record([a_commit(1, group="stuck"), a_deletion(an_offset(3), group="deleted")])
        for round_ in range(150):
            number = await journal.record([a_commit(round_, queue_id=each) for each in range(100)])
            journal.flushed([FlushedRow(row_name(), dict.fromkeys(range(100), number))], 0)
        size = journal._bytes
        assert stuck == 1
    assert size < 40_000
    async with opened(tmp_path) as journal:
        assert shown(journal) == {("stuck", 0): an_offset(1), ("deleted", 0): None}
        assert journal.dirty.get(queue_key(group="deleted")).deleted == an_offset(3)


async def test_offsets_committed_while_a_snapshot_is_written_are_newer_than_it(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "LOG_BYTES_MIN", 2_000)
    async with opened(tmp_path / "a") as journal:
        for round_ in range(60):
            await asyncio.gather(*(journal.record([a_commit(round_ * 10 + each)]) for each in range(10)))
        async with opened(copied(tmp_path / "a", tmp_path)) as after_crash:
            assert shown(after_crash) == {("payments", 0): an_offset(599)}


async def test_offset_on_the_disk_of_which_the_event_loop_has_no_word_yet_outlives_a_snapshot(tmp_path, monkeypatch):
    async with opened(tmp_path / "a") as journal:
        number = await journal.record([a_commit(1), a_commit(1, group="other")])
        late = asyncio.create_task(journal.record([a_commit(2)]))
        await asyncio.sleep(0)
        records = "SELECT count(*) FROM records"
        while journal._file.connection.execute(records).fetchone() != (2,):
            time.sleep(0.01)  # noqa: ASYNC251  # the event loop is busy meanwhile
        monkeypatch.setattr(journal_module, "LOG_BYTES_MIN", 0)
        monkeypatch.setattr(journal_module, "_SNAPSHOT_FACTOR", 0)
        journal.flushed([FlushedRow(row_name("other"), {0: number})], 0)
        await late
        await journal.record([a_commit(3, queue_id=1)])
        async with opened(copied(tmp_path / "a", tmp_path)) as after_crash:
            assert shown(after_crash) == {("payments", 0): an_offset(2), ("payments", 1): an_offset(3)}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (a_commit(-2), "offset -2 is negative"),
        (a_commit(OFFSET_MAX + 1), "is above"),
        (a_commit(1, queue_id=-1), "queue id"),
        (a_commit(1, queue_id=2**31), "queue id"),
        (a_commit(1, group="\ud800"), "UTF-8 cannot encode"),
        (a_commit(1, writer="\udfff"), "UTF-8 cannot encode"),
        (a_commit(1, group="g" * 256), "256 characters"),
        (a_commit(1, token=-1), "token"),
        (a_commit(1, unix_ms=2**63), "time"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_absurd_change_is_refused_and_fails_no_other_caller(tmp_path, change, why):
    async with opened(tmp_path) as journal:
        good = asyncio.create_task(journal.record([a_commit(100)]))
        with pytest.raises(ChangeRefused, match=why):
            await journal.record([a_commit(5, group="other"), change])
        await good
        assert shown(journal) == {("payments", 0): an_offset(100)}


async def test_commits_are_refused_while_too_many_wait_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "WAITING_CHANGES_MAX", 100)
    async with opened(tmp_path) as journal:
        waiting = [asyncio.create_task(journal.record([a_commit(each)] * 20)) for each in range(8)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(each, JournalBusy) for each in results] == [False] * 5 + [True] * 3
        assert "100 changes wait for the disk, and 100 may: try again in 500 ms" in str(results[-1])
        await journal.record([a_commit(10)] * 20)


async def test_nothing_is_recorded_after_the_end(tmp_path):
    async with opened(tmp_path) as journal:
        await journal.record([a_commit(100)])
    with pytest.raises(JournalClosed):
        await journal.record([a_commit(101)])


async def test_file_of_another_process_is_named(tmp_path):
    async with opened(tmp_path) as journal:
        await journal.record([a_commit(100)])
        program = (
            "import sys; from pathlib import Path; from controller.offsets.storage.journal import Journal\n"
            "from remoting.clock import SystemClock\n"
            "try: Journal(Path(sys.argv[1]), SystemClock())\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        command = [sys.executable, "-c", program, tmp_path]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("FileInUse")
        assert str(tmp_path / FILE_NAME) in done.stdout
        with pytest.raises(FileInUse, match="another process has it: end the other offset manager"):
            Journal(tmp_path, SystemClock())


class SetClock(SystemClock):
    """A clock that a test moves."""

    at_ms = 0

    def now_ms(self):
        return self.at_ms


class DiskWithoutAnswers:
    """Makes one look at the file after another fail, as a network disk does for a moment."""

    def __init__(self, monkeypatch):
        self.fails_at = set()
        self.looks = 0
        found = high_water._identity

        def look(path):
            self.looks += 1
            if self.looks in self.fails_at:
                raise OSError(5, "Input/output error")
            return found(path)

        monkeypatch.setattr(high_water, "_identity", look)


@pytest.mark.parametrize("look", range(1, 5))
async def test_look_at_the_file_that_fails_once_refuses_nothing_and_the_journal_goes_on(tmp_path, monkeypatch, look):
    async with opened(tmp_path) as kept:
        disk = DiskWithoutAnswers(monkeypatch)
        disk.fails_at = {look}
        numbers = [await kept.record([a_commit(each)]) for each in (100, 200, 300)]
        assert numbers == [1, 2, 3]
    async with opened(tmp_path) as kept:
        assert kept.dirty.get(queue_key()).after.offset == 300


async def test_file_that_nobody_can_look_at_for_long_takes_nothing_until_it_is_seen_again(tmp_path, monkeypatch):
    clock = SetClock()
    kept = Journal(tmp_path, clock)
    disk = DiskWithoutAnswers(monkeypatch)
    disk.fails_at = set(range(1000))
    await kept.record([a_commit(100)])
    clock.at_ms += high_water.UNSEEN_MS_MAX + 1
    with pytest.raises(FileProblem, match=r"cannot be checked: .*Input/output error"):
        await kept.record([a_commit(200)])
    disk.fails_at = set()
    assert await kept.record([a_commit(150)]) == 2
    await kept.close()
    async with opened(tmp_path) as kept:
        assert kept.dirty.get(queue_key()).after.offset == 150


async def test_failure_after_the_commit_does_not_block_the_records_after_it(tmp_path, monkeypatch):
    clock = SetClock()
    kept = Journal(tmp_path, clock)
    disk = DiskWithoutAnswers(monkeypatch)
    await kept.record([a_commit(100)])
    # The looks before the commit succeed, the one after it has failed for long.
    disk.fails_at = {disk.looks + 3}
    monkeypatch.setattr(high_water, "UNSEEN_MS_MAX", -1)
    with pytest.raises(FileProblem, match="cannot be checked"):
        await kept.record([a_commit(200)])
    assert await kept.record([a_commit(300)]) == 3
    await kept.close()


async def test_journal_that_was_removed_while_in_use_acknowledges_nothing(tmp_path):
    async with opened(tmp_path / "a") as journal:
        await journal.record([a_commit(100)])
        shutil.rmtree(tmp_path / "a")
        with pytest.raises(FileRemoved, match="restart the process"):
            await journal.record([a_commit(101)])
        assert shown(journal) == {("payments", 0): an_offset(100)}


def overwritten(folder, at, content):
    with (folder / FILE_NAME).open("r+b") as file:
        file.seek(at)
        file.write(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / FILE_NAME).write_bytes(b"nothing of the kind" * 1000),
        lambda folder: overwritten(folder, 4096, b"\xff" * 4096),
        lambda folder: overwritten(folder, 100, b"\x55" * 50),
        lambda folder: rewrite(folder, "UPDATE records SET body = x'00' WHERE number = 2"),
        lambda folder: rewrite(folder, "UPDATE records SET digest = digest + 1 WHERE number = 3"),
        lambda folder: rewrite(folder, "UPDATE records SET digest = 0, body = x'' WHERE number = 3"),
        lambda folder: rewrite(folder, "DELETE FROM records WHERE number = 2"),
    ],
    ids=["no database", "page", "header", "body", "checksum", "empty", "record gone"],
)
async def test_damaged_journal_is_named_with_what_to_do(tmp_path, damage):
    async with opened(tmp_path) as journal:
        for each in range(3):
            await journal.record([a_commit(each)])
    damage(tmp_path)
    with pytest.raises(FileDamaged, match=rf"{FILE_NAME}: it is damaged .*Restore it from a backup, or move it away"):
        Journal(tmp_path, SystemClock())


async def crashed(tmp_path, records):
    """Leave what a killed process leaves once the number of its records is kept."""
    async with opened(tmp_path / "running") as journal:
        for each in range(records):
            await journal.record([a_commit(each)])
        await eventually(lambda: journal._mark._mark.number == records, seconds=SOON_S, what="the mark follows")
        return copied(tmp_path / "running", tmp_path)


async def test_log_that_ends_before_its_last_record_is_named_with_what_to_do(tmp_path):
    folder = await crashed(tmp_path, 5)
    log = folder / f"{FILE_NAME}-wal"
    content = bytearray(log.read_bytes())
    content[-100] ^= 1
    log.write_bytes(content)
    with pytest.raises(FileDamaged, match=r"offset-journal\.mark: it counts 5 records, .* lacks 1: .*remove this file"):
        Journal(folder, SystemClock())
    (folder / MARK_NAME).unlink()
    async with opened(folder) as journal:
        assert shown(journal) == {("payments", 0): an_offset(3)}


async def test_older_copy_of_the_journal_alone_is_named(tmp_path):
    folder = await crashed(tmp_path, 2)
    shutil.copy(tmp_path / "running" / MARK_NAME, folder)
    newer = Journal(tmp_path / "running", SystemClock())
    await newer.record([a_commit(9)])
    await newer.close()
    shutil.copy(tmp_path / "running" / MARK_NAME, folder)
    with pytest.raises(FileDamaged, match="an older copy was put in its place"):
        Journal(folder, SystemClock())


async def test_mark_that_is_no_mark_is_named(tmp_path):
    folder = await crashed(tmp_path, 2)
    (folder / MARK_NAME).write_bytes(b"nonsense")
    with pytest.raises(FileDamaged, match=r"offset-journal\.mark: it is damaged.*remove this file"):
        Journal(folder, SystemClock())


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_journal_of_another_release_is_refused_and_left_as_it_is(tmp_path, version):
    async with opened(tmp_path) as journal:
        await journal.record([a_commit(100)])
    rewrite(tmp_path, f"PRAGMA user_version = {version}")
    with pytest.raises(FileOfOtherVersion, match=rf"schema {version}, and this release reads schema 1"):
        Journal(tmp_path, SystemClock())
    rewrite(tmp_path, "PRAGMA user_version = 1")
    async with opened(tmp_path) as journal:
        assert shown(journal) == {("payments", 0): an_offset(100)}


def test_database_of_something_else_is_not_touched(tmp_path):
    rewrite(tmp_path, "CREATE TABLE accounts (id INTEGER)")
    with pytest.raises(FileOfOtherVersion, match="is not a journal of offsets"):
        Journal(tmp_path, SystemClock())


def test_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileProblem, match=r"file/offset-journal.db: it cannot be used"):
        Journal(tmp_path / "file", SystemClock())
