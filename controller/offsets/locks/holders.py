"""Who holds which queue, from what the clients of orderly groups answer (307). Pure.

Clients lock queues in the memory of a master, which shows its locks to nobody and loses them when it ends. So they are
mirrored from the clients. An answer is true at one moment between its request and its arrival: two answers are never of
the same moment. Source: docs/protocol/queue-locks.md 1, 2 and 5.
"""

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from controller.offsets.locks.sessions.values import LockGroup
from controller.offsets.values import NAME_CHARACTERS_MAX, QUEUES_MAX
from remoting.admin.clients import HeldQueue, RunningConsumer
from remoting.admin.message_queues import MessageQueue

#: How long a client trusts a lock that it does not renew, by its own clock.
CLIENT_VALIDITY_MS: Final = 30_000
#: How long a broker keeps a lock that nobody renews.
BROKER_LOCK_MS: Final = 60_000
#: A client that has not answered for so long is not taken for a holder any more: broker and client have given it up.
UNCONFIRMED_MS: Final = CLIENT_VALIDITY_MS + BROKER_LOCK_MS

#: Java clients of this release and later show a dropped queue until no call of their listener is under way. Recorded:
#: 4.9.7, 5.1.4, 5.5.0.
ENDS_CALLS_FIRST: Final = (4, 9)

#: Clients of all groups.
CLIENTS_MAX: Final = 20_000
#: Queues of one client; a forged answer could list any number.
QUEUES_PER_CLIENT_MAX: Final = 4096
#: Queues of all clients.
HOLDINGS_MAX: Final = 500_000

_VERSION: Final = re.compile(r"V([0-9]{1,3})_([0-9]{1,3})_")

_NONE: Final[Mapping[str, "Holding"]] = MappingProxyType({})


class GroupMember(NamedTuple):
    """One client of one group, as brokers spell both."""

    group: str
    client_id: str


def name_at_brokers(group: LockGroup) -> str:
    """Return the name of a group as brokers and clients spell it: `namespace%group`, or `group` without one."""
    return f"{group.namespace}%{group.group}" if group.namespace else group.group


class HeldGroupQueue(NamedTuple):
    """One queue that one group consumes."""

    group: str
    queue: MessageQueue


class ConsumerKind(enum.StrEnum):
    """How the clients of a group consume."""

    #: No client has answered yet, or none reports how it consumes.
    UNKNOWN = "unknown"
    ORDERLY = "orderly"
    #: At least one client is not orderly: a lock would send its retries to the dead-letter queue.
    CONCURRENT = "concurrent"


