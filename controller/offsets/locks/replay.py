"""Takes the locks of their holders at a new master (41).

The edge: what is locked, and when, is decided by the rules. A lock is taken once and never renewed: it must
not outlive its client. Source: docs/protocol/queue-locks.md 5.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from controller.offsets.locks.holder_poller import HolderMirror, HolderPoller
from controller.offsets.locks.holders import GroupMember, HeldGroupQueue
from controller.offsets.locks.replay_rules import (
    FRESH_MS,
    MemberLocks,
    Readiness,
    ReplayedLocks,
    ReplayOutcome,
    batches,
    locks_to_replay,
    outcomes,
)
from remoting.admin.client import AdminClient
from remoting.admin.locks import lock_queues
from remoting.admin.message_queues import MessageQueue
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, NotSent, Refused

#: All locks are to be taken by then after the promotion.
REPLAY_MS: Final = 500
#: Later than this after the promotion nothing is sent: clients have locked their queues themselves, or others have.
REPLAY_MS_MAX: Final = 3000
#: Clients whose locks are taken at the same time.
CLIENTS_AT_ONCE: Final = 32
#: The pause before a master that did not answer gets the same request again.
AGAIN_MS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A broker set has a new master."""

    broker_name: str
    #: Of the new master, "host:port".
    address: str
    #: Of the master before it; nobody is queried through it. None if there was none.
    former: str | None
    #: When it was elected, monotonic ms.
    promoted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedQueue:
    """What became of one lock."""

    queue: HeldGroupQueue
    client_id: str
    outcome: ReplayOutcome
    #: After the promotion.
    elapsed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """What became of the locks of all clients at one new master."""

    promotion: Promotion
    results: tuple[ReplayedQueue, ...]

    def count(self, outcome: ReplayOutcome) -> int:
        """Return how many locks had this outcome."""
        return sum(1 for each in self.results if each.outcome is outcome)

    @property
    def late(self) -> int:
        """How many locks were taken later than REPLAY_MS after the promotion."""
        return sum(1 for each in self.results if each.outcome is ReplayOutcome.GRANTED and each.elapsed_ms > REPLAY_MS)

    @property
    def elapsed_ms(self) -> int:
        """How long after the promotion the last outcome was there."""
        return max((each.elapsed_ms for each in self.results), default=0)


class PresentMasters(Protocol):
    """Which broker is the master of a set at this moment."""

    def is_master(self, broker_name: str, address: str) -> bool:
        """Return whether locks may change at a broker: it is known to be the master, and this manager serves."""


