"""The one place that changes locks: decide, record durably, apply, one change at a time.

Changes of locks are rare beside commits, and renewals are not stored, so each waits for the one before it. Nobody is
granted a queue before the store has that: with etcd the acknowledgement waits for etcd, since the next leader knows
nothing else. Sessions and locks outlive a restart; each lease begins anew then, so a queue passes on up to one ttl
later, and never early.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from controller.offsets.commits.freezes import FreezeTable
from controller.offsets.locks.sessions.decision import LockDecision
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.session_rules import decide_expiry
from controller.offsets.locks.sessions.values import NO_CHANGES, Lead, LockChanges
from controller.offsets.service.lock_rows import UnreadableLocks, changes_of, loaded_locks
from controller.offsets.storage.remote import RemoteRow
from controller.offsets.storage.write_behind import InJournalOnly, WriteBehind
from controller.offsets.values import GroupTopic
from remoting.background_tasks import start_task
from remoting.clock import Clock
from store.store import StoreError

#: After so long without a look at the leases this process was paused, and renewals could not arrive.
PAUSE_MS: Final = 2_000
#: How long a request waits until the store has the change before it.
SETTLE_S: Final = 5

Answer = TypeVar("Answer")


class LocksUnavailable(StoreError):
    """Nobody knows who holds which queue, so nothing is granted."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"locks cannot be read, and nothing is granted or released: {problem}")


class LockKeeper:
    """The locks, in memory and in the store."""

    def __init__(self, store: WriteBehind, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.table = LockTable()
        #: One change at a time.
        self._turn = asyncio.Lock()
        self._looked_ms = clock.now_ms()
        #: Rows of changes that are in the journal only, as far as anybody knows.
        self._unsettled: frozenset[GroupTopic] = frozenset()
        #: Why nobody knows who holds what; blank if it is known.
        self.problem = ""

    @property
    def freezes(self) -> FreezeTable:
        """The freezes, of locks and of offsets alike."""
        return self.table.freezes

    def load(self, rows: Mapping[GroupTopic, RemoteRow], highest_token: int) -> None:
        """Take the locks that are stored; each lease begins now. While they cannot be read nothing is granted."""
        self._looked_ms = self._clock.now_ms()
        self._unsettled = frozenset()
        try:
            self.table, self.problem = loaded_locks(rows, highest_token, self._looked_ms), ""
        except UnreadableLocks as error:
            self.table, self.problem = LockTable(), str(error)
            self.table.raise_last_token(highest_token)

    def now_ms(self, lead: Lead) -> int:
        """Return the time for a decision, after leases were begun again if this process was paused.

        Raises LeadUncertain if another manager may have led during the pause.
        """
        now_ms = self._clock.now_ms()
        if now_ms - self._looked_ms > PAUSE_MS:
            self.table.begin_leases(self._looked_ms, now_ms, lead)
        self._looked_ms = now_ms
        return now_ms

    async def settle(self) -> None:
        """Return once the store has all changes that were made; raises StoreError, and TimeoutError after SETTLE_S.

        What is in the journal only is unknown to the next leader, so nobody may rely on it yet.
        """
        while rows := self._unsettled:
            async with asyncio.timeout(SETTLE_S):
                await self._store.flush_rows(tuple(rows))
            self._unsettled -= rows

    async def change(
        self, decide: Callable[[LockTable, int], LockDecision[Answer]], lead: Callable[[], Lead]
    ) -> Answer:
        """Make a change that is decided on the table at the time of its turn, and return its answer once it is stored.

        `lead` gives the lead at that time, or raises if this manager does not serve any more. Raises what `decide`
        raises, LeadUncertain, StoreError and TimeoutError.
        """
        # Who waits may give up; the change is made, or not, as a whole.
        return await asyncio.shield(start_task(self._change(decide, lead)))

    async def _change(
        self, decide: Callable[[LockTable, int], LockDecision[Answer]], lead: Callable[[], Lead]
    ) -> Answer:
        async with self._turn:
            if self.problem:
                raise LocksUnavailable(self.problem)
            lead()  # another manager may lead since it began to wait
            await self.settle()
            table = self.table
            decision = decide(table, self.now_ms(lead()))
            if decision.changes != NO_CHANGES:
                await self._make(table, decision.changes)
            return decision.answer

    async def _make(self, table: LockTable, changes: LockChanges) -> None:
        rows = changes_of(changes, table.last_token, self._clock.unix_ms())
        # Rows of locks are flushed before others, and the next leader that knows a queue to be given up has to know how
        # far its holder came.
        held = {each.key.of for each in changes.locks if each.before is not None}
        try:
            await self._store.record(rows, before=held)
        except (InJournalOnly, asyncio.CancelledError):
            # The journal has it, and the store gets it later, unless another manager leads by then.
            self._unsettled |= {each.key.of for each in rows}
            table.apply(changes, self._clock.now_ms())
            raise
        table.apply(changes, self._clock.now_ms())

    def has_expired(self, lead: Lead) -> bool:
        """Return whether the lease of a session is over; raises LeadUncertain."""
        now_ms = self.now_ms(lead)
        return any(self.table.remaining_ms(each, now_ms) < 0 for each in self.table.sessions)


def decide_ended(table: LockTable, now_ms: int) -> LockDecision[int]:
    """End sessions whose leases are over, and answer how many."""
    changes = decide_expiry(table, now_ms)
    return LockDecision(changes, len(changes.sessions))
