"""Clients of orderly groups: which brokers list them (203), and which queues they hold by their answers (307). Pure.

Clients lock queues in the memory of a master, which shows its locks to nobody and loses them when it ends; so the
clients are asked. An answer was true at one moment between its request and its arrival: two answers are never of the
same moment. Source: docs/protocol/queue-locks.md 1, 2 and 5, broker-admin.md 18.
"""

import enum
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from offsets.values import SetName
from remoting.admin.clients import HeldQueue, RunningConsumer
from remoting.admin.groups import GroupConnections
from remoting.admin.message_queues import MessageQueue

#: How long a client trusts a lock that it does not renew, by its own clock.
CLIENT_VALIDITY_MS: Final = 30_000
#: How long a broker keeps a lock that nobody renews.
BROKER_LOCK_MS: Final = 60_000
#: After so long without an answer, client and broker have both given up the locks of the last answer.
UNCONFIRMED_MS: Final = CLIENT_VALIDITY_MS + BROKER_LOCK_MS
#: A client that no broker has listed for so long is lost: if it still runs, it has stopped trusting its locks.
LOST_MS: Final = CLIENT_VALIDITY_MS + 5000
#: A client that no broker has listed for so long is forgotten, even if none of its brokers answers.
UNLISTED_MS: Final = UNCONFIRMED_MS + BROKER_LOCK_MS
#: A holder that was confirmed longer ago is asked again before a lock is taken for it.
FRESH_MS: Final = 2000
#: Java clients from this release on show a dropped queue until its last listener call ends. Recorded: 4.9.7, 5.1.4,
#: 5.5.0.
ENDS_CALLS_FIRST: Final = (4, 9)

#: The consume type of push consumers; no others lock queues.
PUSH: Final = "CONSUME_PASSIVELY"

#: Limits against forged lists and answers: clients of all groups and of one list, queues of one client and of all.
CLIENTS_MAX: Final = 50_000
CLIENTS_PER_LIST_MAX: Final = 5000
QUEUES_PER_CLIENT_MAX: Final = 4096
HOLDINGS_MAX: Final = 500_000
NAME_CHARACTERS_MAX: Final = 255
QUEUE_ID_MAX: Final = 65_535

_VERSION: Final = re.compile(r"V([0-9]{1,3})_([0-9]{1,3})_")


class OrderlyGroup(NamedTuple):
    """A consumer group; its name as brokers spell it (`namespace%group`) is unique in its cluster only."""

    cluster: str
    group: str


class Member(NamedTuple):
    """One client of one group."""

    of: OrderlyGroup
    client_id: str


class GroupQueue(NamedTuple):
    """One queue that one group consumes."""

    of: OrderlyGroup
    queue: MessageQueue


class ConsumerKind(enum.StrEnum):
    """How the clients of a group consume."""

    #: No client has answered yet, or none reports how it consumes.
    UNKNOWN = "unknown"
    ORDERLY = "orderly"
    #: At least one client is not orderly: a lock would send its retries to the dead-letter queue.
    CONCURRENT = "concurrent"


class Confirmation(NamedTuple):
    """An answer was true at some moment between these two; monotonic ms of this process."""

    sent_ms: int
    received_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The lock of one client on one queue, by the client's last answer."""

    #: When the client last took or renewed the lock, Unix ms by its own clock; None if it does not report it.
    locked_unix_ms: int | None
    #: The first and the last answer with this `locked_unix_ms`; the client had the lock throughout.
    first: Confirmation
    last: Confirmation
    #: The client could not renew the lock and does not trust it any more; the queue is still its own.
    is_expired: bool
    #: The queue is not its own any more; the client gives up the lock itself, up to 20 s later.
    is_dropped: bool
    #: The queue is dropped and no listener call is under way: the client does not consume it any more.
    is_over: bool

    @property
    def may_consume(self) -> bool:
        """Whether the client may consume the queue by its last answer."""
        return not self.is_expired and not self.is_over

    def certain(self) -> Confirmation | None:
        """Return the time throughout which the client had the lock; None if none is certain.

        A client that does not report when it locked may have lost the lock and got it back between two answers.
        """
        if self.locked_unix_ms is None or self.first.received_ms > self.last.sent_ms:
            return None
        return Confirmation(self.first.received_ms, self.last.sent_ms)


