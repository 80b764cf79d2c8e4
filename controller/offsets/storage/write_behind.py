"""Between the journal and the remote store: what is acknowledged reaches the remote store within a flush interval.

At most one write per row is under way, and it takes the newest offsets: the remote store has those of a row in the
order in which they were committed. A write whose outcome is unknown is repeated; the row is found as it was written
then. Rows are flushed in the order in which they became dirty, but first those that callers wait for: behind tens of
thousands a lock would wait for many seconds. Invariants 3, 4, 7 and 8 of docs/protocol/offsets.md 7.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import chain
from typing import Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.flush_pass import FlushPass
from controller.offsets.storage.flush_waiters import FlushWaiters, Wanted
from controller.offsets.storage.formats.checks import check_changes
from controller.offsets.storage.journal import Journal, outcome
from controller.offsets.storage.observer import WriteBehindObserver
from controller.offsets.storage.remote import RemoteRow, RemoteStore
from controller.offsets.storage.row_flusher import FLUSH_ROWS_MAX, RowFlusher, RowNotWritable
from controller.offsets.storage.write_behind_options import TooManyDirtyOffsets, WriteBehindOptions
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset, is_last_token_row, is_lock_row
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from remoting.slices import in_slices
from store.store import Deposed, StoreError

#: How long after a failed flush the next one begins at most.
RETRY_MS_MAX: Final = 2000
#: The longest time that a refused caller is to wait.
WAIT_MS_MAX: Final = 10_000
#: How many former states are kept for a remote store that is put back again and again.
FORMER_MAX: Final = 2
#: Dirty rows that are compared with a scope at once: about a millisecond.
SCOPE_ROWS: Final = 2000
#: What the task is called.
TASK: Final = "offset_flush"

Scope = Callable[[GroupTopic], bool]


class Durability(enum.Enum):
    """Where an offset is when it is acknowledged."""

    #: In the journal of this machine, synced.
    LOCAL = "local"
    #: In the remote store.
    REMOTE = "remote"


class OffsetsNotLoaded(StoreError):
    """Nothing is stored until `load` has ended: what is here may be older than what is stored."""


class InJournalOnly(StoreError):
    """Changes are in the journal, as those of an acknowledgement "local" are; the remote store may have them too.

    It gets them later. The cause says why nobody waited for that: the time was over, another manager leads, a row
    cannot be written, or this manager is stopping.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"the offsets are in the journal, and the remote store gets them later: {why}")


