"""Real managers, files and etcd: what was acknowledged is there after kill -9, a power failure and on a full disk."""

import asyncio
import contextlib
import os
import re
import threading

import pytest
from peers import power
from peers.etcd import running_etcd
from peers.offset_managers import OffsetManager, a_queue
from peers.programs import require
from peers.waiting import wait_until

SOON_S = 60
CLIENTS, QUEUES = 4, 10


class Committer(threading.Thread):
    """A client that commits one offset after the other to some queues, until it is stopped."""

    def __init__(self, manager, group):
        super().__init__(daemon=True)
        self.manager, self.group = manager, group
        self.acknowledged, self.refused = 0, []
        self._stopping = threading.Event()

    def run(self):
        offset = 0
        while not self._stopping.wait(0.001):
            try:
                entries = [a_queue(queue, group=self.group) | {"offset": offset + 1} for queue in range(QUEUES)]
                answer = self.manager.commit(*entries)
            except (OSError, ValueError):
                self._stopping.wait(0.05)
                continue
            if answer.status == 200 and answer.statuses == ["ok"] * QUEUES:
                self.acknowledged = offset = offset + 1
            else:
                self.refused.append(str(answer.body))
                self._stopping.wait(0.05)

    def stop(self):
        self._stopping.set()
        self.join()


@contextlib.contextmanager
def committing(manager):
    clients = [Committer(manager, f"group-{number}") for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.stop()


def wait_for_commits(clients, number):
    before = [client.acknowledged for client in clients]
    enough = lambda: all(c.acknowledged >= b + number for c, b in zip(clients, before, strict=True))  # noqa: E731
    wait_until(enough, seconds=SOON_S, what=lambda: f"{number} more commits: {[c.refused[-1:] for c in clients]}")


def assert_kept(manager, clients):
    """Assert that every acknowledged offset is there, and none beyond the one that was under way."""
    for client in clients:
        for queue in range(QUEUES):
            offset = manager.offset(queue, group=client.group)
            assert client.acknowledged <= offset <= client.acknowledged + 1


@pytest.fixture
def manager(tmp_path):
    made = OffsetManager(tmp_path)
    yield made
    if made.process is not None and made.process.running:
        made.process.kill()


def test_acknowledged_offsets_are_in_the_file_after_kill_9_again_and_again(manager):
    manager.start().leading()
    with committing(manager) as clients:
        for _ in range(3):
            wait_for_commits(clients, 20)
            manager.process.kill()
            manager.start().leading()
        wait_for_commits(clients, 5)
        manager.process.kill()
    manager.start().leading()
    assert_kept(manager, clients)


def test_acknowledged_offsets_are_in_what_was_synced_when_the_power_fails(tmp_path, manager):
    require("cc")
    supply = power.Power(tmp_path)
    manager._environment |= supply.environment
    manager.start().leading()
    with committing(manager) as clients:
        wait_for_commits(clients, 20)
        manager.process.kill()
    left = supply.failed(manager.options["store-path"])
    manager._environment.clear()
    manager.options["store-path"] = left
    manager.start().leading()
    assert_kept(manager, clients)


def test_disk_that_is_full_refuses_commits_and_keeps_what_was_acknowledged(manager):
    manager.start().leading()
    with committing(manager) as clients:
        wait_for_commits(clients, 5)
        folder = manager.options["store-path"]
        limit = max(file.stat().st_size for file in folder.iterdir()) + 200_000
        # No file of the process grows beyond this: SQLite sees a disk that is full.
        os.system(f"prlimit --pid {manager.process.pid} --fsize={limit}:unlimited")
        refused = lambda: all(client.refused for client in clients)  # noqa: E731
        wait_until(refused, seconds=SOON_S, what="commits are refused")
        assert re.search(r"commits\.db: ", clients[0].refused[0])
        os.system(f"prlimit --pid {manager.process.pid} --fsize=unlimited:unlimited")
        wait_for_commits(clients, 5)
    assert len(manager.events("local_file_failed")) >= 1
    manager.process.kill()
    manager.start().leading()
    assert_kept(manager, clients)


@pytest.mark.etcd
def test_acknowledged_offsets_are_there_after_kill_9_of_manager_and_of_etcds_leader(tmp_path, manager):
    with running_etcd(tmp_path / "etcd", members=3) as etcd:
        manager.options |= {"store": "etcd", "etcd-endpoints": ";".join(etcd.endpoints), "flush-interval-ms": 50}
        manager.options["advertised-address"] = manager.address
        manager.start().leading()
        with committing(manager) as clients:
            wait_for_commits(clients, 20)
            leader = etcd.leader()
            leader.process.kill()
            wait_for_commits(clients, 20)
            manager.process.kill()
            manager.start().leading()
            etcd.restart(leader)
            wait_for_commits(clients, 5)
            manager.process.kill()
        manager.start().leading()
        assert_kept(manager, clients)
        wait_until(lambda: not manager.get("/v1/manager").body["dirtyKeys"], seconds=SOON_S, what="etcd has all")
        assert manager.process.stop() == 0
        other = OffsetManager(tmp_path, "other", **manager.options | {"store-path": tmp_path / "elsewhere"})
        other.port = manager.port
        other.start().leading()
        assert_kept(other, clients)
        other.process.stop()


@pytest.mark.etcd
@pytest.mark.broad
def test_etcd_that_is_killed_as_a_whole_gets_everything_once_it_is_back(tmp_path, manager):
    with running_etcd(tmp_path / "etcd") as etcd:
        manager.options |= {"store": "etcd", "etcd-endpoints": ";".join(etcd.endpoints), "flush-interval-ms": 10}
        manager.options["advertised-address"] = manager.address
        manager.start().leading()
        with committing(manager) as clients:
            wait_for_commits(clients, 20)
            etcd.kill()
            asyncio.run(asyncio.sleep(1))
            etcd.restart()
            manager.process.kill()
            manager.start().leading()
            wait_for_commits(clients, 5)
            manager.process.kill()
        manager.start().leading()
        assert_kept(manager, clients)
