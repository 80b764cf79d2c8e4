"""Writes dirty offsets into the rows of the remote store, of which it has a copy."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.dirty_offsets import DirtyOffset, is_older, merged, overlaid, settled
from controller.offsets.storage.flush_order import FlushOrder
from controller.offsets.storage.flush_waiters import FlushWaiters
from controller.offsets.storage.formats.records import FlushedRow
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.observer import WriteBehindObserver
from controller.offsets.storage.remote import (
    RemoteRow,
    RemoteStore,
    RowMoved,
    RowResult,
    RowStored,
    RowTooLarge,
    RowWrite,
)
from controller.offsets.values import DELETED_KEPT_MS, GroupTopic, QueueKey, StoredOffset, is_lock_row
from remoting.clock import Clock
from store.store import OutcomeUnknown, StoreError

#: Rows that one call of the remote store gets, which cuts them into transactions. To merge and encode so many takes the
#: event loop some milliseconds.
FLUSH_ROWS_MAX: Final = 300
#: Queues that are recorded at once where the remote store was put back to an older state.
PUT_BACK_KEYS: Final = 2000
#: How often rows are written that move meanwhile, before `settle` gives up.
SETTLE_TRIES: Final = 5

_NOTHING: Final = RemoteRow()


#: Offsets of a journal that are older may have been deleted by a manager that remembers it no more. A day less, since
#: clocks differ.
JOURNAL_MS_MAX: Final = DELETED_KEPT_MS - 24 * 3_600_000
#: What is recorded again gets a new time if it is older than this.
_RECENT_MS: Final = 3_600_000


class JournalRefused(StoreError):
    """What a journal has must not be sent to the remote store; the sentence says what to do."""


class JournalOfOtherStore(JournalRefused):
    """What is in a journal was acknowledged for another store; nothing of it is sent."""

    def __init__(self, path: Path, queues: int, *, own: str, present: str) -> None:
        self.path, self.own, self.present = path, own, present
        super().__init__(
            f"{path}: it has offsets of {queues} queues for the store {own}, and this is the store "
            f"{present or 'of a group that nobody has led yet'}: start the manager with the etcd, managerGroup or "
            "offsets.db that it had, until nothing is left to be sent; or move the journal away: groups then read "
            "again what they consumed since the last flush"
        )


def refuse_other_store(journal: Journal, store_id: str) -> None:
    """Raise JournalOfOtherStore if the journal has offsets that another store lacks."""
    if journal.dirty and journal.store_id not in ("", store_id):
        raise JournalOfOtherStore(journal.path, len(journal.dirty), own=journal.store_id, present=store_id)


class JournalTooOld(JournalRefused):
    """A journal has offsets that may have been deleted since; nothing of it is sent."""

    def __init__(self, path: Path, queues: int) -> None:
        self.path = path
        days = JOURNAL_MS_MAX // (24 * 3_600_000)
        super().__init__(
            f"{path}: it has offsets of {queues} queues from more than {days} days ago which the remote store does not "
            "have, and they may have been deleted since: move it away and start without it; groups then read again "
            "what they consumed since the last flush"
        )


class RowNotWritable(StoreError):
    """The row of an offset cannot be read, or is too large; nothing is written over it."""


class FlushCount(NamedTuple):
    """How many queues a flush took."""

    #: Those that the remote store had older, or not at all.
    written: int = 0
    #: Those of which it had all.
    unchanged: int = 0


class RowFlusher:
    """The rows of the remote store as this manager has read and written them."""

    def __init__(
        self, journal: Journal, remote: RemoteStore, clock: Clock, observer: WriteBehindObserver, waiters: FlushWaiters
    ) -> None:
        self._journal = journal
        self._remote = remote
        self._clock = clock
        self._observer = observer
        self._waiters = waiters
        self.order: Final = FlushOrder(journal.dirty)
        self._rows: dict[GroupTopic, RemoteRow] = {}
        #: Rows that no request takes, and why.
        self._too_large: dict[GroupTopic, str] = {}
        #: Rows that cannot be read.
        self._unreadable: set[GroupTopic] = set()

    @property
    def rows(self) -> Mapping[GroupTopic, RemoteRow]:
        """All rows, those that cannot be read too."""
        return self._rows

    def problem(self, of: GroupTopic) -> str:
        """Return why nothing is written to a row; blank if it is."""
        return self._rows.get(of, _NOTHING).problem or self._too_large.get(of, "")

    def changed(self, changes: Sequence[OffsetChange]) -> None:
        """Attempt a row again that was too large, where offsets of it are deleted."""
        if not self._too_large:
            return
        for key, _, after in changes:
            if after is None or after.is_deleted:
                self._too_large.pop(key.of, None)

    def stuck(self) -> list[GroupTopic]:
        """Return the rows that have something dirty and cannot be written: only an operator can help them."""
        return [of for of in {*self._too_large, *self._unreadable} if of in self._journal.dirty.rows]

    def stuck_keys(self) -> int:
        """Return how many queues are dirty in rows that cannot be written."""
        return sum(len(self._journal.dirty.rows[of].offsets) for of in self.stuck())

    def has_pending(self) -> bool:
        """Return whether a row has something dirty and can be written."""
        return any(not self.problem(of) for of in self._journal.dirty.rows)

    def pending(self) -> list[GroupTopic]:
        """Return the rows that have something dirty and can be written."""
        return [of for of in self._journal.dirty.rows if not self.problem(of)]

    async def load(self) -> None:
        """Read all rows anew; raises StoreError, and then has those from before."""
        rows: dict[GroupTopic, RemoteRow] = {}
        foreign: list[str] = []
        start: bytes | None = None
        while True:
            page = await self._remote.load_page(start)
            rows.update(page.rows)
            foreign.extend(page.foreign)
            if page.next is None:
                break
            start = page.next
        self._rows = rows
        self._too_large.clear()
        self._unreadable.clear()
        for problem in foreign:
            self._observer.foreign_key(problem)
        for of, row in rows.items():
            if row.problem:
                self._refuse(of, row.problem)

    async def check_store(self) -> None:
        """Let the journal belong to this store; raises JournalOfOtherStore if it has offsets for another one."""
        store_id = await self._remote.store_id()
        refuse_other_store(self._journal, store_id)
        if self._journal.store_id != store_id:
            await self._journal.belong_to(store_id)

    def drop_lock_changes(self) -> None:
        """Remove changes of locks from the journal, where other managers write to the store as well.

        Nobody relies on them: what waits for such a store was not acknowledged. Another manager may have granted and
        released the same queues since, and a row of locks that it removed leaves nothing that is newer than these.
        """
        if not self._remote.is_shared:
            return
        rows = [
            FlushedRow(of, {queue_id: each.number for queue_id, each in row.offsets.items()})
            for of, row in self._journal.dirty.rows.items()
            if is_lock_row(of)
        ]
        self._journal.flushed(rows, self._clock.now_ms())

    def check_age(self) -> None:
        """Raise JournalTooOld if what is dirty may have been deleted by another manager that remembers it no more."""
        if not self._remote.is_shared:
            return
        oldest_ms = self._clock.unix_ms() - JOURNAL_MS_MAX
        old = 0
        for of, row in self._journal.dirty.rows.items():
            present = self._rows.get(of, _NOTHING).queues
            for queue_id, dirty in row.offsets.items():
                # Rows of locks may have no time.
                if dirty.after is not None and 0 < dirty.after.unix_ms < oldest_ms:
                    remote = present.get(queue_id)
                    old += settled(dirty, remote) != remote
        if old:
            raise JournalTooOld(self._journal.path, old)

    async def forget_deleted(self) -> list[tuple[QueueKey, StoredOffset]]:
        """Remove what says that offsets were deleted, once that is DELETED_KEPT_MS ago, and return it."""
        oldest_ms = self._clock.unix_ms() - DELETED_KEPT_MS
        removed: list[tuple[QueueKey, StoredOffset]] = []
        names = tuple(self._rows)
        for at in range(0, len(names), FLUSH_ROWS_MAX):
            writes, expired = [], {}
            for of in names[at : at + FLUSH_ROWS_MAX]:
                row = self._rows[of]
                old = {queue_id: each for queue_id, each in row.queues.items() if each.is_deleted}
                old = {queue_id: each for queue_id, each in old.items() if each.unix_ms < oldest_ms}
                old = {queue_id: each for queue_id, each in old.items() if not self._is_dirty(of, queue_id)}
                if old:
                    expired[of] = old
                    left = {queue_id: each for queue_id, each in row.queues.items() if queue_id not in old}
                    writes.append(RowWrite(of, left, row.revision))
            for stored in await self._put(writes, [FlushedRow(each.of, {}) for each in writes]) if writes else ():
                removed += [(QueueKey(stored.of, queue_id), each) for queue_id, each in expired[stored.of].items()]
            await asyncio.sleep(0)
        return removed

    def _is_dirty(self, of: GroupTopic, queue_id: int) -> bool:
        return self._journal.dirty.get(QueueKey(of, queue_id)) is not None

    async def settle(self) -> FlushCount:
        """Flush until nothing is dirty that can be written; raises StoreError."""
        written = unchanged = 0
        for _ in range(SETTLE_TRIES):
            self.order.forget_clean()
            if not (pending := self.pending()):
                return FlushCount(written, unchanged)
            count = await self.flush(pending)
            written, unchanged = written + count.written, unchanged + count.unchanged
        raise OutcomeUnknown("rows of offsets change while they are loaded: does another offset manager write them?")

    async def raise_to(self, former: Mapping[GroupTopic, RemoteRow]) -> int:
        """Store what former rows have newer than the rows now, and return of how many queues; raises StoreError."""
        newer = self._newer(former)
        keys = 0
        while part := tuple(islice(newer, PUT_BACK_KEYS)):
            await self._journal.record(part)
            await self.settle()
            keys += len(part)
        return keys

    def _newer(self, former: Mapping[GroupTopic, RemoteRow]) -> Iterator[OffsetChange]:
        for of, row in former.items():
            yield from self._newer_in(of, row, self._rows.get(of, _NOTHING))

    async def flush(self, names: Sequence[GroupTopic]) -> FlushCount:
        """Write what is dirty of these rows now; raises StoreError, and then some may be written.

        Those that `order` holds back come after the others, in requests of their own: the store takes the rest of a
        request where a row has moved. They stay dirty where it still lacks what comes first.
        """
        held = [of for of in names if self.order.is_held(of)]
        written = unchanged = 0
        for rows in (names, held):
            for at in range(0, len(rows), FLUSH_ROWS_MAX):
                count = await self._flush_some(rows[at : at + FLUSH_ROWS_MAX])
                written, unchanged = written + count.written, unchanged + count.unchanged
        return FlushCount(written, unchanged)

    async def _flush_some(self, names: Sequence[GroupTopic]) -> FlushCount:
        began_ms = self._clock.now_ms()
        writes: list[RowWrite] = []
        taken: list[FlushedRow] = []
        unchanged: list[FlushedRow] = []
        for of in names:
            # Looked at anew: a lock may be given up while rows before it are written.
            if (dirty := self._journal.dirty.rows.get(of)) is None or self.order.is_held(of):
                continue
            row = self._rows.get(of, _NOTHING)
            if row.problem or of in self._too_large:
                # It became so after the pass began: others have their turns between its parts.
                continue
            queues = merged(dirty.offsets, row.queues)
            flushed = FlushedRow(of, {queue_id: each.number for queue_id, each in dirty.offsets.items()})
            if queues == row.queues:
                unchanged.append(flushed)
            else:
                taken.append(flushed)
                writes.append(RowWrite(of, queues, row.revision))
        self._flushed(unchanged, began_ms)
        stored = await self._put(writes, taken) if writes else []
        self._flushed(stored, began_ms)
        if stored:
            seconds = (self._clock.now_ms() - began_ms) / 1000
            self._observer.rows_flushed(len(stored), _keys_of(stored), seconds)
        return FlushCount(_keys_of(stored), _keys_of(unchanged))

    async def write(self, changes: Sequence[OffsetChange]) -> dict[GroupTopic, str]:
        """Write changes of FLUSH_ROWS_MAX rows at most, past the journal, with what is dirty of these rows.

        Returns the rows that were refused, and why: the others have the changes. Raises StoreError, and then some may
        have them; to repeat it is harmless.
        """
        left: dict[GroupTopic, list[OffsetChange]] = {}
        for each in changes:
            left.setdefault(each.key.of, []).append(each)
        refused: dict[GroupTopic, str] = {}
        for _ in range(SETTLE_TRIES):
            refused |= {of: problem for of in left if (problem := self.problem(of))}
            writes = {of: self._write_of(of, of_row) for of, of_row in left.items() if of not in refused}
            left = {of: left[of] for of, write in writes.items() if write.queues != self._rows.get(of, _NOTHING).queues}
            if not left:
                return refused
            refused |= await self._put_changes([writes[of] for of in left])
        raise OutcomeUnknown("rows of offsets change while they are written: does another offset manager write them?")

    def _write_of(self, of: GroupTopic, changes: Sequence[OffsetChange]) -> RowWrite:
        row = self._rows.get(of, _NOTHING)
        return RowWrite(of, overlaid(merged(self._dirty_of(of), row.queues), changes), row.revision)

    async def _put_changes(self, writes: Sequence[RowWrite]) -> dict[GroupTopic, str]:
        """Write rows, and return those that are too large with the changes: without them they may still be written."""
        began_ms = self._clock.now_ms()
        taken = [
            FlushedRow(each.of, {n: dirty.number for n, dirty in self._dirty_of(each.of).items()}) for each in writes
        ]
        outcome = await self._remote.put(writes)
        too_large = {}
        fitting = []
        for write, flushed, result in zip(writes, taken, outcome.results, strict=True):
            if isinstance(result, RowTooLarge):
                too_large[write.of] = result.problem
            elif await self._took(write, result):
                fitting.append(flushed)
        self._flushed(fitting, began_ms)
        return too_large

    def _dirty_of(self, of: GroupTopic) -> Mapping[int, DirtyOffset]:
        dirty = self._journal.dirty.rows.get(of)
        return {} if dirty is None else dirty.offsets

    async def _put(self, writes: Sequence[RowWrite], taken: Sequence[FlushedRow]) -> list[FlushedRow]:
        """Write rows, and return what is flushed."""
        outcome = await self._remote.put(writes)
        results = zip(writes, taken, outcome.results, strict=True)
        return [flushed for write, flushed, result in results if await self._took(write, result)]

    async def _took(self, write: RowWrite, result: RowResult) -> bool:
        """Take what has become of a write, and return whether it is stored."""
        if isinstance(result, RowMoved):
            await self._raise_moved(write.of, result.present)
        self._take(write, result)
        return isinstance(result, RowStored)

    async def _raise_moved(self, of: GroupTopic, present: RemoteRow) -> None:
        """Let the next flush store again what a moved row has older than it was written, or has not: it was put back.

        A write may come before anybody notices that the whole store was. The journal has it before the copy is
        replaced, the only place where it was; if it cannot be recorded, this is repeated with the write.
        """
        newer = []
        for change in self._newer_in(of, self._rows.get(of, _NOTHING), present):
            dirty = self._journal.dirty.get(change.key)
            if dirty is None or dirty.after is not None:
                newer.append(change)
        if newer:
            await self._journal.record(newer)
            self._observer.put_back(len(newer))

    def _take(self, write: RowWrite, result: RowResult) -> None:
        of = write.of
        match result:
            case RowStored(revision):
                self._keep(of, RemoteRow(write.queues, revision))
            case RowMoved(present):
                # What is dirty is merged into it by the next flush.
                self._keep(of, present)
                if present.problem:
                    self._refuse(of, present.problem)
            case RowTooLarge(problem):
                self._too_large[of] = problem
                self._refuse(of, problem)

    def _keep(self, of: GroupTopic, row: RemoteRow) -> None:
        self._unreadable.discard(of)
        if row == _NOTHING or not (row.queues or row.problem):
            self._rows.pop(of, None)
        else:
            self._rows[of] = row

    def _newer_in(self, of: GroupTopic, former: RemoteRow, present: RemoteRow) -> Iterator[OffsetChange]:
        """Return what a former row has newer than the present one; nothing where that cannot be read."""
        if present.problem:
            return
        unix_ms = self._clock.unix_ms()
        for queue_id, each in former.queues.items():
            now = present.queues.get(queue_id)
            # That an offset was deleted is removed after a while, by whichever manager leads then.
            is_lost = not each.is_deleted if now is None else is_older(now, each)
            if not is_lost:
                continue
            # Recorded now, it is no older than that: a journal is refused by the age of what it has.
            is_recent = each.unix_ms > unix_ms - _RECENT_MS
            yield OffsetChange(QueueKey(of, queue_id), now, each if is_recent else replace(each, unix_ms=unix_ms))

    def _refuse(self, of: GroupTopic, problem: str) -> None:
        if of not in self._too_large:
            self._unreadable.add(of)
        self.order.give_up(of)
        self._observer.row_unwritable(of, problem)
        self._waiters.fail(RowNotWritable(problem), of)

    def _flushed(self, rows: Sequence[FlushedRow], began_ms: int) -> None:
        self._journal.flushed(rows, began_ms)
        for row in rows:
            self.order.flushed(row)
            self._waiters.flushed(row)


def _keys_of(rows: Sequence[FlushedRow]) -> int:
    return sum(len(row.numbers) for row in rows)