class WriteBehind:
    """Takes changes, and flushes them; used from one event loop. Stop it before the journal and the remote store."""

    def __init__(
        self,
        journal: Journal,
        remote: RemoteStore,
        clock: Clock,
        options: WriteBehindOptions,
        observer: WriteBehindObserver | None = None,
        is_write_through: Scope = lambda _: False,
    ) -> None:
        """Store nothing yet: `start` and `load` come first.

        `is_write_through` says of which rows an acknowledgement waits for the remote store.
        """
        self._journal = journal
        self._remote = remote
        self._clock = clock
        self._options = options
        self._observer = observer = observer or WriteBehindObserver()
        self._is_write_through = is_write_through
        self._waiters = FlushWaiters()
        self._flusher = RowFlusher(journal, remote, clock, observer, self._waiters)
        #: One part of a flush, or one load, at a time.
        self._turn = asyncio.Lock()
        self._is_loaded = False
        #: How often this manager was found not to lead: a load that began before is not of the present store.
        self._unloads = 0
        self._why_unloaded: StoreError = OffsetsNotLoaded("the offsets are not loaded; try again in a moment")
        #: Rows from before the remote store was put back to an older state.
        self._former: list[Mapping[GroupTopic, RemoteRow]] = []
        #: What the remote store had as `leads_seen` when the rows were loaded; None: they were not yet.
        self._leads_loaded: int | None = None
        self._is_stopping = False
        #: Queues that will be dirty once the journal has them.
        self._reserved = 0
        self._recording = 0
        self._all_recorded = asyncio.Event()
        #: Something is dirty.
        self._arrived = asyncio.Event()
        #: Somebody waits for the next flush.
        self._is_urgent = asyncio.Event()
        self._failures = 0
        #: Why the last flush failed; empty once one has succeeded again.
        self.last_error = ""
        #: Queues per second of the last flush that wrote something.
        self._keys_per_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: BackgroundTasks) -> None:
        """Flush from now on."""
        self._task = tasks.keep_running(self._flush_forever, TASK)

    @property
    def dirty_keys(self) -> int:
        """How many queues the remote store does not have yet."""
        return len(self._journal.dirty)

    @property
    def oldest_age_ms(self) -> int:
        """How long the oldest of them waits; 0 if there is none."""
        oldest_ms = self._journal.dirty.oldest_ms()
        return 0 if oldest_ms is None else self._clock.now_ms() - oldest_ms

    def problem(self, of: GroupTopic) -> str:
        """Return why nothing is stored in a row; blank if it is. Its offsets are unavailable, not absent."""
        return self._flusher.problem(of)

    async def load(self) -> Mapping[GroupTopic, RemoteRow]:
        """Read all rows, raise them to what the journal has newer, and return them; commits are taken from then on.

        The rows returned are those of the remote store at any time: they change with each flush.
        Call it whenever this manager begins to lead, before offsets are read. Raises StoreError, after which it may be
        called again; JournalRefused until the journal is moved away.
        """
        async with self._turn:
            self._is_loaded = False
            unloads, leads = self._unloads, self._remote.leads_seen
            # Where the store was put back while this manager led, the journal and the former rows may have the only
            # copy of locks that were acknowledged. Another manager that has led since may have released the same ones.
            are_locks_newest = bool(self._former) and leads == self._leads_loaded
            await self._flusher.load()
            await self._flusher.check_store()
            if not are_locks_newest:
                self._flusher.drop_lock_changes()
            self._flusher.check_age()
            self._observer.compensated(*await self._flusher.settle())
            for former in tuple(self._former):
                raised = former if are_locks_newest else _without_locks(former)
                self._observer.put_back(await self._flusher.raise_to(raised))
            if unloads != self._unloads:
                raise Deposed("this offset manager led no more while it loaded the offsets")
            await self._flusher.forget_deleted()
            self._former.clear()
            self._leads_loaded, self._is_loaded = leads, True
        return self._flusher.rows

    async def forget_deleted(self) -> Sequence[tuple[QueueKey, StoredOffset]]:
        """Remove what says for longer than DELETED_KEPT_MS that offsets were deleted, and return it; raises StoreError.

        `load` does so too. While a manager leads for long, call it once a day, and let the table forget the same then.
        """
        async with self._turn:
            return await self._flusher.forget_deleted() if self._is_loaded else ()

    def put_back(self) -> None:
        """Take no commits until the next `load`, which raises the rows again: the remote store has an older state."""
        rows = self._flusher.rows
        if len(self._former) < FORMER_MAX and all(rows is not each for each in self._former):
            self._former.append(rows)
        self._unload(Deposed("the remote store of offsets was put back to an older state; it is loaded again"))

    def not_leading(self) -> None:
        """Take no commits until the next `load`: another manager may write."""
        self._unload(Deposed("this offset manager does not lead any more"))

    async def record(
        self,
        changes: Sequence[OffsetChange],
        keys: Sequence[QueueKey] = (),
        before: AbstractSet[GroupTopic] = frozenset(),
    ) -> Durability:
        """Store changes, and return where they are: in the journal, or also in the remote store if write-through is on.

        `keys` has queues whose offsets are acknowledged with them, changed or not. LOCAL unless all rows are written
        through. `before` has rows that the remote store is to get no later than these changes, with what they have
        when this is called and as far as they can be written. Changes are stored in the order of the calls; calls that
        are written through return later. Raises InJournalOnly where they are in the journal, and the remote store is
        not known to have them; any other StoreError (TooManyDirtyOffsets, JournalBusy, OffsetsNotLoaded,
        RowNotWritable, ChangeRefused, FileProblem) says that nothing is stored. A caller that is cancelled is held
        until the journal has answered: CancelledError then means that they are in the journal, and a StoreError takes
        its place where nothing is stored.
        """
        self._check(changes)
        number = await self._journalled(changes, self._writable(before)) if changes else 0
        rows = {*(key.of for key in keys), *(each.key.of for each in changes)}
        through = {of for of in rows if self._is_write_through(of)}
        if not through:
            return Durability.LOCAL
        named = chain(((key, None) for key in keys), ((each.key, number) for each in changes))
        wanted = self._dirty_of(self._writable(before))
        await self._written_through(wanted, ((key, upto) for key, upto in named if key.of in through))
        return Durability.REMOTE if len(through) == len(rows) else Durability.LOCAL

    def _writable(self, rows: Iterable[GroupTopic]) -> set[GroupTopic]:
        return {of for of in rows if not self.problem(of)}

    async def _journalled(self, changes: Sequence[OffsetChange], before: AbstractSet[GroupTopic]) -> int:
        """Return the number of the record that the changes are in, which the remote store gets behind rows before."""
        order = self._flusher.order
        hold = order.note({each.key.of for each in changes}, before)
        try:
            return await self._submitted(changes)
        except StoreError:
            if hold is not None:
                order.withdraw(hold)
            raise

    async def _submitted(self, changes: Sequence[OffsetChange]) -> int:
        fresh = self._journal.dirty.fresh(changes)
        self._check_room(fresh)
        self._reserved += fresh
        self._recording += 1
        try:
            number = await outcome(self._journal.submit(changes))
        finally:
            self._reserved -= fresh
            self._recording -= 1
            self._all_recorded.set()
        self._arrived.set()
        return number

    async def write(self, changes: Sequence[OffsetChange]) -> Mapping[GroupTopic, str]:
        """Store changes of FLUSH_ROWS_MAX rows at most in the remote store, and return why rows of them were refused.

        For changes that begin a reset epoch: the journal never has an epoch that the remote store lacks, or a journal
        that is opened again long after would undo what others have stored since. Repeated until the outcome is known,
        however long that takes. Raises ChangeRefused and OffsetsNotLoaded, and then nothing is stored; and StoreError
        where this manager leads no more, or is stopping: then nobody knows.
        """
        self._check_takes()
        check_changes(changes)
        self._flusher.changed(changes)
        unloads = self._unloads
        self._recording += 1
        try:
            while True:
                async with self._turn:
                    if unloads != self._unloads or not self._is_loaded:
                        raise self._why_unloaded
                    try:
                        refused = await self._flusher.write(changes)
                    except StoreError as error:
                        self._failed(error)
                        if self._is_stopping or isinstance(error, Deposed):
                            raise
                    else:
                        self._failures, self.last_error = 0, ""
                        return refused
                await asyncio.sleep(self._pause_ms() / 1000)
        finally:
            self._recording -= 1
            self._all_recorded.set()

    async def flush(self, scope: Scope) -> None:
        """Return once the remote store has what was acknowledged of the rows in a scope, however long that takes.

        Raises RowNotWritable for a row that cannot be written, Deposed if this manager leads no more.
        """
        covered: list[GroupTopic] = []
        async for rows in in_slices(tuple(self._journal.dirty.rows), SCOPE_ROWS):
            covered += filter(scope, rows)
        self._check_writable(of for of in self._flusher.stuck() if scope(of))
        await self.flush_rows(covered)

    async def flush_rows(self, names: Sequence[GroupTopic]) -> None:
        """As `flush`, of rows by their names."""
        # By parts: nobody remembers the queues of more rows than that, nor has more of them written first.
        for at in range(0, len(names), FLUSH_ROWS_MAX):
            rows = [of for of in names[at : at + FLUSH_ROWS_MAX] if of in self._journal.dirty.rows]
            self._check_writable(rows)
            await self._wait_for(self._dirty_of(rows))
            await asyncio.sleep(0)  # where nothing is left to be flushed, others run as well

    async def flush_all(self) -> None:
        """Return once the remote store has everything that was acknowledged."""
        await self.flush(lambda _: True)

    async def stop(self, within_s: float) -> int:
        """Take nothing more, flush all, and return how many queues are left dirty: they stay in the journal.

        Gives up after `within_s`. Resign the lead only after it.
        """
        self._is_stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._flush_until_clean()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._waiters.fail(OffsetsNotLoaded("the offset manager is stopping"))
        return self.dirty_keys

    async def _flush_until_clean(self) -> None:
        while self._recording:
            self._all_recorded.clear()
            await self._all_recorded.wait()
        while self._is_loaded and self._flusher.has_pending():
            if not await self._flush():
                await asyncio.sleep(self._pause_ms() / 1000)

    def _check_takes(self) -> None:
        if self._is_stopping:
            raise OffsetsNotLoaded("the offset manager is stopping; send commits to another one")
        if not self._is_loaded:
            raise OffsetsNotLoaded("the offsets are not loaded; try again in a moment")

    def _check(self, changes: Sequence[OffsetChange]) -> None:
        self._check_takes()
        self._flusher.changed(changes)
        self._check_writable({each.key.of for each in changes})

    def _check_writable(self, rows: Iterable[GroupTopic]) -> None:
        for of in rows:
            if problem := self._flusher.problem(of):
                raise RowNotWritable(problem)

    def _check_room(self, fresh: int) -> None:
        keys, limit = self.dirty_keys + self._reserved, self._options.dirty_keys_max
        if not fresh or keys + fresh <= limit:
            return
        # What nobody can write does not use up the room of others.
        keys -= self._flusher.stuck_keys()
        if keys + fresh <= limit:
            return
        self._observer.commits_refused(keys)
        over_ms = 1000 * (keys + fresh - limit) / self._keys_per_s if self._keys_per_s else 0
        wait_ms = min(max(over_ms, self._pause_ms()), WAIT_MS_MAX)
        raise TooManyDirtyOffsets(keys, limit, int(wait_ms), self.last_error)

    async def _written_through(
        self, wanted: dict[GroupTopic, dict[int, int]], through: Iterable[tuple[QueueKey, int | None]]
    ) -> None:
        """Return once the remote store has what is wanted, and queues up to a record each (None: what is dirty now)."""
        for key, upto in through:
            if (dirty := self._journal.dirty.get(key)) is not None:
                wanted.setdefault(key.of, {})[key.queue_id] = dirty.number if upto is None else upto
        try:
            async with asyncio.timeout(self._options.write_through_ms / 1000):
                await self._wait_for(wanted)
        except TimeoutError as error:
            within_ms = self._options.write_through_ms
            raise InJournalOnly(f"no answer within {within_ms} ms: {self.last_error or 'it is busy'}") from error
        except StoreError as error:
            raise InJournalOnly(str(error)) from error

    def _dirty_of(self, rows: Iterable[GroupTopic]) -> dict[GroupTopic, dict[int, int]]:
        """Return what is dirty of these rows now: per queue, the record that has it."""
        dirty = self._journal.dirty.rows
        return {
            of: {queue_id: each.number for queue_id, each in dirty[of].offsets.items()} for of in rows if of in dirty
        }

    async def _wait_for(self, wanted: Wanted) -> None:
        if not wanted:
            return
        if not self._is_loaded:
            raise OffsetsNotLoaded("the offsets are not loaded, and nothing is flushed; try again in a moment")
        self._arrived.set()
        self._is_urgent.set()
        await self._waiters.wait(wanted)

    def _failed(self, error: StoreError) -> None:
        self._failures += 1
        self.last_error = str(error)
        self._observer.flush_failed(str(error))
        if isinstance(error, Deposed):
            self._unload(error)

    def _unload(self, why: StoreError) -> None:
        self._is_loaded = False
        self._unloads += 1
        self._why_unloaded = why
        self._waiters.fail(why)

    # The task

    async def _flush_forever(self) -> None:
        while True:
            await self._arrived.wait()
            await self._wait_until_due()
            self._arrived.clear()
            try:
                await self._flush()
            finally:
                # Also after a fault of ours: what is dirty is flushed by the next run of this task.
                if self._flusher.has_pending():
                    self._arrived.set()
            if not self._is_loaded:
                await asyncio.sleep(self._options.flush_interval_ms / 1000)

    async def _wait_until_due(self) -> None:
        if self._failures:
            # Whoever waits for a flush does not make it come earlier: the remote store has trouble enough.
            await asyncio.sleep(self._pause_ms() / 1000)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.flush_interval_ms / 1000):
                await self._is_urgent.wait()

    def _pause_ms(self) -> int:
        interval_ms = self._options.flush_interval_ms
        if not self._failures:
            return interval_ms
        return max(interval_ms, min(interval_ms << min(self._failures, 10), RETRY_MS_MAX))

    async def _flush(self) -> bool:
        """Flush what is dirty now, and return whether that succeeded."""
        self._is_urgent.clear()
        began_ms = self._clock.now_ms()
        flush_pass = FlushPass(self._journal.dirty.rows, self._waiters, self._flusher.order)
        written = 0
        try:
            while True:
                # Operators' changes have their turns in between: what callers wait for by then is known after that.
                async with self._turn:
                    if not self._is_loaded:
                        return False
                    if not (part := flush_pass.next_part()):
                        break
                    written += (await self._flusher.flush(part)).written
        except StoreError as error:
            self._failed(error)
            return False
        finally:
            self._observer.dirty(self.dirty_keys, self.oldest_age_ms)
        self._failures, self.last_error = 0, ""
        if written:
            self._keys_per_s = 1000 * written / max(self._clock.now_ms() - began_ms, 1)
        return True


def _without_locks(rows: Mapping[GroupTopic, RemoteRow]) -> Mapping[GroupTopic, RemoteRow]:
    """Return rows without locks, sessions and orderly groups; the last token stays, as it only grows."""
    return {of: row for of, row in rows.items() if not is_lock_row(of) or is_last_token_row(of)}
