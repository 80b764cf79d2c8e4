"""The one place that changes offsets: decide, store, answer.

Rules decide at once, each on what was decided before it. An answer is given when what it says is durable, and only if
this manager has led all the time: another one may lead since, and know nothing of it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from offsets.commits.events import RESULTS, OffsetsLoaded, OffsetsLoadFailed, changed_by_operator
from offsets.commits.rules import Decision, Entry, Result, Writer, decide_commit, decide_deletion, decide_reset
from offsets.commits.stored import Change, RowName, StoredOffset
from offsets.commits.table import LOADING, OffsetTable, Page, Scope
from offsets.lead import Lead
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.telemetry.events import Count, Counted, Event, Gauge, Measure
from store.store import Deposed, OutcomeUnknown, StoreError

if TYPE_CHECKING:
    from offsets.commits.log_file import EmbeddedStore
    from offsets.commits.write_behind import WriteBehind

OFFSETS: Final = Gauge("offsets", "Offsets that clients have committed, one for each queue that a group consumes.")
UNREADABLE_ROWS: Final = Gauge("unreadable_rows", "Stored rows, of a group in a topic on a set, that cannot be read.")
DIRTY_OFFSETS: Final = Gauge("dirty_offsets", "Queues whose newest offsets etcd does not have yet.")
OLDEST_DIRTY: Final = Gauge("oldest_dirty_seconds", "For how long etcd has not had everything; 0 if it has.")

#: How soon a load that failed is tried again.
LOAD_AGAIN_S: Final = 0.5
#: How often deletions are forgotten that are a week old.
FORGET_S: Final = 24 * 3600

Durability = Literal["local", "remote"]
#: Where changes are stored: one file, or etcd behind the local file.
CommitStore: TypeAlias = "EmbeddedStore | WriteBehind"


class Unavailable(NamedTuple):
    """Whether there is an offset cannot be determined now: no policy for new groups may be applied."""

    reason: str


class OffsetService:
    def __init__(
        self,
        store: CommitStore,
        lead: Lead,
        clock: Clock,
        tasks: BackgroundTasks,
        emit: Callable[[Event], None],
        offsets_max: int,
    ) -> None:
        """Load whenever the lead begins."""
        self.store, self._lead, self._clock, self._tasks, self._emit = store, lead, clock, tasks, emit
        self._offsets_max = offsets_max
        self.table = OffsetTable(offsets_max)
        lead.listeners.append(self._lead_changed)
        self._forgetting = tasks.keep_running(self._forget_forever, "forget_deleted")

    # The lead

    def _lead_changed(self, leads: bool) -> None:  # noqa: FBT001  # as Lead calls it
        self.table = OffsetTable(self._offsets_max)
        self.store.stop_leading()
        if leads:
            self._lead.is_loaded = False
            self._tasks.start(self._load(self._lead.term), "load_offsets")

    async def _load(self, term: int) -> None:
        began_ms, told = self._clock.now_ms(), ""
        while self._lead.is_leading() and self._lead.term == term:
            table = OffsetTable(self._offsets_max, self._lead.number)
            try:
                await self.store.load(table)
            except StoreError as error:
                if str(error) != told:
                    self._emit(OffsetsLoadFailed(error=(told := str(error))))
                await asyncio.sleep(LOAD_AGAIN_S)
                continue
            if self._lead.term == term:
                table.is_loaded = self._lead.is_loaded = True
                self.table = table
                self._forget_deleted()
                duration_ms = self._clock.now_ms() - began_ms
                unreadable = len(table.unreadable)
                self._emit(OffsetsLoaded(offsets=table.count, unreadable_rows=unreadable, duration_ms=duration_ms))
            return

    async def _forget_forever(self) -> None:
        while True:
            await asyncio.sleep(FORGET_S)
            self._forget_deleted()

    def _forget_deleted(self) -> None:
        if self._lead.is_leading() and self.table.is_loaded:
            self.table.drop_empty()
            self.store.write_again(self.table.forget_deleted(self._clock.unix_ms()))

    async def close(self) -> None:
        self._forgetting.cancel()
        await self.store.close()

    # Clients

    async def commit(self, entries: Sequence[Entry], writer: str) -> tuple[Sequence[Result], Durability]:
        """Store what a client has consumed; return the result of each entry, and where all are at least.

        Raises NotLeading, OffsetsRefused and StoreError; after OutcomeUnknown some may be stored.
        """
        self._check()
        decision = decide_commit(self.table, entries, self._writer(writer))
        await self._stored("commit", decision, self.store.store)
        groups = {entry.name.group for entry in entries}
        return decision.results, "remote" if all(map(self.store.is_written_through, groups)) else "local"

    def read(self, queues: Sequence[tuple[RowName, int]]) -> list[StoredOffset | Unavailable | None]:
        """Return the durable offset of each queue, a deleted one too; None: it never had one. Raises NotLeading."""
        self._lead.check()
        table = self.table
        answers: list[StoredOffset | Unavailable | None] = []
        for name, queue_id in queues:
            why = table.unreadable.get(name) or ("" if table.is_loaded else LOADING)
            answers.append(Unavailable(why) if why else table.read(name, queue_id))
        return answers

    def page(self, scope: Scope, start: int, offsets_max: int) -> Page:
        """Return a page of the durable offsets of a scope; raises NotLeading, and StoreError while they are loaded."""
        self._check()
        return self.table.page(scope, start, offsets_max)

    # Operators

    async def reset(self, entries: Sequence[Entry], writer: str, *, dry_run: bool = False) -> Decision:
        """Store offsets, lower ones too, in a new reset epoch each; raises as `commit`."""
        self._check()
        decision = decide_reset(self.table, entries, self._writer(writer))
        return decision if dry_run else await self._by_operator("reset", decision, writer)

    async def delete(self, scope: Scope, writer: str, *, dry_run: bool = False) -> Decision:
        """Delete the offsets of a scope; raises as `commit`."""
        self._check()
        decision = decide_deletion(self.table, scope, self._writer(writer))
        return decision if dry_run else await self._by_operator("delete", decision, writer)

    async def _by_operator(self, operation: str, decision: Decision, writer: str) -> Decision:
        try:
            await self._stored(operation, decision, self.store.store_now)
        except OutcomeUnknown:
            self._tell(operation, decision, writer, is_certain=False)
            raise
        self._tell(operation, decision, writer, is_certain=True)
        return decision

    def _tell(self, operation: str, decision: Decision, writer: str, *, is_certain: bool) -> None:
        for event in changed_by_operator(operation, writer, decision.changes, is_certain=is_certain):
            self._emit(event)

    # Gauges

    def measures(self) -> Sequence[Measure]:
        return (
            Measure(OFFSETS, self.table.count),
            Measure(UNREADABLE_ROWS, len(self.table.unreadable)),
            Measure(DIRTY_OFFSETS, self.store.dirty_keys),
            Measure(OLDEST_DIRTY, self.store.oldest_dirty_ms / 1000),
        )

    def _check(self) -> None:
        self._lead.check()
        if not self.table.is_loaded:
            raise Deposed(LOADING)

    def _writer(self, name: str) -> Writer:
        return Writer(name, self._clock.unix_ms())

    async def _stored(
        self, operation: str, decision: Decision, store: Callable[[Sequence[Change]], Awaitable[None]]
    ) -> None:
        term = self._lead.term
        if decision.changes:
            await store(decision.changes)
        if not self._lead.is_leading() or self._lead.term != term:
            raise OutcomeUnknown("this offset manager ceased to lead meanwhile: repeat the request")
        for status, number in Counter([result.status for result in decision.results]).items():
            self._emit(Counted(count=Count(RESULTS, (operation, status), number)))
