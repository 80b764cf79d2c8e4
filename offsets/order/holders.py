"""Clients of orderly groups: which brokers list them (203), and which queues they hold by their answers (307). Pure.

Clients lock queues in the memory of a master, which shows its locks to nobody and loses them when it ends; so the
clients are asked. An answer was true at one moment between its request and its arrival: two answers are never of the
same moment. Source: docs/protocol/queue-locks.md 1, 2 and 5, docs/protocol/broker-admin.md 18.
"""

import enum
import re
from collections.abc import Iterator, Mapping
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
#: After so long without an answer, client and broker have both given up the locks of the last answer. A client that no
#: broker lists for so long is forgotten.
UNCONFIRMED_MS: Final = CLIENT_VALIDITY_MS + BROKER_LOCK_MS
#: A holder that was confirmed longer ago is asked again before a lock is taken for it.
FRESH_MS: Final = 2000
#: Java clients from this release on show a dropped queue until its last listener call ends. Recorded: 4.9.7, 5.1.4,
#: 5.5.0.
ENDS_CALLS_FIRST: Final = (4, 9)
#: The consume type of push consumers: no others lock queues.
PUSH: Final = "CONSUME_PASSIVELY"

#: Limits against forged lists and answers: clients of all groups and of one list, queues of one client and of all.
CLIENTS_MAX: Final = 50_000
CLIENTS_PER_LIST_MAX: Final = 5000
QUEUES_PER_CLIENT_MAX: Final = 4096
HOLDINGS_MAX: Final = 500_000
NAME_CHARACTERS_MAX: Final = 255

_VERSION: Final = re.compile(r"V([0-9]{1,3})_([0-9]{1,3})_")


class OrderlyGroup(NamedTuple):
    """A consumer group; its name as brokers spell it (`namespace%group`) is unique in its cluster only."""

    cluster: str
    group: str


class Member(NamedTuple):
    of: OrderlyGroup
    client_id: str

    def set_of(self, queue: MessageQueue) -> SetName:
        return SetName(self.of.cluster, queue.broker_name)


class GroupQueue(NamedTuple):
    of: OrderlyGroup
    queue: MessageQueue


class ConsumerKind(enum.StrEnum):
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
    #: The first and the last answer with this `locked_unix_ms`: the client had the lock from one to the other.
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
        return not self.is_expired and not self.is_over


@dataclass(slots=True)
class Client:
    #: When a broker listed it last, monotonic ms.
    listed_ms: int = 0
    #: When it was asked last; and until when it is left alone, as it did not answer.
    asked_ms: int | None = None
    silent_until_ms: int = 0
    #: Its last answer; None if it has none, or an old one.
    confirmed: Confirmation | None = None
    is_orderly: bool | None = None
    ends_calls_first: bool = False
    holdings: dict[MessageQueue, Holding] = field(default_factory=dict)
    #: When locks were taken at masters in its name, until brokers end them.
    replayed_ms: dict[MessageQueue, int] = field(default_factory=dict)

    def is_fresh(self, now_ms: int) -> bool:
        """Return whether it has confirmed what it holds within FRESH_MS; an answer is as old as its request."""
        return self.confirmed is not None and now_ms - self.confirmed.sent_ms <= FRESH_MS


class _List(NamedTuple):
    """The clients of a group that one broker listed last; a broker lists those connected to it."""

    queried_ms: int
    clients: frozenset[str]


