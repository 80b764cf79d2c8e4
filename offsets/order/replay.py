"""Locks at masters in the names of their holders: taken at a new master (41), given up for clients that lost them (42).

A promoted master has an empty table of locks: without a replay a client that gets a queue in a rebalance consumes it
beside its former holder for up to 30 s. The rules, from docs/protocol/queue-locks.md 1 and 5:

- A lock is taken only for a client that has confirmed within FRESH_MS that it holds the queue: a stale lock keeps the
  next owner out for 60 s. Clients are asked as soon as their master fails (`service.py`).
- Only for groups all of whose clients are orderly: otherwise a lock makes dead letters of retries.
- A lock is taken once and never renewed: it must not outlive its client.
- A lock is given up only right after an answer (CHECKED_MS) that the client lacks the queue (307): a master gives up
  a fresh lock as well, and lets another client in. That of a client which died ends by itself within 60 s.
- Before each request is written, the broker is still the master, and this manager still leads (`may_write`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from offsets.order.events import BrokerLocksReleased, BrokerLocksReplayed, ReplayOutcome
from offsets.order.holders import BROKER_LOCK_MS, FRESH_MS, Client, ConsumerKind, GroupQueue, Holders, Member
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


def queues_to_replay(holders: Holders, member: Member, set_name: SetName) -> frozenset[MessageQueue]:
    """Return what a client holds at a broker set by its last answer, as far as the new master may lock it.

    A queue that two clients hold by their last answers is left to them: the first to lock it gets it.
    """
    if holders.kind_of(member.of) is not ConsumerKind.ORDERLY:
        return frozenset()
    return frozenset(
        queue
        for queue in holders.client(member).holdings
        if member.set_of(queue) == set_name and _owners(holders, GroupQueue(member.of, queue)) == [member.client_id]
    )


def _owners(holders: Holders, queue: GroupQueue) -> list[str]:
    return [client_id for client_id, holding in holders.holders_of(queue).items() if not holding.is_dropped]


def lost_queues(client: Client, since_ms: int) -> frozenset[MessageQueue]:
    """Return the queues with replayed locks that a client lacks by an answer requested at `since_ms` or later.

    A queue that a client has dropped and still shows is left to it: it sends its last offset before it unlocks. A
    client of an old release may still consume a queue that it does not show: none of its locks is given up.
    """
    if client.confirmed is None or client.confirmed.sent_ms < since_ms or not client.ends_calls_first:
        return frozenset()
    answered_ms = client.confirmed.sent_ms
    taken = client.replayed_ms.items()
    return frozenset(queue for queue, ms in taken if queue not in client.holdings and ms <= answered_ms)


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
        self._polling, self._holders = polling, polling.holders
        self._admin = AdminClient(client, REPLAY_LIMITS)
        self._clock, self._emit, self._may_write = clock, emit, may_write

    # Taking locks

    async def replay(self, promotion: Promotion) -> list[ReplayedQueue]:
        """Take the locks of all holders at a new master, and return what became of each.

        Clients that were not confirmed within FRESH_MS are asked before. It ends REPLAY_MS_MAX after the promotion, or
        with the set's next one, apart from requests under way.
        """
        now_ms = self._clock.now_ms()
        turns = asyncio.Semaphore(CLIENTS_AT_ONCE)

        async def replayed_of(member: Member) -> list[ReplayedQueue]:
            async with turns:
                return await self._replay_of(member, promotion)

        members = self._holders.members_at(promotion.master.set_name)
        members.sort(key=lambda member: not self._holders.client(member).is_fresh(now_ms))
        found = [row for rows in await all_results(map(replayed_of, members)) for row in rows]
        for event in _events(promotion, found):
            self._emit(event)
        return found

    async def _replay_of(self, member: Member, promotion: Promotion) -> list[ReplayedQueue]:
        queues = self._wanted(member, promotion)
        is_fresh = self._holders.client(member).is_fresh(self._clock.now_ms())
        if queues and not is_fresh and not self._is_too_late(promotion):
            await self._polling.confirm(member, promotion.master.address)
            queues = self._wanted(member, promotion)
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
        """Lock a batch; again while the new master does not answer, and the client confirms and holds the queues."""
        address, client, outcome = promotion.master.address, self._holders.client(member), ReplayOutcome.UNCONFIRMED

        def held() -> frozenset[MessageQueue]:
            if self._is_too_late(promotion) or not client.is_fresh(self._clock.now_ms()):
                return frozenset()
            return self._wanted(member, promotion).intersection(batch)

        def before_send() -> None:
            # While it waited for its turn, the answer may have aged, or the set got another master.
            if not queues <= held():
                raise NotSent(address, f"{member.client_id} is not confirmed any more, or it is too late")

        while queues := held():
            sent_ms = self._clock.now_ms()
            try:
                request = lock_queues(member.client_id, member.of.group, queues)
                locked = await self._admin.call(address, request, before_send)
            except NotSent:
                continue
            except (InvokeError, Refused, BodyError):
                client.replayed_ms |= dict.fromkeys(queues, sent_ms)
                outcome = ReplayOutcome.UNANSWERED
                await asyncio.sleep(AGAIN_MS / 1000)
                continue
            client.replayed_ms |= dict.fromkeys(queues & locked, sent_ms)
            granted = dict.fromkeys(queues & locked, ReplayOutcome.GRANTED)
            return {**dict.fromkeys(queues, ReplayOutcome.HELD_BY_ANOTHER), **granted}
        return dict.fromkeys(batch, outcome)

    def _wanted(self, member: Member, promotion: Promotion) -> frozenset[MessageQueue]:
        return queues_to_replay(self._holders, member, promotion.master.set_name)

    def _is_too_late(self, promotion: Promotion) -> bool:
        elapsed_ms = self._clock.now_ms() - promotion.promoted_ms
        return elapsed_ms > REPLAY_MS_MAX or not self._may_write(promotion.master)

    # Giving up locks

    async def release(self, masters: Mapping[SetName, SetMaster]) -> None:
        """Give up what clients have lost; what a master does not confirm is tried again by the next call."""
        holders, now_ms = self._holders, self._clock.now_ms()
        given = []
        for member in holders.members():
            client = holders.client(member)
            taken = client.replayed_ms.items()
            # Brokers have ended the older ones, unless the client has renewed them: then they are its own.
            client.replayed_ms = {queue: ms for queue, ms in taken if now_ms - ms <= BROKER_LOCK_MS}
            lost = lost_queues(client, now_ms - FRESH_MS)
            for set_name in {member.set_of(queue) for queue in lost} & masters.keys():
                queues = frozenset(queue for queue in lost if member.set_of(queue) == set_name)
                given.append(self._give_up(member, queues, masters[set_name]))
        await all_results(given)

    async def _give_up(self, member: Member, queues: frozenset[MessageQueue], master: SetMaster) -> None:
        """Give up locks that the client lacks by one more answer."""
        checked_ms, client = self._clock.now_ms(), self._holders.client(member)
        if not await self._polling.confirm(member, master.address):
            return
        queues &= lost_queues(client, checked_ms)

        def before_send() -> None:
            if not self._may_write(master):
                raise NotSent(master.address, "it is not known to be the master any more, or another manager leads")
            if self._clock.now_ms() - checked_ms > CHECKED_MS or not queues <= lost_queues(client, checked_ms):
                raise NotSent(
                    master.address, f"{member.client_id} was not asked within {CHECKED_MS} ms, or has its queues"
                )

        if not queues:
            return
        (cluster, group), client_id = member
        try:
            request = unlock_queues(client_id, group, queues)
            await self._polling.brokers.call(master.address, request, before_send)
        except (InvokeError, Refused, BodyError):
            return
        for queue in queues:
            client.replayed_ms.pop(queue, None)
        broker = master.set_name.broker_name
        self._emit(
            BrokerLocksReleased(cluster=cluster, group=group, client=client_id, broker=broker, queues=len(queues))
        )


def _events(promotion: Promotion, found: Collection[ReplayedQueue]) -> Iterator[Event]:
    master, by_topic = promotion.master, dict[tuple[str, str], list[ReplayedQueue]]()
    for row in found:
        by_topic.setdefault((row.queue.of.group, row.queue.queue.topic), []).append(row)
    for (group, topic), rows in sorted(by_topic.items()):
        outcomes = [row.outcome for row in rows]
        yield BrokerLocksReplayed(
            cluster=master.set_name.cluster,
            broker=master.set_name.broker_name,
            addr=master.address,
            epoch=master.master_epoch,
            group=group,
            topic=topic,
            granted=outcomes.count(ReplayOutcome.GRANTED),
            held_by_another=outcomes.count(ReplayOutcome.HELD_BY_ANOTHER),
            unanswered=outcomes.count(ReplayOutcome.UNANSWERED),
            unconfirmed=outcomes.count(ReplayOutcome.UNCONFIRMED),
            duration_ms=max(row.elapsed_ms for row in rows),
        )
