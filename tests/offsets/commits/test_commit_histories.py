"""Random histories of two managers on one etcd: killed at any moment, writes that fail, answers that are lost.

The production code of the local file, of write-behind and of the rules runs over a model of etcd's rows. Left out: the
election (the model has one leader at a time, and a write of any other is refused) and HTTP.
COMMIT_HISTORIES is how many histories are tried; 60 if it is not set.
"""

import asyncio
import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from commit_builders import a_row, a_writer, an_offset
from fakes.background import background_tasks

from offsets.commits.etcd_rows import LastLead, PresentRow
from offsets.commits.log_file import LogFile
from offsets.commits.rules import Status, decide_commit, decide_deletion, decide_reset
from offsets.commits.stored import decoded_row, is_newer
from offsets.commits.table import OffsetTable, Scope
from offsets.commits.write_behind import WriteBehind
from remoting.clock import SystemClock
from store.store import Deposed, OutcomeUnknown, StoreError

HISTORIES = int(os.environ.get("COMMIT_HISTORIES", "60"))
#: Acknowledged by the local file, and when etcd has it.
LOCAL, STRICT = a_row("local"), a_row("strict")
QUEUES = range(3)
UNIX_MS = 1_800_000_000_000


class Etcd:
    """What etcd has."""

    def __init__(self):
        self.rows, self.revision, self.leader, self.last_lead = {}, 10, 0, LastLead("", 0)


class Rows:
    """The rows of a manager, as EtcdRows has them; `lead` is its number, and it is its own `lead`."""

    foreign = ()

    def __init__(self, etcd, number, chance):
        self._etcd, self.number, self._chance, self.lead = etcd, number, chance, self
        self.is_calm = False

    async def _called(self):
        for _ in range(self._chance.randrange(3)):
            await asyncio.sleep(0)
        if not self.is_calm and self._chance.random() < 0.15:
            raise OutcomeUnknown("the request was lost")
        if self._etcd.leader != self.number:
            raise Deposed("another manager leads")

    async def _answered(self):
        await asyncio.sleep(0)
        if not self.is_calm and self._chance.random() < 0.15:
            raise OutcomeUnknown("the answer was lost")

    async def last_lead(self):
        await self._called()
        return self._etcd.last_lead

    async def lead_with(self, file):
        await self._called()
        self._etcd.last_lead = LastLead(file, self.number)
        await self._answered()

    async def load(self):
        await self._called()
        for name, (queues, revision) in list(self._etcd.rows.items()):
            yield name, PresentRow(dict(queues), revision)

    async def put(self, writes):
        await self._called()
        present = [self._etcd.rows.get(write.name, ({}, 0)) for write in writes]
        moved = [revision != write.revision for write, (_, revision) in zip(writes, present, strict=True)]
        if any(moved):
            present = [PresentRow(dict(queues), revision) for queues, revision in present]
            return [row if is_moved else None for row, is_moved in zip(present, moved, strict=True)]
        self._etcd.revision += 1
        for write in writes:
            self._etcd.rows[write.name] = (decoded_row(write.body), self._etcd.revision)
        await self._answered()
        return [self._etcd.revision] * len(writes)

    def close(self):
        pass


class History:
    def __init__(self, seed, folder):
        self.chance, self.folder, self.etcd = random.Random(seed), folder, Etcd()
        #: What was acknowledged, by row and queue, and who led last.
        self.acknowledged, self.last, self.clock = {}, None, 0

    async def live(self):
        for _ in range(self.chance.randint(2, 5)):
            await self.lead(self.chance.choice("AAB"))

    async def lead(self, manager):
        """Let a manager lead for a while, and kill it."""
        if manager != self.last:
            # It may have acknowledged other offsets: what only the former one had on its disk does not count.
            for queue in QUEUES:
                self.acknowledged.pop((LOCAL, queue), None)
        self.last = manager
        self.etcd.leader += 7
        rows = Rows(self.etcd, self.etcd.leader, self.chance)
        async with background_tasks() as tasks:
            file = LogFile(self.folder / manager, "etcd", SystemClock(), print)
            store = WriteBehind(
                file,
                rows,
                SystemClock(),
                tasks,
                lambda _: None,
                flush_interval_ms=self.chance.choice((1, 1, 1000)),
                dirty_keys_max=1000,
                is_written_through=lambda group: group == "strict",
            )
            table = await self.loaded(store, rows)
            self.check(table, manager)
            works = set()
            for _ in range(self.chance.randint(3, 15)):
                works.add(asyncio.ensure_future(self.act(store, table)))
                await asyncio.sleep(self.chance.choice((0, 0, 0.001, 0.004)))
            if self.chance.random() < 0.5:
                await asyncio.wait(works, timeout=0.02)
            # kill -9: nothing more comes to etcd; who waits for an answer gets none.
            self.etcd.leader += 1
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            store.stop_leading()
            await store.close()

    async def loaded(self, store, rows):
        for attempt in range(30):
            rows.is_calm = attempt > 20
            table = OffsetTable(1000, self.etcd.leader)
            try:
                await store.load(table)
            except StoreError:
                continue
            rows.is_calm, table.is_loaded = False, True
            return table
        raise AssertionError("it cannot be loaded")

    def check(self, table, manager):
        for (name, queue), value in self.acknowledged.items():
            now = table.read(name, queue)
            is_there = now is not None and not is_newer(value, now)
            assert is_there, (manager, name.group, queue, value, now)

    async def act(self, store, table):
        name, queue = self.chance.choice((LOCAL, STRICT)), self.chance.choice(QUEUES)
        seen = table.read(name, queue)
        epoch, offset = (0, 0) if seen is None else (seen.reset_epoch, max(seen.offset, 0))
        self.clock += 1
        writer = a_writer(unix_ms=UNIX_MS + self.clock)
        kind = self.chance.choices(("commit", "reset", "delete"), (12, 1, 1))[0]
        if kind == "commit":
            others = [an_offset(offset + 1, other, epoch=epoch, row=name) for other in QUEUES if other > queue]
            entries = [an_offset(offset + self.chance.randrange(-1, 5), queue, epoch=epoch, row=name), *others]
            entries = [entry for entry in entries if entry.offset >= 0]
            decision, work = decide_commit(table, entries, writer), store.store
        elif kind == "reset":
            decision = decide_reset(table, [an_offset(self.chance.randrange(4), queue, row=name)], writer)
            work = store.store_now
        else:
            decision = decide_deletion(table, Scope(name.cluster, "", group=name.group), writer)
            work = store.store_now
        if not decision.changes:
            return
        try:
            await work(decision.changes)
        except StoreError:
            return
        for _, number, _, after in decision.changes:
            assert not is_newer(after, table.read(name, number)), "an acknowledged change is seen"
            if is_newer(after, self.acknowledged.get((name, number))):
                self.acknowledged[name, number] = after
        assert all(result.status is not Status.REFUSED for result in decision.results)


@pytest.mark.timeout(60 + HISTORIES)
async def test_acknowledged_offsets_are_there_whatever_fails_and_whoever_leads():
    for seed in range(HISTORIES):
        folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        try:
            await History(seed, folder).live()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        finally:
            shutil.rmtree(folder)