class Confirmation(NamedTuple):
    """Between which moments an answer was true; monotonic ms of this process."""

    sent_ms: int
    received_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswer:
    """What a client answers about its queues."""

    member: GroupMember
    confirmed: Confirmation
    consumer: RunningConsumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The lock of one client on one queue, not lost when it answered last."""

    #: When the client last took or renewed the lock, Unix ms by its own clock; None if it does not report it.
    locked_unix_ms: int | None
    #: The first and the last answer with this `locked_unix_ms`: in between the client had the lock without a break.
    first: Confirmation
    last: Confirmation
    #: The client does not trust its lock any more, as it could not renew it; the queue is still its own.
    is_expired: bool
    #: The queue is not its own any more; it gives up the lock itself, up to 20 s later.
    is_dropped: bool
    #: It is dropped, and none of its messages is being consumed: the client does not consume it any more.
    is_over: bool

    @property
    def may_consume(self) -> bool:
        """Whether the client may consume the queue by its last answer."""
        return not self.is_expired and not self.is_over

    def held_from_to(self) -> Confirmation | None:
        """Return since when and until when the client had the lock for certain; None if no time is certain.

        A client that reports no time of its locks may have lost and regained it between two answers.
        """
        if self.locked_unix_ms is None or self.first.received_ms > self.last.sent_ms:
            return None
        return Confirmation(self.first.received_ms, self.last.sent_ms)


class _HolderClient:
    """What one client answered last."""

    def __init__(self, answer: ClientAnswer) -> None:
        self.confirmed = answer.confirmed
        self.is_orderly = answer.consumer.is_orderly
        self.ends_calls_first = _version_of(answer.consumer) >= ENDS_CALLS_FIRST
        self.holdings: dict[MessageQueue, Holding] = {}


class QueueHolders:
    """The last answers of all clients of one cluster, and by queue who holds it.

    Names of groups, topics and brokers are unique in a cluster only: there is one table for each.
    """

    def __init__(self) -> None:
        self._clients: dict[GroupMember, _HolderClient] = {}
        self._clients_of: dict[str, set[str]] = {}
        self._holders: dict[HeldGroupQueue, dict[str, Holding]] = {}
        self._holdings = 0
        #: Answers that were left out because the table was full.
        self.left_out = 0

    def record(self, answer: ClientAnswer) -> frozenset[HeldGroupQueue]:
        """Replace what is known of a client, and return those queues of its group whose holders have changed.

        An answer to an earlier request than that of the last one changes nothing. A client that is not orderly holds
        nothing, whatever it reports as locked. Queues beyond QUEUES_PER_CLIENT_MAX are left out.
        """
        former = self._clients.get(answer.member)
        if former is not None and former.confirmed.sent_ms > answer.confirmed.sent_ms:
            return frozenset()
        client = _HolderClient(answer)
        if answer.consumer.is_orderly is True:
            client.holdings = _holdings(answer, former.holdings if former is not None else {})
        added = len(client.holdings) - (len(former.holdings) if former is not None else 0)
        if (former is None and len(self._clients) >= CLIENTS_MAX) or self._holdings + added > HOLDINGS_MAX:
            self.left_out += 1
            return self.forget(answer.member)
        changed = self.forget(answer.member)
        self._clients[answer.member] = client
        self._clients_of.setdefault(answer.member.group, set()).add(answer.member.client_id)
        for queue, holding in client.holdings.items():
            self._holders.setdefault(HeldGroupQueue(answer.member.group, queue), {})[answer.member.client_id] = holding
        self._holdings += len(client.holdings)
        return changed | {HeldGroupQueue(answer.member.group, queue) for queue in client.holdings}

    def forget(self, member: GroupMember) -> frozenset[HeldGroupQueue]:
        """Forget a client, and return the queues that it held."""
        if (client := self._clients.pop(member, None)) is None:
            return frozenset()
        clients = self._clients_of[member.group]
        clients.discard(member.client_id)
        if not clients:
            del self._clients_of[member.group]
        held = frozenset(HeldGroupQueue(member.group, queue) for queue in client.holdings)
        for each in held:
            holders = self._holders[each]
            del holders[member.client_id]
            if not holders:
                del self._holders[each]
        self._holdings -= len(held)
        return held

    def kind_of(self, group: str) -> ConsumerKind:
        """Return how a group consumes by its clients that have answered; one that is not orderly decides."""
        known = {self._clients[GroupMember(group, each)].is_orderly for each in self._clients_of.get(group, ())}
        if False in known:
            return ConsumerKind.CONCURRENT
        return ConsumerKind.ORDERLY if True in known else ConsumerKind.UNKNOWN

    def holders_of(self, queue: HeldGroupQueue) -> Mapping[str, Holding]:
        """Return by client id who holds a queue; more than one while it is handed over, or in an overlap."""
        return self._holders.get(queue, _NONE)

    def holdings_of(self, member: GroupMember) -> Mapping[MessageQueue, Holding]:
        """Return what a client holds; empty for one that is unknown."""
        client = self._clients.get(member)
        return client.holdings if client is not None else {}

    def confirmed(self, member: GroupMember) -> Confirmation | None:
        """Return when a client answered last; None if it never did."""
        client = self._clients.get(member)
        return client.confirmed if client is not None else None

    def ends_calls_first(self, member: GroupMember) -> bool:
        """Return whether a client shows a dropped queue until the call of its listener ends; False if unknown.

        Others may show it no more while a call goes on, for as long as that takes.
        """
        client = self._clients.get(member)
        return client is not None and client.ends_calls_first

    def clients_of(self, group: str) -> list[str]:
        """Return the ids of a group's clients that have answered, sorted."""
        return sorted(self._clients_of.get(group, ()))

    def members(self) -> Iterator[GroupMember]:
        """Yield the clients that have answered."""
        yield from self._clients

    def members_at(self, broker_name: str) -> tuple[GroupMember, ...]:
        """Return the clients that hold queues of a broker set, sorted: those whose locks its next master lacks."""
        return tuple(
            sorted(
                member
                for member, client in self._clients.items()
                if any(queue.broker_name == broker_name for queue in client.holdings)
            )
        )

    def unconfirmed(self, now_ms: int) -> tuple[GroupMember, ...]:
        """Return the clients that have not answered for UNCONFIRMED_MS: their answers say nothing any more."""
        return tuple(
            member for member, client in self._clients.items() if now_ms - client.confirmed.received_ms > UNCONFIRMED_MS
        )

    def __len__(self) -> int:
        """Return how many queues are held by clients."""
        return self._holdings


