"""Which locks a new master gets on behalf of their holders, and which locks are given up for clients. Pure.

A lock is taken in the name of its holder, who finds it granted when it locks the queue itself. A lock for a client that
has lost the queue meanwhile keeps the new owner from it for 60 s. A lock for a group that is not orderly sends its
retries to the dead-letter queue. So only what a client has just confirmed is locked.
Source: docs/protocol/queue-locks.md 1 and 5.
"""

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.offsets.locks.group_members import ListedMembers
from controller.offsets.locks.holders import BROKER_LOCK_MS, ConsumerKind, GroupMember, HeldGroupQueue, QueueHolders
from remoting.admin.message_queues import MessageQueue

#: A holder that was confirmed longer ago is queried again before its locks are taken.
FRESH_MS: Final = 2000
#: So old may an answer be on which a lock is given up, when the request is sent: the client may have got the queue
#: since, and whoever gives up its fresh lock lets another client in.
CHECKED_MS: Final = 500
#: Queues of one request to lock.
BATCH_QUEUES: Final = 512
#: Locks that were taken for clients and are remembered until they end.
REPLAYED_MAX: Final = 500_000


class Readiness(enum.StrEnum):
    """Whether the locks of a client may be taken at a new master."""

    READY = "ready"
    #: Its last answer is older than FRESH_MS.
    UNCONFIRMED = "unconfirmed"
    #: Its group may not have locks: it is not orderly, not clustering, or nobody has answered how it consumes.
    NOT_ORDERLY = "notOrderly"
    #: It holds nothing there, or what it holds another client holds too.
    NOTHING_HELD = "nothingHeld"


class ReplayOutcome(enum.StrEnum):
    """What became of the lock of one queue."""

    #: The new master has the lock of the holder, as its answer shows.
    GRANTED = "granted"
    #: The new master answered that somebody else has it.
    HELD_BY_ANOTHER = "held_by_another"
    #: The new master did not answer in time, or answered an error: the lock may be taken or not.
    UNANSWERED = "unanswered"
    #: The client has not confirmed in time that it still holds the queue: nothing was sent.
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLocks:
    """What a new master is to lock for one client now."""

    readiness: Readiness
    #: Empty unless READY, or UNCONFIRMED: then what the client held when it answered last.
    queues: tuple[MessageQueue, ...] = ()


class Unlock(NamedTuple):
    """Locks of one client that are to be given up at the master of one broker set."""

    member: GroupMember
    broker_name: str
    queues: tuple[MessageQueue, ...]


def locks_to_replay(
    table: QueueHolders, members: ListedMembers, member: GroupMember, broker_name: str, now_ms: int
) -> MemberLocks:
    """Return what the new master of a broker set is to lock for a client at this moment.

    A queue that two clients hold by their last answers is left to them: whoever locks it first gets it.
    """
    if table.kind_of(member.group) is not ConsumerKind.ORDERLY or not members.may_lock(member.group):
        return MemberLocks(readiness=Readiness.NOT_ORDERLY)
    queues = tuple(
        sorted(
            queue
            for queue, holding in table.holdings_of(member).items()
            if queue.broker_name == broker_name
            and not holding.is_dropped
            and not _has_another_owner(table, HeldGroupQueue(member.group, queue), member.client_id)
        )
    )
    if not queues:
        return MemberLocks(readiness=Readiness.NOTHING_HELD)
    confirmed = table.confirmed(member)
    # The answer is as old as its request: the client may have written it at once.
    is_fresh = confirmed is not None and now_ms - confirmed.sent_ms <= FRESH_MS
    return MemberLocks(readiness=Readiness.READY if is_fresh else Readiness.UNCONFIRMED, queues=queues)


def _has_another_owner(table: QueueHolders, queue: HeldGroupQueue, client_id: str) -> bool:
    return any(each != client_id and not holding.is_dropped for each, holding in table.holders_of(queue).items())


def batches(queues: Collection[MessageQueue]) -> tuple[tuple[MessageQueue, ...], ...]:
    """Return queues in parts of at most BATCH_QUEUES, sorted."""
    ordered = sorted(queues)
    return tuple(tuple(ordered[at : at + BATCH_QUEUES]) for at in range(0, len(ordered), BATCH_QUEUES))


