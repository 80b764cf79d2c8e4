"""The embedded store where its file is taken away, rolled back, damaged, or of another release."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from peers import power
from peers.programs import require

from controller.sets.broker_set import BrokerSet, Replica
from controller.sets.stored_set import StoredSet
from store import high_water
from store.embedded import FILE_NAME, MARK_NAME, EmbeddedStore
from store.events import StoreFileRemoved, StoreFileUnseen
from store.high_water import HighWater
from store.store import ControllerMember, StoreError

SET = "broker-a"
ME = ControllerMember(id="n0", address="10.0.0.1:9878")


class LeadershipRecorder:
    """A leadership listener that records whether this controller leads."""

    def __init__(self):
        self.leads_now = False

    def leads(self, until_ms):
        self.leads_now = True

    def follows(self, leader):
        self.leads_now = False

    def members_changed(self, members):
        pass


class ToldEvents:
    """What a store told of its file."""

    def __init__(self):
        self.removed = []
        self.unseen = []

    def emit(self, event):
        match event:
            case StoreFileRemoved(error=error):
                self.removed.append(error)
            case StoreFileUnseen(error=error):
                self.unseen.append(error)


def at_epoch(epoch):
    replicas = {1: Replica(address="10.0.0.11:30911", check_code="x")}
    broker_set = BrokerSet(broker_name=SET, cluster="C", replicas=replicas, next_broker_id=2, master_epoch=epoch)
    return StoredSet(broker_set=broker_set)


async def kept_until(backend, epoch, revision=0):
    for each in range(revision, epoch):
        await backend.commit(SET, at_epoch(each + 1), each)


async def crashed(folder, epoch):
    """Leave what a process leaves that was killed after it had stored so many epochs."""
    backend = EmbeddedStore(folder / "running")
    await kept_until(backend, epoch)
    async with asyncio.timeout(20):
        while counted(folder / "running") < epoch:
            await asyncio.sleep(0.01)
    shutil.copytree(folder / "running", folder / "store")
    await backend.close()
    return folder / "store"


def counted(folder):
    """Return how many changes are known to be stored there."""
    mark = HighWater(folder / MARK_NAME)
    mark.close()
    return mark.number


def wal(folder):
    return folder / f"{FILE_NAME}-wal"


@pytest.mark.parametrize(
    "take_away",
    [
        lambda folder: (folder / FILE_NAME).unlink(),
        lambda folder: wal(folder).unlink(),
        shutil.rmtree,
        lambda folder: folder.rename(folder.with_name("elsewhere")),
        lambda folder: shutil.copy(folder / FILE_NAME, folder / "new") and (folder / "new").rename(folder / FILE_NAME),
    ],
    ids=["deleted", "log deleted", "folder deleted", "folder moved", "replaced"],
)
async def test_deleted_store_file_refuses_commits_and_ends_leadership(tmp_path, take_away):
    told, listener = ToldEvents(), LeadershipRecorder()
    backend = EmbeddedStore(tmp_path / "store", told.emit)
    await backend.join(ME, listener)
    await kept_until(backend, 3)
    take_away(tmp_path / "store")
    with pytest.raises(StoreError, match=rf"{FILE_NAME}.* is gone"):
        await backend.commit(SET, at_epoch(4), 3)
    with pytest.raises(StoreError, match="is gone"):
        await backend.read(SET)
    await asyncio.sleep(0)
    assert not listener.leads_now
    assert len(told.removed) == 1
    await backend.close()


async def test_deleted_store_file_ends_leadership_without_any_commit(tmp_path):
    listener = LeadershipRecorder()
    backend = EmbeddedStore(tmp_path / "store")
    await backend.join(ME, listener)
    (tmp_path / "store" / FILE_NAME).unlink()
    async with asyncio.timeout(20):
        while listener.leads_now:
            await asyncio.sleep(0.05)
    await backend.close()


def hide(folder):
    """Let nobody look at the files for a moment: the system says neither that they are there nor that they are not."""
    folder.rename(folder.with_name("hidden"))
    folder.symlink_to(folder)


def show(folder):
    folder.unlink()
    folder.with_name("hidden").rename(folder)


async def test_store_file_that_is_inaccessible_for_a_moment_does_not_end_leadership(tmp_path):
    told, listener = ToldEvents(), LeadershipRecorder()
    backend = EmbeddedStore(tmp_path / "store", told.emit)
    await backend.join(ME, listener)
    await kept_until(backend, 3)
    hide(tmp_path / "store")
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be looked at"):
            await backend.commit(SET, at_epoch(4), 3)
    assert listener.leads_now
    show(tmp_path / "store")
    assert await backend.commit(SET, at_epoch(4), 3) == 4
    assert (len(told.unseen), told.removed) == (1, [])
    await backend.close()
    assert counted(tmp_path / "store") == 4


async def test_store_file_that_is_inaccessible_for_long_ends_leadership(tmp_path, monkeypatch):
    monkeypatch.setattr(high_water, "UNSEEN_MS_MAX", 0)
    told, listener = ToldEvents(), LeadershipRecorder()
    backend = EmbeddedStore(tmp_path / "store", told.emit)
    await backend.join(ME, listener)
    hide(tmp_path / "store")
    async with asyncio.timeout(20):
        while listener.leads_now:
            await asyncio.sleep(0.05)
    show(tmp_path / "store")
    with pytest.raises(StoreError, match="cannot be looked at"):
        await backend.read(SET)
    assert len(told.removed) == 1
    await backend.close()


async def test_second_controller_is_refused_in_a_folder_whose_store_file_was_deleted(tmp_path):
    first = EmbeddedStore(tmp_path / "store")
    await kept_until(first, 3)
    for each in (tmp_path / "store").iterdir():
        each.unlink()
    with pytest.raises(StoreError, match="is another controller running on it"):
        EmbeddedStore(tmp_path / "store")
    await first.close()
    # Once the first has ended, whoever starts begins with an empty store, as after any lost file.
    second = EmbeddedStore(tmp_path / "store")
    assert await second.load() == {}
    await second.close()


async def test_flipped_bit_in_the_write_ahead_log_aborts_the_start(tmp_path):
    folder = await crashed(tmp_path, 20)
    damaged = bytearray(wal(folder).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    wal(folder).write_bytes(damaged)
    with pytest.raises(StoreError, match=rf"{FILE_NAME} lacks \d+ of the 20 changes .* backup"):
        EmbeddedStore(folder)


async def test_older_copy_of_the_store_file_aborts_the_start_until_the_mark_is_removed(tmp_path):
    folder = tmp_path / "store"
    backend = EmbeddedStore(folder)
    await kept_until(backend, 5)
    await backend.close()
    shutil.copy(folder / FILE_NAME, tmp_path / "old.db")
    backend = EmbeddedStore(folder)
    await kept_until(backend, 9, 5)
    await backend.close()
    shutil.copy(tmp_path / "old.db", folder / FILE_NAME)
    with pytest.raises(StoreError, match=r"remove .*controller\.mark"):
        EmbeddedStore(folder)
    (folder / MARK_NAME).unlink()
    backend = EmbeddedStore(folder)
    assert (await backend.load())[SET].entry == at_epoch(5)
    await backend.close()


async def test_commits_of_a_killed_process_are_loaded(tmp_path):
    folder = await crashed(tmp_path, 20)
    backend = EmbeddedStore(folder)
    assert (await backend.load())[SET].entry == at_epoch(20)
    await backend.close()


COMMITTING = """
import asyncio, sys
from pathlib import Path
from contract.test_embedded_faults import SET, at_epoch
from store.embedded import EmbeddedStore