class LockReplay:
    """Takes the locks of their holders at new masters.

    `admin` sends to new masters, with a timeout far below REPLAY_MS_MAX and CLIENTS_AT_ONCE turns for each.
    """

    def __init__(
        self,
        mirror: HolderMirror,
        poller: HolderPoller,
        admin: AdminClient,
        replayed: ReplayedLocks,
        clock: Clock,
        masters: PresentMasters,
    ) -> None:
        self._mirror = mirror
        self._poller = poller
        self._admin = admin
        self._replayed = replayed
        self._masters = masters
        self._clock = clock
        #: By broker name, the promotions of the last REPLAY_MS_MAX: of each set the latest.
        self._latest: dict[str, Promotion] = {}

    async def prepare(self, broker_name: str, failed: str, replicas: Collection[str]) -> None:
        """Query the holders of a set whose master has just failed, so that the promotion finds them confirmed.

        `replicas` are the addresses of its other brokers: clients are connected to them too.
        """
        self._mirror.drop_broker(failed)
        turns = asyncio.Semaphore(CLIENTS_AT_ONCE)

        async def confirm(member: GroupMember) -> None:
            async with turns:
                await self._poller.confirm(member, {*self._mirror.members.brokers_of(member), *replicas})

        await all_results(confirm(member) for member in self._mirror.table.members_at(broker_name))

    async def replay(self, promotion: Promotion) -> ReplayReport:
        """Take the locks of all holders at a new master, those of confirmed clients first, and report each.

        Clients that were not confirmed within FRESH_MS are queried before. It ends REPLAY_MS_MAX after the promotion,
        or with the set's next one, but for requests under way.
        """
        self._begin(promotion)
        turns = asyncio.Semaphore(CLIENTS_AT_ONCE)

        async def of_member(member: GroupMember) -> list[ReplayedQueue]:
            async with turns:
                return await self._replay_of(member, promotion)

        members = sorted(self._mirror.table.members_at(promotion.broker_name), key=self._unconfirmed_since_ms)
        results = await all_results(of_member(member) for member in members)
        return ReplayReport(promotion=promotion, results=tuple(each for part in results for each in part))

    def _begin(self, promotion: Promotion) -> None:
        """Replay this promotion from now on instead of the set's former one; an earlier one changes nothing."""
        now_ms = self._clock.now_ms()
        # What is older than that is too late in any case.
        self._latest = {name: each for name, each in self._latest.items() if now_ms - each.promoted_ms <= REPLAY_MS_MAX}
        latest = self._latest.get(promotion.broker_name)
        if latest is not None and latest.promoted_ms > promotion.promoted_ms:
            return
        self._latest[promotion.broker_name] = promotion
        self._mirror.promoted(promotion.broker_name, promotion.address, promotion.former)

    def _unconfirmed_since_ms(self, member: GroupMember) -> int:
        confirmed = self._mirror.table.confirmed(member)
        return -confirmed.sent_ms if confirmed is not None else 0

    async def _replay_of(self, member: GroupMember, promotion: Promotion) -> list[ReplayedQueue]:
        locks = self._locks(member, promotion)
        if locks.readiness is Readiness.UNCONFIRMED and not self._is_too_late(promotion):
            await self._poller.confirm(member, {*self._mirror.members.brokers_of(member), promotion.address})
            locks = self._locks(member, promotion)
        found: list[ReplayedQueue] = []
        for batch in batches(locks.queues):
            found += self._results(member, promotion, await self._lock(member, promotion, batch))
        return found

    async def _lock(
        self, member: GroupMember, promotion: Promotion, batch: Collection[MessageQueue]
    ) -> dict[MessageQueue, ReplayOutcome]:
        """Lock a batch; again while the new master does not answer and the holder is confirmed and holds the queues."""

        def confirmed(queues: Collection[MessageQueue]) -> None:
            # It may have waited for its turn until its holder's answer was too old or a later one lacks a queue, or
            # until another master was promoted.
            if self._is_too_late(promotion):
                raise NotSent(promotion.address, "it was promoted too long ago, or is not known to be the master")
            locks = self._locks(member, promotion)
            if locks.readiness is not Readiness.READY or not set(queues) <= set(locks.queues):
                why = f"{member.client_id} was not confirmed within {FRESH_MS} ms, or has lost a queue"
                raise NotSent(promotion.address, why)

        outcome = ReplayOutcome.UNCONFIRMED
        while not self._is_too_late(promotion):
            locks = self._locks(member, promotion)
            held = frozenset(locks.queues)
            queues = tuple(each for each in batch if each in held)
            if locks.readiness is not Readiness.READY or not queues:
                break
            unsent = [each for each in queues if each not in self._replayed.of(member)]
            self._replayed.add(member, queues, self._clock.now_ms())
            try:
                request = lock_queues(member.client_id, member.group, queues)
                locked = await self._admin.call(promotion.address, request, partial(confirmed, queues))
            except NotSent:
                # Given up later, it would be the fresh lock of whoever has locked the queue itself.
                self._replayed.forget(member, unsent)
                continue
            except (InvokeError, Refused, BodyError):
                outcome = ReplayOutcome.UNANSWERED
                await asyncio.sleep(AGAIN_MS / 1000)
                continue
            found = outcomes(queues, locked)
            others = tuple(queue for queue, each in found.items() if each is ReplayOutcome.HELD_BY_ANOTHER)
            self._replayed.forget(member, others)
            return found
        return dict.fromkeys(batch, outcome)

    def _results(
        self, member: GroupMember, promotion: Promotion, found: Mapping[MessageQueue, ReplayOutcome]
    ) -> list[ReplayedQueue]:
        elapsed_ms = self._clock.now_ms() - promotion.promoted_ms
        return [
            ReplayedQueue(
                queue=HeldGroupQueue(member.group, queue),
                client_id=member.client_id,
                outcome=outcome,
                elapsed_ms=elapsed_ms,
            )
            for queue, outcome in found.items()
        ]

    def _locks(self, member: GroupMember, promotion: Promotion) -> MemberLocks:
        mirror = self._mirror
        return locks_to_replay(mirror.table, mirror.members, member, promotion.broker_name, self._clock.now_ms())

    def _is_too_late(self, promotion: Promotion) -> bool:
        """Return whether nothing is sent any more: too long after the promotion, or to a master that is none now."""
        is_latest = self._latest.get(promotion.broker_name) == promotion
        if not is_latest or self._clock.now_ms() - promotion.promoted_ms > REPLAY_MS_MAX:
            return True
        return not self._masters.is_master(promotion.broker_name, promotion.address)
