"""Real processes, files and etcd: what was acknowledged is there after kill -9, SIGTERM and on a full disk."""

import asyncio
import contextlib
import os
import re
import sys
from pathlib import Path

import pytest
from peers import disks, power
from peers.disks import SmallDisk, why_not
from peers.etcd import running_etcd
from peers.jars import REPOSITORY
from peers.processes import Process
from peers.programs import cannot_run, require
from peers.waiting import wait_until
from remote_stores import all_rows, embedded, leading
from write_behind_site import site

PROGRAM = Path(__file__).with_name("committing_manager.py")
SOON_S = 60
#: No flush comes by itself.
LATER_MS = 10_000


class Manager:
    """A process that commits until it ends."""

    def __init__(self, folder, files, *, interval_ms=LATER_MS, endpoints=(), wrapper=(), environment=()):
        paths = os.pathsep.join(map(str, (REPOSITORY, REPOSITORY / "tests", PROGRAM.parent)))
        command = [*wrapper, sys.executable, PROGRAM, files, interval_ms, *endpoints]
        self.process = Process(
            "manager", command, folder=folder, env=os.environ | dict(environment) | {"PYTHONPATH": paths}
        )

    def acknowledged(self):
        """Return the highest acknowledged offset of each caller."""
        # A line of which the end is missing is no acknowledgement.
        lines = re.findall(r"^acknowledged (\d+) (\d+)\n", self.process.text(), re.MULTILINE)
        return {f"group-{caller}": int(offset) for caller, offset in lines}

    def commits(self, number, *, seconds=SOON_S):
        """Wait until each caller has so many more acknowledgements."""
        before = self.acknowledged()

        def are_there():
            assert self.process.running, self.process.text()[-2000:]
            now = self.acknowledged()
            return len(now) > 3 and all(now[each] >= before.get(each, 0) + number for each in now)

        wait_until(are_there, seconds=seconds, what=f"{number} more commits of each caller")
        return self

    def stop(self):
        self.process.terminate()
        self.process.wait(seconds=SOON_S)
        return self


@contextlib.contextmanager
def manager(*arguments, **more):
    made = Manager(*arguments, **more)
    try:
        yield made
    finally:
        if made.process.running:
            made.process.kill()


def offsets_of(rows):
    """Return the lowest offset that any queue of a group has."""
    lowest = {}
    for of, row in rows.items():
        assert len(row.queues) == 10, f"{of}: all queues of a batch are stored, or none"
        lowest[of.group] = min(each.offset for each in row.queues.values())
    return lowest


def assert_kept(rows, acknowledged):
    kept = offsets_of(rows)
    assert {group: kept.get(group, 0) >= offset for group, offset in acknowledged.items()} == dict.fromkeys(
        acknowledged, True
    ), (kept, acknowledged)


@pytest.mark.parametrize("interval_ms", [LATER_MS, 10], ids=["before any flush", "among flushes"])
async def test_all_acknowledged_offsets_are_there_after_kill_9(tmp_path, interval_ms):
    files = tmp_path / "files"
    with manager(tmp_path, files, interval_ms=interval_ms) as killed:
        killed.commits(30)
        killed.process.kill()
        acknowledged = killed.acknowledged()
    if interval_ms == LATER_MS:
        async with embedded(files / "remote") as remote:
            assert (await all_rows(remote))[0] == {}, "they were in the journal alone"
    async with site(files, loaded=False) as at:
        assert_kept(await at.behind.load(), acknowledged)
        assert at.behind.dirty_keys == 0


@pytest.mark.broad
async def test_offsets_never_go_back_over_many_kills(tmp_path):
    files = tmp_path / "files"
    acknowledged = {}
    for _ in range(3):
        with manager(tmp_path, files, interval_ms=10) as killed:
            killed.commits(15)
            killed.process.kill()
            assert {group: offset > acknowledged.get(group, 0) for group, offset in killed.acknowledged().items()} == (
                dict.fromkeys(killed.acknowledged(), True)
            )
            acknowledged = killed.acknowledged()
    async with site(files, loaded=False) as at:
        assert_kept(await at.behind.load(), acknowledged)


