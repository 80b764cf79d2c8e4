"""What clients and operators request of locks: final offsets are committed first, then the locks change."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from controller.offsets.commits.fence import Fence
from controller.offsets.commits.refusals import OffsetsRefused
from controller.offsets.commits.results import OffsetResult
from controller.offsets.locks.sessions.acquire import AcquireRequest, AcquireResult, decide_acquire
from controller.offsets.locks.sessions.decision import LockDecision
from controller.offsets.locks.sessions.handover import (
    FinalOffset,
    ReleaseResult,
    TransferRequest,
    decide_release,
    decide_transfer,
    final_commits,
)
from controller.offsets.locks.sessions.lock_table import LockTable
from controller.offsets.locks.sessions.lock_views import LockPage, read_locks
from controller.offsets.locks.sessions.operator_rules import (
    decide_fences_end,
    decide_force_release,
    declare_orderly,
    fences_of,
    withdraw_orderly,
)
from controller.offsets.locks.sessions.refusals import LocksRefused
from controller.offsets.locks.sessions.session_rules import SessionHeld, decide_close, decide_open, held
from controller.offsets.locks.sessions.values import Lead, LockChanges, LockGroup, LockSession
from controller.offsets.service.lock_keeper import LockKeeper, decide_ended
from controller.offsets.service.manager_role import ManagerNotLeading, StillLoading
from controller.offsets.service.offset_service import OffsetService
from controller.offsets.values import QueueKey
from remoting.clock import Clock
from store.store import Deposed, StoreError

Answer = TypeVar("Answer")


class LockObserver(Protocol):
    """Learns what becomes of locks, to log and count it."""

    def acquired(self, results: Sequence[AcquireResult]) -> None:
        """Report what became of queues that a session wanted."""

    def released(self, results: Sequence[ReleaseResult]) -> None:
        """Report what became of queues that a session gave up."""

    def lock_forced(self, writer: str, key: QueueKey, token: int) -> None:
        """Report that an operator has taken a queue from its holder; commits below the token are fenced."""

    def orderly_changed(self, writer: str, group: str, *, is_orderly: bool) -> None:
        """Report that a group was declared orderly, or is not any more."""

    def sessions_expired(self, sessions: int) -> None:
        """Report that so many clients did not renew their sessions; their queues are free."""


class LockService:
    """The locks of all orderly groups."""

    def __init__(self, offsets: OffsetService, locks: LockKeeper, clock: Clock, observer: LockObserver) -> None:
        self._offsets = offsets
        self._role = offsets.role
        self._locks = locks
        self._clock = clock
        self._observer = observer

    @property
    def table(self) -> LockTable:
        """The locks."""
        return self._locks.table

    # Clients

    async def open(self, session: LockSession) -> SessionHeld:
        """Open a session; raises SessionRefused and TooManySessions."""
        return await self._change(lambda table, now_ms: decide_open(table, session, now_ms))

    async def renew(self, session_id: str) -> SessionHeld:
        """Begin the lease of a session again, and return what it holds; raises SessionEnded."""
        self._role.check_serves()
        await self._locks.settle()
        self._role.check_serves()
        table, lead = self._locks.table, self._role.lead
        return held(table, table.renew(session_id, self._locks.now_ms(lead), lead))

    def group_of(self, session_id: str) -> LockGroup:
        """Return the group of a session that lasts; raises SessionEnded."""
        self._role.check_serves()
        return self._locks.table.living(session_id, self._locks.now_ms(self._role.lead)).group

    async def acquire(self, session_id: str, keys: Sequence[QueueKey], operation: str) -> tuple[AcquireResult, ...]:
        """Grant the queues that are free; raises SessionEnded and TooManyQueues."""

        def decide(table: LockTable, now_ms: int) -> LockDecision[tuple[AcquireResult, ...]]:
            request = AcquireRequest(
                session_id=session_id,
                keys=keys,
                lead=self._role.lead,
                operation=operation,
                now_ms=now_ms,
                unix_ms=self._clock.unix_ms(),
            )
            return decide_acquire(table, request)

        results = await self._change(decide)
        self._observer.acquired(results)
        return results

    async def release(
        self, session_id: str, keys: Sequence[QueueKey], offsets: Mapping[QueueKey, FinalOffset]
    ) -> tuple[ReleaseResult, ...]:
        """Commit the final offsets, then give the queues up; raises TooManyQueues."""
        committed = await self._commit(session_id, offsets)
        results = await self._change(lambda table, _: decide_release(table, session_id, keys, committed))
        self._observer.released(results)
        return results

    async def close(self, session_id: str) -> int:
        """End a session, and return how many queues are free since; 0 if it has ended already."""

        def decide(table: LockTable, _: int) -> LockDecision[int]:
            changes = decide_close(table, session_id)
            return LockDecision(changes, len(changes.locks))

        return await self._change(decide)

    async def transfer(
        self, session_id: str, key: QueueKey, to_client: str, operation: str, final: FinalOffset | None
    ) -> int:
        """Commit the final offset, give a queue to another client, and return its new token; raises TransferRefused."""
        committed = await self._commit(session_id, {} if final is None else {key: final})

        def decide(table: LockTable, now_ms: int) -> LockDecision[int]:
            request = TransferRequest(
                session_id=session_id,
                key=key,
                to_client=to_client,
                operation=operation,
                now_ms=now_ms,
                unix_ms=self._clock.unix_ms(),
            )
            return decide_transfer(table, request, committed)

        return await self._change(decide)

    def page(self, group: LockGroup, after: QueueKey | None, locks_max: int) -> LockPage:
        """Return some locks of a group."""
        self._role.check_serves()
        return read_locks(self._locks.table, group, self._locks.now_ms(self._role.lead), after, locks_max)

    # Operators

    async def force_release(self, writer: str, key: QueueKey) -> int:
        """Take a queue from its holder, and return the token from which commits are accepted; raises ForceRefused."""
        token = await self._change(lambda table, _: decide_force_release(table, key, self._clock.unix_ms()))
        self._observer.lock_forced(writer, key, token)
        # The queue is nobody's, and its holder fenced, whatever becomes of this: it is repeated.
        with suppress(StoreError, OffsetsRefused, LocksRefused, ManagerNotLeading, StillLoading, TimeoutError):
            await self._end((Fence(key, token),))
        return token

    async def declare_orderly(self, writer: str, group: LockGroup) -> bool:
        """Let a group have locks, and return whether that is new; raises GroupRefused."""
        return await self._set_orderly(writer, group, lambda table, _: declare_orderly(table, group), is_orderly=True)

    async def withdraw_orderly(self, writer: str, group: LockGroup) -> bool:
        """Let a group have no locks, and return whether it had; raises GroupRefused while one is held."""
        return await self._set_orderly(
            writer, group, lambda table, now_ms: withdraw_orderly(table, group, now_ms), is_orderly=False
        )

    # Time

    async def end_fences(self) -> None:
        """Store the tokens of queues that were taken from their holders with their offsets, then free the queues."""
        self._role.check_serves()
        for fences in fences_of(self._locks.table):
            await self._end(fences)

    async def _end(self, fences: Sequence[Fence]) -> None:
        stored = await self._offsets.fence(fences)
        unix_ms = self._clock.unix_ms()
        await self._change(
            lambda table, _: LockDecision(decide_fences_end(table, fences, stored, unix_ms), len(fences))
        )

    async def expire(self) -> None:
        """End the sessions that were not renewed."""
        if self._role.is_serving and self._locks.has_expired(self._role.lead):
            self._observer.sessions_expired(await self._change(decide_ended))

    async def _set_orderly(
        self, writer: str, group: LockGroup, decide: Callable[[LockTable, int], LockChanges], *, is_orderly: bool
    ) -> bool:
        def decided(table: LockTable, now_ms: int) -> LockDecision[bool]:
            changes = decide(table, now_ms)
            return LockDecision(changes, bool(changes.groups))

        is_new = await self._change(decided)
        if is_new:
            self._observer.orderly_changed(writer, group.group, is_orderly=is_orderly)
        return is_new

    async def _commit(
        self, session_id: str, offsets: Mapping[QueueKey, FinalOffset]
    ) -> Mapping[QueueKey, OffsetResult]:
        """Return what became of the final offsets of queues that the session holds."""
        self._role.check_serves()
        entries = final_commits(self._locks.table, session_id, offsets)
        if not entries:
            return {}
        session = self._locks.table.sessions.get(session_id)
        stored = await self._offsets.commit(entries, session.client_id if session is not None else session_id)
        return {entry.key: result for entry, result in zip(entries, stored.results, strict=True)}

    async def _change(self, decide: Callable[[LockTable, int], LockDecision[Answer]]) -> Answer:
        self._role.check_serves()
        term = self._role.term

        def lead() -> Lead:
            self._role.check_serves()
            return self._role.lead

        answer = await self._locks.change(decide, lead)
        if not self._role.leads_in(term):
            raise Deposed("this offset manager ceased to lead meanwhile: repeat the request")
        return answer