def _holdings(answer: ClientAnswer, former: Mapping[MessageQueue, Holding]) -> dict[MessageQueue, Holding]:
    newest_unix_ms = _newest_unix_ms(answer.consumer)
    held = ((queue, each) for queue, each in answer.consumer.queues.items() if _is_plausible(queue) and _is_held(each))
    found: dict[MessageQueue, Holding] = {}
    for queue, each in held:
        if len(found) >= QUEUES_PER_CLIENT_MAX:
            break
        found[queue] = _holding(answer.confirmed, each, newest_unix_ms, former.get(queue))
    return found


def _holding(confirmed: Confirmation, queue: HeldQueue, newest_unix_ms: int, former: Holding | None) -> Holding:
    locked_unix_ms = queue.last_lock_unix_ms
    first = former.first if former is not None and former.locked_unix_ms == locked_unix_ms else confirmed
    return Holding(
        locked_unix_ms=locked_unix_ms,
        first=first,
        last=confirmed,
        is_expired=locked_unix_ms is not None
        and (
            # By the client's clock, which has shown this time; and by ours, as it took the lock before it answered so.
            newest_unix_ms - locked_unix_ms > CLIENT_VALIDITY_MS
            or confirmed.sent_ms - first.received_ms > CLIENT_VALIDITY_MS
        ),
        is_dropped=queue.is_dropped is True,
        # It begins no further message, but what it has begun it ends, whoever has the lock by then.
        is_over=queue.is_dropped is True and not queue.messages_in_work,
    )


def _is_held(queue: HeldQueue) -> bool:
    # Whether it is dropped has to be reported: a queue that is being given up must not be locked for the client again.
    return queue.is_locked is True and queue.is_dropped is not None


def _is_plausible(queue: MessageQueue) -> bool:
    names = max(len(queue.topic), len(queue.broker_name))
    return names <= NAME_CHARACTERS_MAX and 0 <= queue.queue_id < QUEUES_MAX


def _newest_unix_ms(consumer: RunningConsumer) -> int:
    """Return the latest time by the client's clock in its answer; 0 if there is none."""
    return max(
        (
            unix_ms
            for each in consumer.queues.values()
            for unix_ms in (each.last_pull_unix_ms, each.last_consume_unix_ms, each.last_lock_unix_ms)
            if unix_ms is not None
        ),
        default=0,
    )


def _version_of(consumer: RunningConsumer) -> tuple[int, int]:
    """Return the release of a client as Java names it, V5_5_0; the lowest if it is not named so."""
    found = _VERSION.match(consumer.client_version or "")
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)