def outcomes(
    requested: Collection[MessageQueue], locked: Collection[MessageQueue]
) -> dict[MessageQueue, ReplayOutcome]:
    """Return what an answer to 41 means for each queue requested: the master has a lock of all the others as well."""
    return {
        queue: ReplayOutcome.GRANTED if queue in locked else ReplayOutcome.HELD_BY_ANOTHER
        for queue in sorted(requested)
    }


class ReplayedLocks:
    """The locks that were taken for clients, until brokers end them after 60 s."""

    def __init__(self) -> None:
        #: By client and queue, when it was taken, monotonic ms.
        self._taken_ms: dict[GroupMember, dict[MessageQueue, int]] = {}
        self._count = 0

    def add(self, member: GroupMember, queues: Collection[MessageQueue], now_ms: int) -> None:
        """Remember locks that were taken, or may have been; those beyond REPLAYED_MAX are not remembered."""
        taken = self._taken_ms.setdefault(member, {})
        before = len(taken)
        taken.update(dict.fromkeys(list(queues)[: REPLAYED_MAX - self._count], now_ms))
        self._count += len(taken) - before

    def forget_ended(self, now_ms: int) -> None:
        """Forget locks that brokers have ended, unless their clients have renewed them: then they are theirs."""
        for member, taken in list(self._taken_ms.items()):
            ended = [queue for queue, taken_ms in taken.items() if now_ms - taken_ms > BROKER_LOCK_MS]
            self.forget(member, ended)

    def forget(self, member: GroupMember, queues: Collection[MessageQueue]) -> None:
        """Forget locks that were not granted, or that are given up."""
        taken = self._taken_ms.get(member, {})
        for queue in queues:
            if taken.pop(queue, None) is not None:
                self._count -= 1
        if not taken:
            self._taken_ms.pop(member, None)

    def members(self) -> Iterator[GroupMember]:
        """Yield the clients with such locks."""
        yield from self._taken_ms

    def of(self, member: GroupMember) -> Mapping[MessageQueue, int]:
        """Return by queue when the locks of a client were taken."""
        return self._taken_ms.get(member, {})

    def __len__(self) -> int:
        """Return how many are remembered."""
        return self._count


def locks_given_back(table: QueueHolders, replayed: ReplayedLocks, now_ms: int) -> tuple[Unlock, ...]:
    """Return the replayed locks whose clients have answered since, and just now, that they do not have the queue.

    Without it the queue's next owner would wait for it up to 60 s.
    """
    wanted: dict[tuple[GroupMember, str], list[MessageQueue]] = {}
    for member in replayed.members():
        for queue in lost_queues(table, replayed, member, now_ms - FRESH_MS):
            wanted.setdefault((member, queue.broker_name), []).append(queue)
    return _unlocks(wanted)


def lost_queues(
    table: QueueHolders, replayed: ReplayedLocks, member: GroupMember, since_ms: int
) -> frozenset[MessageQueue]:
    """Return the queues with replayed locks that a client does not have by an answer requested at `since_ms` or later.

    A queue that a client has dropped and still shows is left to it: it sends its last offset before it unlocks. A
    client of a release that shows no such queue may still consume: of that one nothing is given up.
    """
    confirmed = table.confirmed(member)
    if confirmed is None or confirmed.sent_ms < since_ms or not table.ends_calls_first(member):
        return frozenset()
    holdings = table.holdings_of(member)
    return frozenset(
        queue
        for queue, taken_ms in replayed.of(member).items()
        if queue not in holdings and confirmed.sent_ms >= taken_ms
    )


def locks_of_lost(table: QueueHolders, replayed: ReplayedLocks, lost: Collection[GroupMember]) -> tuple[Unlock, ...]:
    """Return the locks that clients which are lost have at brokers: what they held last, and what was replayed."""
    wanted: dict[tuple[GroupMember, str], set[MessageQueue]] = {}
    for member in lost:
        for queue in (*table.holdings_of(member), *replayed.of(member)):
            wanted.setdefault((member, queue.broker_name), set()).add(queue)
    return _unlocks(wanted)


def _unlocks(wanted: Mapping[tuple[GroupMember, str], Collection[MessageQueue]]) -> tuple[Unlock, ...]:
    return tuple(
        Unlock(member, broker_name, tuple(sorted(queues))) for (member, broker_name), queues in sorted(wanted.items())
    )