async def main():
    backend = EmbeddedStore(Path(sys.argv[1]))
    for epoch in range(20):
        print(await backend.commit(SET, at_epoch(epoch + 1), epoch), flush=True)
        if epoch == 16:
            input()

asyncio.run(main())
"""


@pytest.fixture
def supply(tmp_path):
    require("cc")
    return power.Power(tmp_path)


def test_acknowledged_commits_survive_a_power_failure(tmp_path, supply):
    running = [sys.executable, "-c", COMMITTING, str(tmp_path / "running")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | supply.environment
    with subprocess.Popen(
        running, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        acknowledged = [process.stdout.readline() for _ in range(17)][-1]
        process.kill()

    async def found():
        backend = EmbeddedStore(supply.failed(tmp_path / "running"))
        kept = await backend.read(SET)
        await backend.close()
        return kept.revision

    assert asyncio.run(found()) == int(acknowledged)


@pytest.mark.parametrize("torn", [b"", b"\0" * 64, b"nonsense"])
async def test_unreadable_mark_aborts_the_start_with_its_name(tmp_path, torn):
    backend = EmbeddedStore(tmp_path / "store")
    await kept_until(backend, 3)
    await backend.close()
    mark = tmp_path / "store" / MARK_NAME
    mark.write_bytes(torn)
    with pytest.raises(StoreError, match=r"controller\.mark .*remove"):
        EmbeddedStore(tmp_path / "store")


async def test_mark_interrupted_by_a_power_failure_counts_with_its_previous_number(tmp_path):
    folder = tmp_path / "store"
    for half in (0, 1):
        backend = EmbeddedStore(folder)
        entry = (await backend.load()).get(SET)
        await kept_until(backend, (entry.revision if entry else 0) + 3, entry.revision if entry else 0)
        await backend.close()
        content = bytearray((folder / MARK_NAME).read_bytes())
        content[half * 4096] ^= 1
        (folder / MARK_NAME).write_bytes(content)
    await EmbeddedStore(folder).close()


def changed(folder, statement, *values):
    connection = sqlite3.connect(folder / FILE_NAME)
    with connection:
        connection.execute(statement, values)
    connection.close()


async def test_entry_with_a_wrong_digest_aborts_the_start(tmp_path):
    folder = tmp_path / "store"
    backend = EmbeddedStore(folder)
    await kept_until(backend, 3)
    await backend.close()
    changed(folder, "UPDATE entries SET entry = replace(entry, '\"master_epoch\":3', '\"master_epoch\":2')")
    with pytest.raises(StoreError, match=f"the entry of {SET} is damaged"):
        EmbeddedStore(folder)


async def test_entry_of_a_newer_release_is_refused_and_not_changed(tmp_path):
    folder = tmp_path / "store"
    backend = EmbeddedStore(folder)
    await kept_until(backend, 1)
    await backend.close()
    newer = json.dumps({"format": 3, "broker_set": None, "floor": {}, "witnesses": [3]})
    changed(folder, "UPDATE entries SET entry = ?, digest = NULL", newer)
    with pytest.raises(StoreError, match=rf"the entry of {SET} has format 3.*this release reads formats up to 2"):
        EmbeddedStore(folder)


async def test_unknown_field_of_an_entry_aborts_the_start(tmp_path):
    folder = tmp_path / "store"
    backend = EmbeddedStore(folder)
    await kept_until(backend, 1)
    await backend.close()
    changed(folder, 'UPDATE entries SET entry = \'{"floor":{},"witnesses":[3]}\', digest = NULL')
    with pytest.raises(StoreError, match="unknown field `witnesses`"):
        EmbeddedStore(folder)


async def test_store_file_of_a_release_without_digests_and_marks_is_read(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.execute(
        "CREATE TABLE entries (broker_name TEXT PRIMARY KEY, revision INTEGER NOT NULL, entry TEXT NOT NULL)"
        " WITHOUT ROWID"
    )
    old = {"broker_set": {"broker_name": SET, "cluster": "C", "master_epoch": 7}, "floor": {}}
    connection.execute("INSERT INTO entries VALUES (?, 4, ?)", (SET, json.dumps(old)))
    connection.commit()
    connection.close()
    backend = EmbeddedStore(folder)
    kept = (await backend.load())[SET]
    assert (kept.revision, kept.entry.broker_set.master_epoch) == (4, 7)
    assert await backend.commit(SET, at_epoch(8), 4) == 5
    await backend.close()
    backend = EmbeddedStore(folder)
    assert (await backend.read(SET)).entry == at_epoch(8)
    await backend.close()


async def test_removed_entries_count_as_changes(tmp_path):
    folder = tmp_path / "store"
    backend = EmbeddedStore(folder)
    await kept_until(backend, 3)
    await backend.commit(SET, StoredSet(), 3)
    assert await backend.load() == {}
    await kept_until(backend, 2)
    await backend.close()
    assert counted(folder) == 6
    backend = EmbeddedStore(folder)
    assert (await backend.load())[SET].revision == 2
    await backend.close()