@pytest.mark.parametrize("interval_ms", [LATER_MS, 10], ids=["before any flush", "among flushes"])
async def test_all_acknowledged_offsets_are_there_after_a_power_failure(tmp_path, interval_ms):
    require("cc")
    files, supply = tmp_path / "files", power.Power(tmp_path)
    with manager(tmp_path, files, interval_ms=interval_ms, environment=supply.environment) as killed:
        killed.commits(10)
        # What was synced after the last acknowledgement that is counted does no harm.
        acknowledged = killed.acknowledged()
        killed.process.kill()
    for part in ("journal", "remote"):
        supply.failed(files / part).rename(tmp_path / part)
    async with site(tmp_path, loaded=False) as at:
        assert_kept(await at.behind.load(), acknowledged)


async def test_sigterm_flushes_all_dirty_offsets_before_the_process_ends(tmp_path):
    files = tmp_path / "files"
    with manager(tmp_path, files) as stopped:
        stopped.commits(20).stop()
        assert int(re.search(r"^dirty (\d+)$", stopped.process.text(), re.MULTILINE)[1]) > 0
        assert "left 0\n" in stopped.process.text()
        acknowledged = stopped.acknowledged()
    async with embedded(files / "remote") as remote:
        rows, _ = await all_rows(remote)
        assert_kept(rows, acknowledged)


async def test_full_disk_is_named_and_loses_nothing_that_was_acknowledged(tmp_path, monkeypatch):
    if reason := why_not():
        cannot_run(reason)
    # SQLite moves its log into the file each 4 MB: the disk is full before that, however slow the machine is.
    monkeypatch.setattr(disks, "DISK_BYTES", 10 << 20)
    disk = SmallDisk(tmp_path / "small")
    (disk.folder / "filler").write_bytes(b"x" * (9 << 20))
    with manager(tmp_path, disk.folder, wrapper=disk.wrapper()) as full:
        disk.attach(full.process)
        refused = r"^refused .*offset-journal\.db: the disk is full: make room"
        full.process.wait_for(refused, seconds=SOON_S)
        full.process.wait_for(refused, seconds=SOON_S, position=full.process.position())
        disk.make_room()
        full.commits(3)
        acknowledged = full.acknowledged()
        full.process.pause()
        files = tmp_path / "after"
        copy(disk, files)
    async with site(files, loaded=False) as at:
        assert_kept(await at.behind.load(), acknowledged)


def copy(disk, folder):
    """Copy the files of a process that stands still: its disk ends with it."""
    for part in ("journal", "remote"):
        (folder / part).mkdir(parents=True)
        for file in disk.path(part).iterdir():
            (folder / part / file.name).write_bytes(file.read_bytes())


@pytest.mark.etcd
async def test_all_acknowledged_offsets_are_in_etcd_after_kill_9_of_manager_and_leader(tmp_path):
    with running_etcd(tmp_path / "etcd", members=3) as etcd:
        files = tmp_path / "files"
        with manager(tmp_path, files, interval_ms=50, endpoints=etcd.endpoints) as killed:
            killed.commits(20)
            leader = etcd.leader()
            leader.process.kill()
            # Commits go on: the journal takes them while the others elect.
            killed.commits(20)
            killed.process.kill()
            acknowledged = killed.acknowledged()
        with manager(tmp_path, files, interval_ms=50, endpoints=etcd.endpoints) as restarted:
            restarted.commits(5)
            restarted.stop()
            assert "left 0\n" in restarted.process.text()
            acknowledged |= restarted.acknowledged()
        async with leading(etcd.endpoints, "killed", member="m2") as remote:
            rows, _ = await all_rows(remote)
            assert_kept(rows, acknowledged)


@pytest.mark.etcd
@pytest.mark.broad
async def test_etcd_that_is_killed_as_a_whole_gets_everything_once_it_is_back(tmp_path):
    with running_etcd(tmp_path / "etcd") as etcd:
        with manager(tmp_path, tmp_path / "files", interval_ms=10, endpoints=etcd.endpoints) as going_on:
            going_on.commits(20)
            etcd.kill()
            await asyncio.sleep(1)
            etcd.restart()
            going_on.process.kill()
            acknowledged = going_on.acknowledged()
        with manager(tmp_path, tmp_path / "files", interval_ms=10, endpoints=etcd.endpoints) as restarted:
            restarted.commits(5).stop()
            acknowledged |= restarted.acknowledged()
        async with leading(etcd.endpoints, "killed", member="m2") as remote:
            rows, _ = await all_rows(remote)
            assert_kept(rows, acknowledged)