@dataclass(slots=True)
class _Group:
    """One declared group; its members are those that brokers list."""

    #: Its clients are push consumers that share the queues: others lock none.
    may_lock: bool = False
    lists: dict[str, _List] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)


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
        for name in sorted(names - group.clients.keys()):
            if self.clients < CLIENTS_MAX and 0 < len(name) <= NAME_CHARACTERS_MAX:
                group.clients[name] = Client()
                self.clients += 1
        known = names & group.clients.keys()
        self.left_out += len(names) - len(known)
        group.lists[address] = _List(queried_ms, frozenset(known))
        for name in known:
            group.clients[name].listed_ms = max(group.clients[name].listed_ms, queried_ms)

    def drop_broker(self, address: str) -> None:
        """Forget the lists of a broker that failed or left: it reaches nobody, and proves nothing."""
        for group in self._groups.values():
            group.lists.pop(address, None)

    def brokers_of(self, member: Member) -> frozenset[str]:
        """Return the addresses of the brokers that list a client now: any of them passes requests on to it."""
        lists = self._groups[member.of].lists if member.of in self._groups else {}
        return frozenset(address for address, listed in lists.items() if member.client_id in listed.clients)

    def is_gone(self, member: Member, now_ms: int) -> bool:
        """Return whether no broker has listed a client for UNCONFIRMED_MS."""
        return now_ms - self.client(member).listed_ms >= UNCONFIRMED_MS and not self.brokers_of(member)

    def record_answer(
        self, member: Member, consumer: RunningConsumer, confirmed: Confirmation
    ) -> frozenset[GroupQueue]:
        """Replace a client's last answer, and return the queues whose holders have changed.

        An answer to a request sent before that of the last answer changes nothing, and neither does one of a client
        that was forgotten meanwhile. A client that is not orderly holds nothing, whatever it reports as locked.
        """
        client = self._known(member)
        if client is None or (client.confirmed is not None and client.confirmed.sent_ms > confirmed.sent_ms):
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
        client = self.client(member)
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

    def kind_of(self, of: OrderlyGroup) -> ConsumerKind:
        """Return how a group consumes by its clients that have answered; one that is not orderly decides."""
        if (group := self._groups.get(of)) is None:
            return ConsumerKind.UNKNOWN
        known = {client.is_orderly for client in group.clients.values()}
        if False in known or not group.may_lock:
            return ConsumerKind.CONCURRENT
        return ConsumerKind.ORDERLY if True in known else ConsumerKind.UNKNOWN

    def holders_of(self, queue: GroupQueue) -> Mapping[str, Holding]:
        """Return by client id who holds a queue; several while it is handed over, and in an overlap."""
        return self._by_queue.get(queue, {})

    def client(self, member: Member) -> Client:
        """Return what is known of a client; of an unknown one nothing."""
        return self._known(member) or Client()

    def groups(self) -> list[OrderlyGroup]:
        return list(self._groups)

    def members_of(self, of: OrderlyGroup) -> list[Member]:
        """Return the clients of a group, sorted; those that are no longer listed too."""
        return [Member(of, name) for name in sorted(self._groups[of].clients)] if of in self._groups else []

    def members(self) -> Iterator[Member]:
        for of in self.groups():
            yield from self.members_of(of)

    def members_at(self, set_name: SetName) -> list[Member]:
        """Return the clients that hold queues of a broker set: those whose locks its next master lacks."""
        return [
            member
            for member in self.members()
            if any(member.set_of(queue) == set_name for queue in self.client(member).holdings)
        ]

    def _known(self, member: Member) -> Client | None:
        group = self._groups.get(member.of)
        return group.clients.get(member.client_id) if group is not None else None


def _holdings(
    consumer: RunningConsumer, confirmed: Confirmation, former: Mapping[MessageQueue, Holding]
) -> dict[MessageQueue, Holding]:
    times = (
        (queue.last_pull_unix_ms, queue.last_consume_unix_ms, queue.last_lock_unix_ms)
        for queue in consumer.queues.values()
    )
    # The latest time by the client's clock.
    newest_unix_ms = max((unix_ms for three in times for unix_ms in three if unix_ms is not None), default=0)
    found: dict[MessageQueue, Holding] = {}
    for queue, held in consumer.queues.items():
        if len(found) >= QUEUES_PER_CLIENT_MAX:
            break
        is_plausible = max(len(queue.topic), len(queue.broker_name)) <= NAME_CHARACTERS_MAX and queue.queue_id >= 0
        # A client that does not report whether a queue is dropped may be giving it up.
        if is_plausible and held.is_locked is True and held.is_dropped is not None:
            found[queue] = _holding(held, confirmed, former.get(queue), newest_unix_ms)
    return found


def _holding(held: HeldQueue, confirmed: Confirmation, former: Holding | None, newest_unix_ms: int) -> Holding:
    locked_unix_ms = held.last_lock_unix_ms
    first = former.first if former is not None and former.locked_unix_ms == locked_unix_ms else confirmed
    # By our clock: it took the lock before its first answer about it.
    held_ms = confirmed.sent_ms - first.received_ms
    return Holding(
        locked_unix_ms=locked_unix_ms,
        first=first,
        last=confirmed,
        is_expired=locked_unix_ms is not None and max(newest_unix_ms - locked_unix_ms, held_ms) > CLIENT_VALIDITY_MS,
        is_dropped=held.is_dropped is True,
        is_over=held.is_dropped is True and not held.messages_in_work,
    )


def _version_of(consumer: RunningConsumer) -> tuple[int, int]:
    """Return the release of a client as Java names it, V5_5_0; the lowest if it is not named so."""
    found = _VERSION.match(consumer.client_version or "")
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)
