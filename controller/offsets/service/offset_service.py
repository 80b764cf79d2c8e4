"""The one place that changes offsets: decide, record durably, apply to the table, answer.

Rules decide at once, each on what was decided before it, so the changes of one row are recorded and applied in the
order of the requests. Readers get what is durable. A change is durable once the journal has synced it, for groups with
write-through once the remote store has it; it is acknowledged after that, and only if this manager still leads.

Freezes live in memory: a restart, or another leader, ends them all. An operation notices that when it renews its
freeze, which it has to do anyway, and does the same as after a lease that ran out: check the offsets, freeze again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.clone import Cloned, CloneRequest, decide_clone
from controller.offsets.commits.commit import CommitEntry, CommitFences, CommitRequest, decide_commit
from controller.offsets.commits.delete import decide_deletion
from controller.offsets.commits.entry_checks import OffsetLimits
from controller.offsets.commits.fence import Fence, decide_fence
from controller.offsets.commits.freezes import Freeze, FreezeChange, FreezeTable, decide_freeze, decide_thaw
from controller.offsets.commits.managed_offsets import ManagedOffsets
from controller.offsets.commits.page_order import PageCursor
from controller.offsets.commits.read_all import OffsetPage, read_page
from controller.offsets.commits.reset import decide_reset, decide_undo
from controller.offsets.commits.results import STORED, OffsetDecision, OffsetResult, OffsetStatus, ReadAnswer
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.commits.seed import OffsetEntry, decide_seed
from controller.offsets.commits.writing import OffsetWriter
from controller.offsets.service.confirmed_changes import Report, store_confirmed
from controller.offsets.service.lock_keeper import LockKeeper
from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.service.service_observer import ServiceObserver
from controller.offsets.storage.remote import RemoteRow
from controller.offsets.storage.row_flusher import JournalRefused
from controller.offsets.storage.write_behind import Durability, InJournalOnly, Scope, WriteBehind
from controller.offsets.values import GroupTopic, OffsetSource, QueueKey, StoredOffset, is_lock_row
from remoting.background_tasks import start_task
from remoting.clock import Clock
from store.store import Deposed, StoreError

#: How soon a load that failed is tried again.
LOAD_AGAIN_S: Final = 0.5
#: Rows that are taken into the table at once: some milliseconds.
LOAD_ROWS: Final = 2_000
#: How long a request waits for a flush.
FLUSH_S: Final = 20
#: Who stores tokens of forced releases.
FENCES_WRITER: Final = "offset-manager"
#: Results that name an offset which was stored before.
_NAMED: Final = frozenset({OffsetStatus.PRESENT, OffsetStatus.STALE})
_LED_NO_MORE: Final = "this offset manager ceased to lead meanwhile: repeat the request"


@dataclass(frozen=True, slots=True)
class StoredChanges:
    """What became of the entries of a request, and where the changes are."""

    results: Sequence[OffsetResult]
    durability: Durability
    changes: Sequence[OffsetChange] = ()


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """What the service works with."""

    store: WriteBehind
    clock: Clock
    #: Starts what nobody waits for.
    start: Callable[[Coroutine[Any, Any, None], str], object]
    observer: ServiceObserver
    limits: OffsetLimits
    #: The number of the present lead, higher than those before it; 0: nobody else can lead.
    lead_number: Callable[[], int]
    #: Lets another manager lead at once, and stands again after a while.
    pass_on: Callable[[], None]


class OffsetService:
    """The offsets of all groups."""

    def __init__(self, parts: ServiceParts, locks: LockKeeper) -> None:
        self._store, self._clock, self._observer = parts.store, parts.clock, parts.observer
        self._start, self._pass_on = parts.start, parts.pass_on
        self._limits, self._lead_number = parts.limits, parts.lead_number
        self._locks = locks
        self.role: Final = ManagerRole(parts.clock, self._elected, self._deposed)
        self.table = ManagedOffsets(parts.limits)
        #: Operations that have made a freeze here, in their order; those of before a load have none any more.
        self._operations: dict[str, None] = {}

    @property
    def freezes(self) -> FreezeTable:
        """The freezes; they hold back commits and locks alike."""
        return self._locks.freezes

    # Who leads

    def leads(self, until_ms: int | None) -> None:
        """Lead until then (monotonic ms), None for ever."""
        self.role.leads(until_ms)

    def follows(self, leader: Any) -> None:
        """Lead no more."""
        self.role.follows(leader)

    def put_back(self) -> None:
        """Load again: the remote store has an older state."""
        self._store.put_back()
        self.role.unload()
        if self.role.is_leading:
            self._start(self._load(self.role.term), "load_offsets")

    def _elected(self, term: int) -> None:
        self._start(self._load(term), "load_offsets")

    def _deposed(self) -> None:
        self._store.not_leading()
        leader = self.role.leader
        self._observer.leadership_lost("" if leader is None else leader.address)

    async def _load(self, term: int) -> None:
        """Answer for all that is stored; until then offsets are unavailable, not absent."""
        began_ms = self._clock.now_ms()
        self.table = ManagedOffsets(self._limits)
        while self.role.leads_in(term):
            try:
                rows = await self._store.load()
            except JournalRefused as error:
                # An operator has to look at it, or the store gets something newer; another manager may lead at once.
                self._observer.load_failed(str(error))
                self._pass_on()
                return
            except StoreError as error:
                self._observer.load_failed(str(error))
                await asyncio.sleep(LOAD_AGAIN_S)
                continue
            table = await self._loaded_table(rows)
            locks = {of: row for of, row in rows.items() if is_lock_row(of)}
            self._locks.load(locks, table.highest_token)
            self.table, self._operations = table, {}
            if self.role.loaded(term):
                duration_ms = self._clock.now_ms() - began_ms
                self._observer.leadership_gained(table.count, len(table.unreadable), duration_ms)
            return

    async def _loaded_table(self, rows: Mapping[GroupTopic, RemoteRow]) -> ManagedOffsets:
        table = ManagedOffsets(self._limits, self._lead_number())
        # What was on its way when the lead changed is still flushed, and changes these rows.
        for number, (of, row) in enumerate(tuple(rows.items()), 1):
            if is_lock_row(of):
                continue
            if row.problem:
                table.mark_unreadable(of, row.problem)
            else:
                table.load(of, row.queues)
            if number % LOAD_ROWS == 0:
                # Nothing changes meanwhile: changes are refused until all is loaded.
                await asyncio.sleep(0)
        table.finish_loading()
        return table

    # Clients

    async def commit(
        self, entries: Sequence[CommitEntry], writer: str, source: OffsetSource = OffsetSource.CLIENT
    ) -> StoredChanges:
        """Store what clients have consumed; each entry has its own result.

        Raises ManagerNotLeading, StillLoading, OffsetsRefused and StoreError; then nothing is acknowledged. After
        InJournalOnly it is not known whether the entries will be stored.
        """
        self.role.check_serves()
        request = CommitRequest(
            entries=entries,
            writer=writer,
            source=source,
            now_ms=self._clock.now_ms(),
            unix_ms=self._clock.unix_ms(),
        )
        decision = decide_commit(self.table, request, CommitFences(self._locks.table, self.freezes))
        keys = [entry.key for entry, result in zip(entries, decision.results, strict=True) if result is STORED]
        return await self._stored("commit", decision, keys)

    def read(self, keys: Sequence[QueueKey]) -> list[ReadAnswer]:
        """Return the durable offset of each queue, that it has none, or that this cannot be determined.

        Raises ManagerNotLeading.
        """
        self.role.check_leads()
        read = self.table.read
        return [read(key) for key in keys]

    def read_decided(self, keys: Sequence[QueueKey]) -> list[StoredOffset | None]:
        """Return the offset of each queue that the next change is decided on; it may not be durable yet.

        None: there is none, or this cannot be determined. Raises ManagerNotLeading.
        """
        self.role.check_leads()
        decided = (self.table.queues_of(each.of).get(each.queue_id) for each in keys)
        return [None if each is None or each.is_deleted else each for each in decided]

    def page(self, scope: OffsetScope, cursor: PageCursor | None, offsets_max: int) -> OffsetPage:
        """Return a page of the durable offsets of a scope; raises ManagerNotLeading, RowsUnavailable, PageExpired."""
        self.role.check_leads()
        return read_page(self.table, scope, cursor, offsets_max)

    async def flush(self, scope: OffsetScope | None) -> None:
        """Return once the remote store has what was acknowledged in a scope, None for everything.

        Raises StoreError, or TimeoutError after FLUSH_S: what is left is flushed later all the same.
        """
        self.role.check_serves()
        async with asyncio.timeout(FLUSH_S):
            await (self._store.flush_all() if scope is None else self._store.flush(scope.covers))

    # Operators and other parts of the control plane

    def writer(self, name: str, operation: str, source: OffsetSource = OffsetSource.OPERATOR) -> OffsetWriter:
        """Return who changes offsets now."""
        return OffsetWriter(
            writer=name,
            source=source,
            operation=operation,
            now_ms=self._clock.now_ms(),
            unix_ms=self._clock.unix_ms(),
        )

    async def seed(self, entries: Sequence[OffsetEntry], writer: OffsetWriter) -> StoredChanges:
        """Store offsets where there are none."""
        self.role.check_serves()
        decision = decide_seed(self.table, self.freezes, entries, writer)
        return await self._by_operator("seed", decision, writer, _rows_of(entries))

    def preview_reset(self, entries: Sequence[OffsetEntry], writer: OffsetWriter) -> OffsetDecision:
        """Return what `reset` would do now."""
        self.role.check_serves()
        return decide_reset(self.table, self.freezes, entries, writer)

    async def reset(self, entries: Sequence[OffsetEntry], writer: OffsetWriter) -> StoredChanges:
        """Store offsets, lower ones too, in a new reset epoch each."""
        return await self._by_operator("reset", self.preview_reset(entries, writer), writer, _rows_of(entries))

    def preview_undo(self, undone: Sequence[OffsetChange], writer: OffsetWriter) -> OffsetDecision:
        """Return what `undo` would do now."""
        self.role.check_serves()
        return decide_undo(self.table, self.freezes, undone, writer)

    async def undo(self, undone: Sequence[OffsetChange], writer: OffsetWriter) -> StoredChanges:
        """Store what was there before a reset, in one more reset epoch."""
        covers = {each.key.of for each in undone}.__contains__
        return await self._by_operator("undo", self.preview_undo(undone, writer), writer, covers)

    def preview_clone(self, request: CloneRequest, writer: OffsetWriter) -> tuple[tuple[Cloned, ...], OffsetDecision]:
        """Return what `clone` would do now."""
        self.role.check_serves()
        return decide_clone(self.table, self.freezes, request, writer)

    async def clone(self, request: CloneRequest, writer: OffsetWriter) -> tuple[tuple[Cloned, ...], StoredChanges]:
        """Let a group begin where another one is."""
        cloned, decision = self.preview_clone(request, writer)
        return cloned, await self._by_operator("clone", decision, writer, _target_of(request))

    def preview_deletion(self, scope: OffsetScope, writer: OffsetWriter) -> OffsetDecision:
        """Return what `delete` would do now."""
        self.role.check_serves()
        return decide_deletion(self.table, self.freezes, scope, writer)

    async def delete(self, scope: OffsetScope, writer: OffsetWriter) -> StoredChanges:
        """Delete the offsets of a scope."""
        return await self._by_operator("delete", self.preview_deletion(scope, writer), writer, scope.covers)

    async def fence(self, fences: Sequence[Fence]) -> Sequence[OffsetResult]:
        """Store the tokens from which commits of queues are accepted with their offsets, in the remote store too."""
        self.role.check_serves()
        decision = decide_fence(self.table, fences, self.writer(FENCES_WRITER, "", OffsetSource.OPERATOR))
        return (await self._confirmed("fence", decision, _rows_of(fences), lambda _: None)).results

    async def forget_deleted(self) -> None:
        """Remember no more which offsets were deleted long ago, here and in the remote store."""
        self.role.check_serves()
        table = self.table
        table.forget_deleted(await self._store.forget_deleted())

    def freeze(self, freeze: Freeze) -> None:
        """Let nobody but its operation change what a freeze covers; raises FreezeRefused."""
        now_ms = self.role.serving_ms()
        self.freezes.apply(decide_freeze(self.freezes, freeze), now_ms)
        self._operations[freeze.operation] = None
        self._observer.frozen(freeze)

    def lasting_freezes(self) -> list[Freeze]:
        """Return the freezes that hold something back now."""
        self.role.check_serves()
        ended = {each.operation for each in self.freezes.ended(self._clock.now_ms())}
        made = (self.freezes.of_operation(each) for each in self._operations if each not in ended)
        return [each for each in made if each is not None]

    def renew_freeze(self, operation: str) -> Freeze:
        """Let a freeze last for its lease from now on; raises FreezeRefused if it has ended."""
        return self.freezes.renew(operation, self.role.serving_ms())

    def thaw(self, operation: str) -> bool:
        """End the freeze of an operation; return whether there was one."""
        self.role.check_serves()
        changes = decide_thaw(self.freezes, operation)
        for each in changes:
            self._end_freeze(each, is_expired=False)
        return bool(changes)

    def end_freezes(self) -> None:
        """Take out the freezes whose operation has not renewed them; they hold nothing back already."""
        for each in self.freezes.ended(self._clock.now_ms()):
            self._end_freeze(each, is_expired=True)

    def _end_freeze(self, change: FreezeChange, *, is_expired: bool) -> None:
        self.freezes.apply(change, self._clock.now_ms())
        self._operations.pop(change.operation, None)
        self._observer.thawed(change.operation, is_expired=is_expired)

    # Storing

    async def _by_operator(
        self, operation: str, decision: OffsetDecision, writer: OffsetWriter, covers: Scope
    ) -> StoredChanges:
        """Store what was decided; `covers` has the rows of the request, also those that it does not change."""
        report = partial(self._observer.changed_by_operator, operation, writer.writer)
        return await self._confirmed(operation, decision, covers, report)

    async def _confirmed(
        self, operation: str, decision: OffsetDecision, covers: Scope, report: Report
    ) -> StoredChanges:
        """Store what was decided just now, and return the results once the remote store has all that they name.

        Such changes are rare, and nobody repeats them by himself: the next leader has to know them whatever becomes of
        this machine.
        """
        term = self.role.term
        if decision.changes:
            await store_confirmed(self._store, self.table, decision.changes, report)
        if any(each.status in _NAMED for each in decision.results):
            async with asyncio.timeout(FLUSH_S):
                await self._store.flush(covers)
        self._check_term(term)
        self._observer.results(operation, decision.results)
        return StoredChanges(decision.results, Durability.REMOTE, decision.changes)

    async def _stored(self, operation: str, decision: OffsetDecision, keys: Sequence[QueueKey]) -> StoredChanges:
        """Store what was decided just now of these queues, and return the results once it is durable."""
        term, table = self.role.term, self.table
        table.stage(decision.changes)
        # A caller that gives up leaves nothing half done: the changes are confirmed, or withdrawn, without it.
        durability = await asyncio.shield(start_task(self._record(table, decision.changes, keys)))
        if decision.changes and durability is Durability.LOCAL and not self.role.leads_in(term):
            # Another manager may lead, and it does not have what is only in this journal.
            raise InJournalOnly(_LED_NO_MORE)
        self._check_term(term)
        self._observer.results(operation, decision.results)
        return StoredChanges(decision.results, durability, decision.changes)

    def _check_term(self, term: int) -> None:
        """Raise Deposed if another manager may lead since."""
        if not self.role.leads_in(term):
            raise Deposed(_LED_NO_MORE)

    async def _record(
        self, table: ManagedOffsets, changes: Sequence[OffsetChange], keys: Sequence[QueueKey]
    ) -> Durability:
        try:
            durability = await self._store.record(changes, keys)
        except (InJournalOnly, asyncio.CancelledError):
            # The journal has them, and the remote store gets them later.
            table.confirm(changes)
            raise
        except BaseException:
            table.withdraw(changes)
            raise
        table.confirm(changes)
        return durability


def _rows_of(keyed: Iterable[OffsetEntry | Fence]) -> Scope:
    return {each.key.of for each in keyed}.__contains__


def _target_of(request: CloneRequest) -> Scope:
    return OffsetScope(request.cluster, request.namespace, request.to_group).covers