@dataclass(slots=True)
class _Client:
    """One client of a group."""

    #: When a broker listed it last, monotonic ms; and the brokers that ever did.
    listed_ms: int
    brokers: set[str] = field(default_factory=set)
    #: Its last answer; None if it has none, or an old one.
    confirmed: Confirmation | None = None
    is_orderly: bool | None = None
    ends_calls_first: bool = False
    holdings: dict[MessageQueue, Holding] = field(default_factory=dict)


class _List(NamedTuple):
    """The clients of a group that one broker listed last."""

    queried_ms: int
    clients: frozenset[str]


@dataclass(slots=True)
class _Group:
    """One declared group; its members are those that brokers list."""

    #: Its clients are push consumers that share the queues: others lock none.
    may_lock: bool = False
    #: By address of the broker; a broker lists only the clients connected to it.
    lists: dict[str, _List] = field(default_factory=dict)
    clients: dict[str, _Client] = field(default_factory=dict)


class Holders:
    """The clients of all declared groups, and by queue who holds it."""

    def __init__(self) -> None:
        self._groups: dict[OrderlyGroup, _Group] = {}
        self._by_queue: dict[GroupQueue, dict[str, Holding]] = {}
        #: How many clients there are, and how many queues they hold.
        self.clients = 0
        self.holdings = 0
        #: Clients and answers that found no room.
        self.left_out = 0

    # Lists of brokers

    def record_list(self, address: str, of: OrderlyGroup, listed: GroupConnections | None, queried_ms: int) -> None:
        """Replace the clients of a group that a broker at "host:port" listed before; None: it lists nobody."""
        group = self._groups.get(of)
        if group is not None and address in group.lists and group.lists[address].queried_ms > queried_ms:
            return
        if listed is None or not listed.clients:
            if group is not None:
                group.lists[address] = _List(queried_ms, frozenset())
            return
        if group is None:
            group = self._groups[of] = _Group()
        group.may_lock = not listed.is_broadcasting and listed.consume_type == PUSH
        names = {client.client_id for client in listed.clients[:CLIENTS_PER_LIST_MAX]}
        known = frozenset(name for name in names if self._client(group, name, queried_ms) is not None)
        self.left_out += len(names) - len(known)
        group.lists[address] = _List(queried_ms, known)
        for name in known:
            client = group.clients[name]
            client.listed_ms = max(client.listed_ms, queried_ms)
            client.brokers.add(address)

    def _client(self, group: _Group, name: str, queried_ms: int) -> _Client | None:
        if (client := group.clients.get(name)) is None:
            if self.clients >= CLIENTS_MAX or not 0 < len(name) <= NAME_CHARACTERS_MAX:
                return None
            client = group.clients[name] = _Client(queried_ms)
            self.clients += 1
        return client

    def drop_broker(self, address: str) -> None:
        """Forget the lists of a broker that failed or left: it reaches nobody, and proves nothing."""
        for group in self._groups.values():
            group.lists.pop(address, None)

    def brokers_of(self, member: Member) -> frozenset[str]:
        """Return the addresses of the brokers that list a client now: any of them passes requests on to it."""
        lists = self._groups[member.of].lists if member.of in self._groups else {}
        return frozenset(address for address, listed in lists.items() if member.client_id in listed.clients)

    def may_lock(self, of: OrderlyGroup) -> bool:
        """Return whether the clients of a group are push consumers that share its queues."""
        group = self._groups.get(of)
        return group is not None and group.may_lock

    def is_lost(self, member: Member, now_ms: int) -> bool:
        """Return whether a client is lost for certain, or not known at all.

        No broker lists it, and one that did has answered LOST_MS after the client was listed last. Brokers that do
        not answer prove nothing.
        """
        if (client := self._known(member)) is None:
            return True
        lists, lost_ms = self._groups[member.of].lists, client.listed_ms + LOST_MS
        if now_ms < lost_ms or any(member.client_id in listed.clients for listed in lists.values()):
            return False
        return any(address in client.brokers and listed.queried_ms >= lost_ms for address, listed in lists.items())

    def lost(self, now_ms: int) -> list[Member]:
        """Return the clients that are lost for certain."""
        return [member for member in self.members() if self.is_lost(member, now_ms)]

    def unlisted(self, now_ms: int) -> list[Member]:
        """Return the clients that no broker has listed for UNLISTED_MS; their brokers may be gone with them."""
        return [
            Member(of, name)
            for of, group in self._groups.items()
            for name, client in group.clients.items()
            if now_ms - client.listed_ms >= UNLISTED_MS
        ]

    # Answers of clients

    def record_answer(
        self, member: Member, consumer: RunningConsumer, confirmed: Confirmation
    ) -> frozenset[GroupQueue]:
        """Replace a client's last answer, and return the queues whose holders have changed.

        An answer to a request sent before that of the last answer changes nothing, and neither does one of a client
        that was forgotten meanwhile. A client that is not orderly holds nothing, whatever it reports as locked.
        """
        if (client := self._known(member)) is None:
            return frozenset()
        if client.confirmed is not None and client.confirmed.sent_ms > confirmed.sent_ms:
            return frozenset()
        holdings = _holdings(consumer, confirmed, client.holdings) if consumer.is_orderly is True else {}
        changed = self.forget_answer(member)
        if self.holdings + len(holdings) > HOLDINGS_MAX:
            self.left_out += 1
            return changed
        client.confirmed, client.is_orderly, client.holdings = confirmed, consumer.is_orderly, holdings
        client.ends_calls_first = _version_of(consumer) >= ENDS_CALLS_FIRST
        self.holdings += len(holdings)
        for queue, holding in holdings.items():
            self._by_queue.setdefault(GroupQueue(member.of, queue), {})[member.client_id] = holding
        return changed | {GroupQueue(member.of, queue) for queue in holdings}

    def forget_answer(self, member: Member) -> frozenset[GroupQueue]:
        """Forget the last answer of a client, and return the queues that it held."""
        if (client := self._known(member)) is None:
            return frozenset()
        held = frozenset(GroupQueue(member.of, queue) for queue in client.holdings)
        for queue in held:
            del self._by_queue[queue][member.client_id]
            if not self._by_queue[queue]:
                del self._by_queue[queue]
        self.holdings -= len(held)
        client.confirmed, client.is_orderly, client.holdings = None, None, {}
        return held

    def forget(self, member: Member) -> frozenset[GroupQueue]:
        """Forget a client, and return the queues that it held; a broker that lists it makes it known again."""
        held = self.forget_answer(member)
        group = self._groups.get(member.of)
        if group is not None and group.clients.pop(member.client_id, None) is not None:
            self.clients -= 1
            if not group.clients:
                del self._groups[member.of]
        return held

    def unconfirmed(self, now_ms: int) -> list[Member]:
        """Return the clients whose last answer is older than UNCONFIRMED_MS: it says nothing any more."""
        return [
            member
            for member in self.members()
            if (at := self.confirmed(member)) is not None and now_ms - at.received_ms > UNCONFIRMED_MS
        ]

    def kind_of(self, of: OrderlyGroup) -> ConsumerKind:
        """Return how a group consumes by its clients that have answered; one that is not orderly decides."""
        known = {client.is_orderly for client in self._groups[of].clients.values()} if of in self._groups else set()
        if False in known:
            return ConsumerKind.CONCURRENT
        return ConsumerKind.ORDERLY if True in known else ConsumerKind.UNKNOWN

    def holders_of(self, queue: GroupQueue) -> Mapping[str, Holding]:
        """Return by client id who holds a queue; several while it is handed over, and in an overlap."""
        return self._by_queue.get(queue, {})

    def holdings_of(self, member: Member) -> Mapping[MessageQueue, Holding]:
        """Return what a client holds."""
        client = self._known(member)
        return client.holdings if client is not None else {}

    def knows(self, member: Member) -> bool:
        """Return whether a broker has listed a client, and it is not forgotten."""
        return self._known(member) is not None

    def confirmed(self, member: Member) -> Confirmation | None:
        """Return when a client answered last; None if it has no valid answer."""
        client = self._known(member)
        return client.confirmed if client is not None else None

    def is_fresh(self, member: Member, now_ms: int) -> bool:
        """Return whether a client has confirmed what it holds within FRESH_MS.

        An answer is as old as its request: the client may have written it at once.
        """
        at = self.confirmed(member)
        return at is not None and now_ms - at.sent_ms <= FRESH_MS

    def ends_calls_first(self, member: Member) -> bool:
        """Return whether a client shows a dropped queue until the call of its listener ends; False if unknown."""
        client = self._known(member)
        return client is not None and client.ends_calls_first

    def groups(self) -> list[OrderlyGroup]:
        """Return the groups with clients."""
        return list(self._groups)

    def clients_of(self, of: OrderlyGroup) -> list[str]:
        """Return the ids of a group's clients, sorted; of those that are no longer listed too."""
        return sorted(self._groups[of].clients) if of in self._groups else []

    def members(self) -> Iterator[Member]:
        """Yield all clients."""
        for of, group in self._groups.items():
            for name in group.clients:
                yield Member(of, name)

    def members_at(self, set_name: SetName) -> list[Member]:
        """Return the clients that hold queues of a broker set: those whose locks its next master lacks."""
        return [
            member
            for member in self.members()
            if member.of.cluster == set_name.cluster
            and any(queue.broker_name == set_name.broker_name for queue in self.holdings_of(member))
        ]

    def _known(self, member: Member) -> _Client | None:
        group = self._groups.get(member.of)
        return group.clients.get(member.client_id) if group is not None else None


