"""Locks at masters in the names of their holders: taken at a new master (41), given up for clients that lost them (42).

A promoted master has an empty table of locks: without a replay a client that gets a queue in a rebalance consumes it
beside its former holder for up to 30 s. The rules, from docs/protocol/queue-locks.md 1 and 5:

- A lock is taken only for a client that has confirmed within FRESH_MS that it holds the queue: a stale lock keeps the
  next owner out for 60 s. Only for groups all of whose clients are orderly: otherwise it makes dead letters of retries.
- A lock is taken once and never renewed: it must not outlive its client.
- A lock is given up only right after an answer (CHECKED_MS) that the client lacks the queue (307), or is gone (203):
  a master gives up a fresh lock as well, and lets another client in.
- Before each request is written, the broker is still the master, and this manager still leads (`may_write`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from offsets.order.events import LATE_MS, BrokerLocksReleased, BrokerLocksReplayed, ReplayOutcome, TopicLocksReplayed
from offsets.order.holders import BROKER_LOCK_MS, FRESH_MS, ConsumerKind, GroupQueue, Holders, Member, set_of
from offsets.order.polling import HolderPolling
from offsets.sets.followed import SetMaster
from offsets.values import SetName
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.locks import lock_queues, unlock_queues
from remoting.admin.message_queues import MessageQueue
from remoting.background_tasks import all_results
from remoting.client import Requester
from remoting.clock import Clock
from remoting.protocol.errors import BodyError, InvokeError, NotSent, Refused
from serving.telemetry.events import Event

#: Later than this after the promotion nothing is locked: clients have locked their queues themselves by then.
REPLAY_MS_MAX: Final = 3000
#: The pause before a master that did not answer gets the same request again.
AGAIN_MS: Final = 50
#: Clients whose locks are taken at the same time, and queues of one request.
CLIENTS_AT_ONCE: Final = 32
BATCH_QUEUES: Final = 512
#: How old an answer may be on which a lock is given up.
CHECKED_MS: Final = 500
#: Locks that were taken for clients and are remembered until they end.
REPLAYED_MAX: Final = 500_000
#: All sets of a data centre may get new masters at once.
REPLAY_LIMITS: Final = AdminLimits(timeout_ms=1000, requests_max=256, requests_per_peer_max=CLIENTS_AT_ONCE)


class Promotion(NamedTuple):
    """A broker set has a new master; when this was noticed here, monotonic ms."""

    master: SetMaster
    promoted_ms: int


class ReplayedQueue(NamedTuple):
    """What became of one lock, so long after the promotion."""

    queue: GroupQueue
    client_id: str
    outcome: ReplayOutcome
    elapsed_ms: int


class Unlock(NamedTuple):
    """Locks of one client that are to be given up at the master of one broker set."""

    set_name: SetName
    member: Member
    queues: frozenset[MessageQueue]


def queues_to_replay(holders: Holders, member: Member, set_name: SetName) -> frozenset[MessageQueue]:
    """Return what a client holds at a broker set by its last answer, as far as the new master may lock it.

    A queue that two clients hold by their last answers is left to them: the first to lock it gets it.
    """
    if holders.kind_of(member.of) is not ConsumerKind.ORDERLY or not holders.may_lock(member.of):
        return frozenset()
    return frozenset(
        queue
        for queue, holding in holders.holdings_of(member).items()
        if set_of(member, queue) == set_name and not holding.is_dropped and not _has_another_owner(holders, member, queue)
    )


def _has_another_owner(holders: Holders, member: Member, queue: MessageQueue) -> bool:
    held = holders.holders_of(GroupQueue(member.of, queue))
    return any(name != member.client_id and not holding.is_dropped for name, holding in held.items())


class ReplayedLocks:
    """The locks that were taken for clients, until brokers end them after 60 s."""

    def __init__(self) -> None:
        #: When each was taken, monotonic ms.
        self._taken_ms: dict[Member, dict[MessageQueue, int]] = {}

    def add(self, member: Member, queues: Collection[MessageQueue], now_ms: int) -> None:
        """Remember locks that were taken, or may have been; those beyond REPLAYED_MAX are not remembered."""
        if queues and len(self) + len(queues) <= REPLAYED_MAX:
            self._taken_ms.setdefault(member, {}).update(dict.fromkeys(queues, now_ms))

    def forget(self, member: Member, queues: Collection[MessageQueue]) -> None:
        """Forget locks that were not granted, or that are given up."""
        left = {queue: ms for queue, ms in self.of(member).items() if queue not in queues}
        self._taken_ms.pop(member, None)
        if left:
            self._taken_ms[member] = left

    def forget_ended(self, now_ms: int) -> None:
        """Forget locks that brokers have ended, unless their clients have renewed them: then they are theirs."""
        for member, taken in list(self._taken_ms.items()):
            self.forget(member, [queue for queue, taken_ms in taken.items() if now_ms - taken_ms > BROKER_LOCK_MS])

    def of(self, member: Member) -> Mapping[MessageQueue, int]:
        """Return by queue when the locks of a client were taken."""
        return self._taken_ms.get(member, {})

    def members(self) -> Iterator[Member]:
        """Yield the clients with such locks."""
        yield from self._taken_ms

    def __len__(self) -> int:
        """Return how many are remembered."""
        return sum(map(len, self._taken_ms.values()))


def lost_queues(holders: Holders, replayed: ReplayedLocks, member: Member, since_ms: int) -> frozenset[MessageQueue]:
    """Return the queues with replayed locks that a client lacks by an answer requested at `since_ms` or later.

    A queue that a client has dropped and still shows is left to it: it sends its last offset before it unlocks. A
    client of an old release may still consume a queue that it does not show: none of its locks is given up.
    """
    at = holders.confirmed(member)
    if at is None or at.sent_ms < since_ms or not holders.ends_calls_first(member):
        return frozenset()
    held = holders.holdings_of(member)
    return frozenset(q for q, taken_ms in replayed.of(member).items() if q not in held and at.sent_ms >= taken_ms)


def by_set(member: Member, queues: Collection[MessageQueue]) -> Iterator[Unlock]:
    """Yield the queues of a client by their broker sets."""
    for set_name in sorted({set_of(member, queue) for queue in queues}):
        yield Unlock(set_name, member, frozenset(queue for queue in queues if set_of(member, queue) == set_name))


class LockReplay:
    """Takes and gives up locks at masters."""

    def __init__(
        self,
        polling: HolderPolling,
        client: Requester,
        clock: Clock,
        emit: Callable[[Event], None],
        may_write: Callable[[SetMaster], bool],
    ) -> None:
        """`may_write` says whether locks may change at a broker now: it is the master, and this manager leads."""
        self._polling = polling
        self._holders = polling.holders
        self._admin = AdminClient(client, REPLAY_LIMITS)
        self._clock = clock
        self._emit = emit
        self._may_write = may_write
        self.replayed: Final = ReplayedLocks()
        #: The latest promotion of each set; of those too long ago it does not matter.
        self._latest: dict[SetName, Promotion] = {}

    # Taking locks

    async def prepare(self, set_name: SetName, replicas: Collection[str]) -> None:
        """Confirm the holders of a set whose master has just failed, so that the promotion finds them confirmed.

        Clients are connected to its other brokers too, which are at `replicas`.
        """
        await self._polling.confirm_all(self._holders.members_at(set_name), *replicas)

    async def replay(self, promotion: Promotion) -> list[ReplayedQueue]:
        """Take the locks of all holders at a new master, and return what became of each.

        Clients that were not confirmed within FRESH_MS are asked before. It ends REPLAY_MS_MAX after the promotion, or
        with the set's next one, apart from requests under way.
        """
        master = promotion.master
        latest = self._latest.get(master.set_name)
        if latest is None or latest.promoted_ms <= promotion.promoted_ms:
            self._latest[master.set_name] = promotion
            self._polling.promoted(master.set_name, master.address)
        turns = asyncio.Semaphore(CLIENTS_AT_ONCE)

        async def replayed_of(member: Member) -> list[ReplayedQueue]:
            async with turns:
                return await self._replay_of(member, promotion)

        now_ms = self._clock.now_ms()
        members = self._holders.members_at(master.set_name)
        members.sort(key=lambda member: not self._holders.is_fresh(member, now_ms))
        found = [row for rows in await all_results(map(replayed_of, members)) for row in rows]
        for event in _events(promotion, found):
            self._emit(event)
        return found

    async def _replay_of(self, member: Member, promotion: Promotion) -> list[ReplayedQueue]:
        holders, master = self._holders, promotion.master
        queues = queues_to_replay(holders, member, master.set_name)
        is_fresh = holders.is_fresh(member, self._clock.now_ms())
        if queues and not is_fresh and not self._is_too_late(promotion):
            await self._polling.confirm(member, master.address)
            queues = queues_to_replay(holders, member, master.set_name)
        ordered, found = sorted(queues), []
        for at in range(0, len(ordered), BATCH_QUEUES):
            outcomes = await self._lock(member, promotion, ordered[at : at + BATCH_QUEUES])
            elapsed_ms = self._clock.now_ms() - promotion.promoted_ms
            found += [
                ReplayedQueue(GroupQueue(member.of, queue), member.client_id, outcome, elapsed_ms)
                for queue, outcome in outcomes.items()
            ]
        return found

    async def _lock(
        self, member: Member, promotion: Promotion, batch: Collection[MessageQueue]
    ) -> dict[MessageQueue, ReplayOutcome]:
        """Lock a batch; again while the new master does not answer, and the holder is confirmed and holds the queues."""
        address, outcome = promotion.master.address, ReplayOutcome.UNCONFIRMED

        def held() -> frozenset[MessageQueue]:
            is_fresh = self._holders.is_fresh(member, self._clock.now_ms())
            if not is_fresh or self._is_too_late(promotion):
                return frozenset()
            return queues_to_replay(self._holders, member, promotion.master.set_name).intersection(batch)

        while queues := held():
            sent_ms = self._clock.now_ms()

            def before_send(queues: frozenset[MessageQueue] = queues) -> None:
                # While it waited for its turn, the answer may have aged, or the set got another master.
                if not queues <= held():
                    raise NotSent(address, f"{member.client_id} is not confirmed any more, or it is too late")

            try:
                request = lock_queues(member.client_id, member.of.group, queues)
                locked = await self._admin.call(address, request, before_send)
            except NotSent:
                continue
            except (InvokeError, Refused, BodyError):
                self.replayed.add(member, queues, sent_ms)
                outcome = ReplayOutcome.UNANSWERED
                await asyncio.sleep(AGAIN_MS / 1000)
                continue
            self.replayed.add(member, queues & locked, sent_ms)
            self.replayed.forget(member, queues - locked)
            granted = dict.fromkeys(queues & locked, ReplayOutcome.GRANTED)
            return {**dict.fromkeys(queues, ReplayOutcome.HELD_BY_ANOTHER), **granted}
        return dict.fromkeys(batch, outcome)

    def _is_too_late(self, promotion: Promotion) -> bool:
        if self._clock.now_ms() - promotion.promoted_ms > REPLAY_MS_MAX:
            return True
        return self._latest.get(promotion.master.set_name) != promotion or not self._may_write(promotion.master)

    # Giving up locks

    async def release(self, masters: Mapping[SetName, SetMaster]) -> None:
        """Give up what is to be given up; what a master does not confirm is tried again by the next call.

        Lost clients are forgotten once nothing of theirs is left, those that no broker lists in any case.
        """
        now_ms, holders = self._clock.now_ms(), self._holders
        self.replayed.forget_ended(now_ms)
        back = [
            unlock
            for member in self.replayed.members()
            for unlock in by_set(member, lost_queues(holders, self.replayed, member, now_ms - FRESH_MS))
        ]
        lost = set(holders.lost(now_ms))
        left: dict[tuple[SetName, str], list[Unlock]] = {}
        for member in lost:
            for unlock in by_set(member, {*holders.holdings_of(member), *self.replayed.of(member)}):
                left.setdefault((unlock.set_name, member.of.group), []).append(unlock)
        await all_results(
            self._give_back(unlock, masters[unlock.set_name]) for unlock in back if unlock.set_name in masters
        )
        kept = await all_results(
            self._give_up(unlocks, masters.get(set_name)) for (set_name, _), unlocks in left.items()
        )
        now_ms = self._clock.now_ms()
        self._polling.forget([member for member in lost.difference(*kept) if holders.is_lost(member, now_ms)])
        self._polling.forget(holders.unlisted(now_ms))

    async def _give_back(self, unlock: Unlock, master: SetMaster) -> None:
        """Give up the queues that the client lacks by one more answer."""
        member, checked_ms = unlock.member, self._clock.now_ms()

        def lost() -> frozenset[MessageQueue]:
            return lost_queues(self._holders, self.replayed, member, checked_ms) & unlock.queues

        if await self._polling.confirm(member, master.address) and (queues := lost()):
            await self._unlock(unlock._replace(queues=queues), master, checked_ms, lambda: queues <= lost())

    async def _give_up(self, unlocks: Collection[Unlock], master: SetMaster | None) -> set[Member]:
        """Give up locks of lost clients of one group at one master, and return the clients with locks left."""
        members = {unlock.member for unlock in unlocks}
        if master is None:
            return members
        checked_ms = self._clock.now_ms()
        try:
            # A client with locks there would be connected to it.
            await self._polling.list_group(master.address, next(iter(members)).of)
        except (InvokeError, Refused, BodyError):
            return members

        def is_lost(member: Member) -> bool:
            return self._holders.is_lost(member, self._clock.now_ms())

        given_up = await all_results(
            self._unlock(unlock, master, checked_ms, partial(is_lost, unlock.member)) for unlock in unlocks
        )
        return {unlock.member for unlock, is_done in zip(unlocks, given_up, strict=True) if not is_done}

    async def _unlock(
        self, unlock: Unlock, master: SetMaster, checked_ms: int, is_wanted: Callable[[], bool]
    ) -> bool:
        """Give up locks, and return whether the master has confirmed it."""
        of, client_id = unlock.member

        def before_send() -> None:
            if not self._may_write(master):
                raise NotSent(master.address, "it is not known to be the master any more, or another manager leads")
            if self._clock.now_ms() - checked_ms > CHECKED_MS or not is_wanted():
                raise NotSent(master.address, f"{client_id} was not checked within {CHECKED_MS} ms, or has its queues")

        try:
            request = unlock_queues(client_id, of.group, unlock.queues)
            await self._polling.brokers.call(master.address, request, before_send)
        except (InvokeError, Refused, BodyError):
            return False
        self.replayed.forget(unlock.member, unlock.queues)
        (cluster, group), broker = of, unlock.set_name.broker_name
        queues = len(unlock.queues)
        self._emit(BrokerLocksReleased(cluster=cluster, group=group, client=client_id, broker=broker, queues=queues))
        return True


def _events(promotion: Promotion, found: Collection[ReplayedQueue]) -> Iterator[Event]:
    """Yield what is told of a replay: of each group and topic, and in all."""
    if not found:
        return
    master = promotion.master
    (cluster, broker), addr = master.set_name, master.address
    by_topic: dict[tuple[str, str], list[tuple[ReplayOutcome, int]]] = {}
    for row in found:
        by_topic.setdefault((row.queue.of.group, row.queue.queue.topic), []).append((row.outcome, row.elapsed_ms))
    for (group, topic), outcomes in sorted(by_topic.items()):
        yield TopicLocksReplayed(
            cluster=cluster,
            broker=broker,
            addr=addr,
            master_epoch=master.master_epoch,
            group=group,
            topic=topic,
            outcomes=tuple(outcomes),
        )
    outcomes = [row.outcome for row in found]
    yield BrokerLocksReplayed(
        cluster=cluster,
        broker=broker,
        addr=addr,
        granted=outcomes.count(ReplayOutcome.GRANTED),
        held_by_another=outcomes.count(ReplayOutcome.HELD_BY_ANOTHER),
        unanswered=outcomes.count(ReplayOutcome.UNANSWERED),
        unconfirmed=outcomes.count(ReplayOutcome.UNCONFIRMED),
        late=sum(1 for row in found if row.outcome is ReplayOutcome.GRANTED and row.elapsed_ms > LATE_MS),
        duration_ms=max(row.elapsed_ms for row in found),
    )
