"""Managers with journals of their own on one etcd: who takes over, what a former one still has, and old backups."""

import asyncio

import pytest
from fakes.leadership_listener import eventually
from peers.etcd import running_etcd
from remote_stores import SOON_S, all_rows
from stored_offset_builders import a_commit, an_offset, queue_key, row_name

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.etcd_remote import EtcdRemote
from controller.offsets.storage.formats.checks import ChangeRefused
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.write_behind import OffsetsNotLoaded, WriteBehind
from controller.offsets.storage.write_behind_options import WriteBehindOptions
from controller.offsets.values import NAME_CHARACTERS_MAX, QUEUES_MAX, QueueKey
from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from store.etcd.client import EtcdOptions
from store.store import ControllerMember, StoreError

pytestmark = pytest.mark.etcd


class Manager:
    """One manager, on a machine of its own."""

    def __init__(self, folder, etcd, name):
        self.journal = Journal(folder / name, SystemClock())
        self.remote = EtcdRemote(EtcdOptions(endpoints=tuple(etcd.endpoints), group="g"), SystemClock())
        self.behind = WriteBehind(self.journal, self.remote, SystemClock(), WriteBehindOptions(flush_interval_ms=50))
        self._tasks = BackgroundTasks(lambda task, error: pytest.fail(f"{task}: {error!r}"))
        self._loading = None
        #: The rows of each time that it began to serve.
        self.served = []
        self.is_serving = False
        self.behind.start(self._tasks)
        self.remote.join(ControllerMember(id=name, address=f"{name}:9880"), self)

    def leads(self, until_ms):
        if self._loading is None:
            self._loading = self._tasks.start(self._load(), "offset_load")

    def follows(self, leader):
        self._end_service()
        self.behind.not_leading()

    def put_back(self):
        self._end_service()
        self.behind.put_back()

    def _end_service(self):
        self.is_serving = False
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None

    async def _load(self):
        while not self.is_serving:
            try:
                rows = await self.behind.load()
            except StoreError:
                await asyncio.sleep(0.2)
            else:
                self.is_serving = True
                self.served.append({of: dict(row.queues) for of, row in rows.items()})

    async def serves(self, times=1):
        await eventually(lambda: len(self.served) >= times, seconds=SOON_S, what="it leads and has loaded")
        return self

    async def vanish(self):
        """End as a killed process does: its lease ends by itself."""
        self._end_service()
        self.behind._task.cancel()
        await asyncio.wait({self.behind._task})
        await self.journal.close()
        await self.remote.close()

    async def end(self):
        assert await self.behind.stop(within_s=SOON_S) == 0
        await self.journal.close()
        await self.remote.resign()
        await self.remote.close()


@pytest.fixture
def etcd(tmp_path):
    with running_etcd(tmp_path) as etcd:
        yield etcd


async def offsets_in(remote):
    rows, _ = await all_rows(remote)
    return {(of.group, queue_id): each.offset for of, row in rows.items() for queue_id, each in row.queues.items()}


async def test_ten_thousand_queues_of_one_batch_are_in_etcd_after_a_flush(tmp_path, etcd):
    one = await Manager(tmp_path, etcd, "m1").serves()
    await one.behind.record([a_commit(n, n % 8, f"g{n // 8}") for n in range(10_000)])
    await one.behind.flush_all()
    assert await offsets_in(one.remote) == {(f"g{n // 8}", n % 8): n for n in range(10_000)}
    await one.end()


async def test_largest_row_within_the_limits_is_taken_and_a_larger_one_never_acknowledged(tmp_path, etcd):
    one = await Manager(tmp_path, etcd, "m1").serves()
    longest = "\u8ba2" * (NAME_CHARACTERS_MAX - 1)
    writers = [longest + chr(0x4E00 + n) for n in range(QUEUES_MAX)]
    await one.behind.record([a_commit(2**62, n, longest, epoch=2**62, writer=writers[n]) for n in range(QUEUES_MAX)])
    with pytest.raises(ChangeRefused, match="queue id 1024 is not in 0 to 1023"):
        await one.behind.record([a_commit(2**62, QUEUES_MAX, longest)])
    await one.behind.flush_all()
    assert len(await offsets_in(one.remote)) == QUEUES_MAX
    await one.end()


async def test_former_manager_does_not_take_back_what_the_next_one_has_stored(tmp_path, etcd):
    one = await Manager(tmp_path, etcd, "m1").serves()
    await one.behind.record([a_commit(100), a_commit(900, queue_id=1), a_commit(5, queue_id=2)])
    await one.behind.flush_all()
    # Those stay in its journal: it was killed before the flush.
    await one.journal.record([a_commit(150), a_commit(950, queue_id=1), a_commit(70, queue_id=2)])
    await one.vanish()
    two = await Manager(tmp_path, etcd, "m2").serves()
    reset = OffsetChange(queue_key(1), an_offset(900), an_offset(10, epoch=1))
    await two.behind.record([a_commit(300), reset])
    await two.end()
    again = await Manager(tmp_path, etcd, "m1").serves()
    # Ahead in the same epoch wins; behind it, or of an older one, does not.
    assert await offsets_in(again.remote) == {("payments", 0): 300, ("payments", 1): 10, ("payments", 2): 70}
    await again.end()


async def test_etcd_from_an_older_snapshot_gets_again_what_was_flushed_since(tmp_path, etcd):
    one = await Manager(tmp_path, etcd, "m1").serves()
    await one.behind.record([a_commit(100), a_commit(5, group="other")])
    await one.behind.flush_all()
    etcd.ctl("snapshot", "save", tmp_path / "snapshot")
    lock = OffsetChange(QueueKey(row_name("locked", cluster="\x01c"), 0), None, an_offset(9))
    for offset in range(101, 121):
        await one.behind.record([a_commit(offset), a_commit(offset, queue_id=1), lock])
        await one.behind.flush_all()
    etcd.kill()
    etcd.restore(tmp_path / "snapshot")
    etcd.restart()
    await one.serves(times=2)
    raised = {("payments", 0): 120, ("payments", 1): 120, ("other", 0): 5}
    assert await offsets_in(one.remote) == raised | {("locked", 0): 9}, "nobody else has led"
    await one.behind.record([a_commit(121)])
    await one.end()


async def test_manager_without_etcd_takes_nothing_once_its_lease_has_ended(tmp_path, etcd):
    one = await Manager(tmp_path, etcd, "m1").serves()
    await one.behind.record([a_commit(100)])
    etcd.kill()
    # Until then the journal takes them.
    await one.behind.record([a_commit(101)])
    await eventually(lambda: not one.is_serving, seconds=SOON_S, what="its lease has ended")
    with pytest.raises(OffsetsNotLoaded):
        await one.behind.record([a_commit(102)])
    etcd.restart()
    await one.serves(times=2)
    assert (await offsets_in(one.remote))[("payments", 0)] == 101
    assert one.behind.problem(row_name()) == ""
    await one.end()