def set_of(member: Member, queue: MessageQueue) -> SetName:
    """Return the broker set of a queue that a client holds."""
    return SetName(member.of.cluster, queue.broker_name)



def _holdings(
    consumer: RunningConsumer, confirmed: Confirmation, former: Mapping[MessageQueue, Holding]
) -> dict[MessageQueue, Holding]:
    newest_unix_ms = _newest_unix_ms(consumer)
    found: dict[MessageQueue, Holding] = {}
    for queue, held in consumer.queues.items():
        # A client that does not report whether a queue is dropped may be giving it up.
        if held.is_locked is not True or held.is_dropped is None or not _is_plausible(queue):
            continue
        if len(found) >= QUEUES_PER_CLIENT_MAX:
            break
        found[queue] = _holding(held, confirmed, former.get(queue), newest_unix_ms)
    return found


def _holding(held: HeldQueue, confirmed: Confirmation, former: Holding | None, newest_unix_ms: int) -> Holding:
    locked_unix_ms = held.last_lock_unix_ms
    first = former.first if former is not None and former.locked_unix_ms == locked_unix_ms else confirmed
    return Holding(
        locked_unix_ms=locked_unix_ms,
        first=first,
        last=confirmed,
        is_expired=locked_unix_ms is not None
        and (
            # By the client's own clock; and by ours, as it took the lock before its first answer about it.
            newest_unix_ms - locked_unix_ms > CLIENT_VALIDITY_MS
            or confirmed.sent_ms - first.received_ms > CLIENT_VALIDITY_MS
        ),
        is_dropped=held.is_dropped is True,
        is_over=held.is_dropped is True and not held.messages_in_work,
    )


def _is_plausible(queue: MessageQueue) -> bool:
    names = max(len(queue.topic), len(queue.broker_name))
    return names <= NAME_CHARACTERS_MAX and 0 <= queue.queue_id <= QUEUE_ID_MAX


def _newest_unix_ms(consumer: RunningConsumer) -> int:
    """Return the latest time by the client's clock in its answer; 0 if there is none."""
    times = (
        (queue.last_pull_unix_ms, queue.last_consume_unix_ms, queue.last_lock_unix_ms)
        for queue in consumer.queues.values()
    )
    return max((unix_ms for three in times for unix_ms in three if unix_ms is not None), default=0)


def _version_of(consumer: RunningConsumer) -> tuple[int, int]:
    """Return the release of a client as Java names it, V5_5_0; the lowest if it is not named so."""
    found = _VERSION.match(consumer.client_version or "")
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)
