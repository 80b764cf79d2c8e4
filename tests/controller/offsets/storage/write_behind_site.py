"""A journal, a remote store in a file that can have trouble, and write-behind between them."""

import asyncio
import contextlib

from remote_stores import all_rows
from stored_offset_builders import a_commit

from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.observer import WriteBehindObserver
from controller.offsets.storage.remote import PutOutcome, RowTooLarge, RowWrite
from controller.offsets.storage.write_behind import WriteBehind
from controller.offsets.storage.write_behind_options import WriteBehindOptions
from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from store.store import OutcomeUnknown


class TroubledRemote:
    """A remote store that a test makes fail, hold writes, lose answers, or depose its manager."""

    def __init__(self, store):
        self.store = store
        self.is_shared = True
        self.leads_seen = 1
        #: Raised by each write instead of doing it.
        self.error = None
        #: Answers of so many writes are lost.
        self.lost_answers = 0
        #: Why it takes no row; blank if it does.
        self.too_large = ""
        self.passes = asyncio.Event()
        self.passes.set()
        #: Writes that wait for that now.
        self.held = 0
        #: The rows of each write, in order.
        self.written = []

    async def store_id(self):
        return await self.store.store_id()

    async def load_page(self, start):
        if self.error is not None:
            raise self.error
        return await self.store.load_page(start)

    async def put(self, writes):
        assert len({each.of for each in writes}) == len(writes), "etcd refuses a key that is there twice"
        self.held += 1
        await self.passes.wait()
        self.held -= 1
        if self.error is not None:
            raise self.error
        if self.too_large:
            return PutOutcome([RowTooLarge(self.too_large) for _ in writes], 0)
        self.written.append(list(writes))
        outcome = await self.store.put(writes)
        if self.lost_answers:
            self.lost_answers -= 1
            raise OutcomeUnknown("the answer was lost")
        return outcome

    async def delete(self, rows):
        return await self.store.delete(rows)

    async def close(self):
        await self.store.close()


class RecordingObserver(WriteBehindObserver):
    """What was reported, by kind."""

    def __init__(self):
        self.flushed, self.failures, self.refused, self.unwritable, self.ages = [], [], [], [], []
        self.compensations, self.put_backs, self.foreign = [], [], []

    def rows_flushed(self, rows, keys, seconds):
        self.flushed.append((rows, keys, seconds))

    def dirty(self, keys, oldest_age_ms):
        self.ages.append((keys, oldest_age_ms))

    def flush_failed(self, error):
        self.failures.append(error)

    def compensated(self, pushed, unchanged):
        self.compensations.append((pushed, unchanged))

    def put_back(self, keys):
        self.put_backs.append(keys)

    def row_unwritable(self, of, problem):
        self.unwritable.append((of, problem))

    def foreign_key(self, problem):
        self.foreign.append(problem)

    def commits_refused(self, dirty_keys):
        self.refused.append(dirty_keys)


class Site:
    """One manager's stores in a folder."""

    def __init__(self, folder, *, is_write_through=lambda _: False, **options):
        self.journal = Journal(folder / "journal", SystemClock())
        self.remote = TroubledRemote(EmbeddedRemote(folder / "remote", SystemClock()))
        self.observer = RecordingObserver()
        self.tasks = BackgroundTasks(self._failed)
        self.faults = []
        self.behind = WriteBehind(
            self.journal, self.remote, SystemClock(), WriteBehindOptions(**options), self.observer, is_write_through
        )

    def _failed(self, name, error):
        self.faults.append((name, error))

    async def commit(self, *changes):
        return await self.behind.record(changes)

    async def commits(self, offsets, **more):
        for each in offsets:
            await self.commit(a_commit(each, **more))

    async def stored(self):
        """Return what the remote store has: offsets by group and queue."""
        rows, _ = await all_rows(self.remote.store)
        return {(of.group, queue_id): each.offset for of, row in rows.items() for queue_id, each in row.queues.items()}

    async def written_by_another(self, *writes):
        """Write rows as somebody else does."""
        rows = (await self.remote.store.load_page(None)).rows
        await self.remote.store.put([RowWrite(of, queues, rows[of].revision) for of, queues in writes])

    async def vanish(self):
        """End as a killed process does, except that the files are closed."""
        if self.behind._task is not None:
            self.behind._task.cancel()
            await asyncio.wait({self.behind._task})
        await self.journal.close()
        await self.remote.store.close()


@contextlib.asynccontextmanager
async def site(folder, *, loaded=True, **options):
    """Yield a site that flushes each 10 ms unless told otherwise."""
    made = Site(folder, **{"flush_interval_ms": 10} | options)
    try:
        made.behind.start(made.tasks)
        if loaded:
            await made.behind.load()
        yield made
    finally:
        await made.vanish()
        assert made.faults == []
