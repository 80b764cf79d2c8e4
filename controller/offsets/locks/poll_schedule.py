"""Which client is queried when (307), and through which broker. Pure.

A broker keeps one of its 16 threads for administration busy with each 307 until the client answers, 10 s at most.
Reading an answer costs this process about 1 ms for 16 queues: 1000 clients each second would be a core. So:

- each client of an orderly group is queried each PERIOD_MS, or more rarely where that were more than RATE_MAX a second:
  100 groups of 10 clients take 100 requests a second, a tenth of a core. That finds suspects of an overlap;
- suspects are queried again at once, which proves or refutes it;
- for WATCH_MS after a promotion the clients of the groups that hold queues there are queried each WATCH_PERIOD_MS, and
  the new master for who joined: holders trust old locks for 30 s, and whoever gets a queue gets its lock at once;
- that a holder was confirmed within the last 2 s is not had by polling: it is queried when a master has failed, through
  another broker, and be it the new master, to which clients are connected while it is a slave;
- of a group that is not orderly, or of which nobody knows, one client is queried.
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from controller.offsets.locks.group_members import ListedMembers
from controller.offsets.locks.holders import CLIENT_VALIDITY_MS, ConsumerKind, GroupMember, QueueHolders

#: How often each client of an orderly group is queried.
PERIOD_MS: Final = 10_000
#: Requests a second to all clients, but for those about suspects and replays.
RATE_MAX: Final = 100
WATCH_PERIOD_MS: Final = 2000
#: How long after a promotion: as long as clients trust locks of the former master, and one period.
WATCH_MS: Final = CLIENT_VALIDITY_MS + WATCH_PERIOD_MS
#: How long a broker waits for a client, and one of its threads with it.
RELAY_MS: Final = 10_000
#: Requests to silent clients that one broker waits for: further clients are queried through others. With as many turns
#: that are under way less than twice as many of its threads are busy.
WAITED_FOR_MAX: Final = 4
#: How long a client that did not answer is left alone; twice as long after each further time, up to the second.
SILENT_MS: Final = 10_000
SILENT_MS_MAX: Final = 480_000
#: How long nobody is queried through a broker that could not be reached.
UNREACHABLE_MS: Final = 2000


_NONE_CHOSEN: Final[Mapping[str, int]] = MappingProxyType({})


class ClientQuery(NamedTuple):
    """A client to be queried through the broker at "host:port"."""

    member: GroupMember
    address: str


class _PolledClient:
    """When one client was queried, and since when it is silent."""

    def __init__(self) -> None:
        self.sent_ms: int | None = None
        self.is_under_way = False
        self.silent_until_ms = 0
        self.silence_ms = 0


class _Broker:
    """What is under way through one broker."""

    def __init__(self) -> None:
        self.under_way = 0
        #: When requests were sent whose clients did not answer in time, oldest first.
        self.waited_for_ms: list[int] = []
        self.unreachable_until_ms = 0
        self.has_left = False


class _Watch(NamedTuple):
    """A broker set with a new master."""

    address: str
    until_ms: int


class PollSchedule:
    """When clients were queried, and what brokers still wait for."""

    def __init__(self) -> None:
        self._clients: dict[GroupMember, _PolledClient] = {}
        self._brokers: dict[str, _Broker] = {}
        #: By broker name.
        self._watches: dict[str, _Watch] = {}

    def watch(self, broker_name: str, address: str, now_ms: int) -> None:
        """Query the groups with queues of a broker set more often: it has a new master, at "host:port"."""
        self._watches[broker_name] = _Watch(address, now_ms + WATCH_MS)

    def watched(self, now_ms: int) -> dict[str, str]:
        """Return by broker name the addresses of the masters that are new."""
        self._watches = {name: each for name, each in self._watches.items() if each.until_ms > now_ms}
        return {name: each.address for name, each in self._watches.items()}

    def due(
        self, table: QueueHolders, members: ListedMembers, now_ms: int, queries_max: int
    ) -> tuple[ClientQuery, ...]:
        """Return the clients to be queried now, those that wait longest first; at most `queries_max`."""
        watched = self._watched(table, now_ms)
        waiting = sorted(
            (due_ms, member)
            for member in self._candidates(table, members, now_ms)
            if (due_ms := self._due_ms(member, watched)) <= now_ms
        )
        found: list[ClientQuery] = []
        chosen: dict[str, int] = {}
        for _, member in waiting:
            if len(found) >= queries_max:
                break
            if (address := self.route(members.brokers_of(member), now_ms, chosen)) is not None:
                found.append(ClientQuery(member, address))
                chosen[address] = chosen.get(address, 0) + 1
        return tuple(found)

    def route(self, brokers: Collection[str], now_ms: int, chosen: Mapping[str, int] = _NONE_CHOSEN) -> str | None:
        """Return the broker with the least under way; None if none of `brokers` may be used now.

        `chosen` has by address how many queries are about to begin.
        """
        usable = [each for each in brokers if not self.is_busy(each, now_ms)]
        return min(usable, key=lambda each: (self._under_way(each) + chosen.get(each, 0), each), default=None)

    def is_busy(self, address: str, now_ms: int) -> bool:
        """Return whether a broker waits for as many silent clients as it may, or could not be reached just now."""
        if (broker := self._brokers.get(address)) is None:
            return False
        broker.waited_for_ms = [sent_ms for sent_ms in broker.waited_for_ms if now_ms - sent_ms < RELAY_MS]
        return len(broker.waited_for_ms) >= WAITED_FOR_MAX or broker.unreachable_until_ms > now_ms

    def may_query(self, member: GroupMember, now_ms: int) -> bool:
        """Return whether a client may be queried out of turn: it is not silent, and no query of it is under way."""
        client = self._clients.get(member)
        return client is None or (not client.is_under_way and client.silent_until_ms <= now_ms)

    def started(self, query: ClientQuery, now_ms: int) -> None:
        """Note that a query is under way."""
        client = self._clients.setdefault(query.member, _PolledClient())
        client.sent_ms, client.is_under_way = now_ms, True
        broker = self._brokers.setdefault(query.address, _Broker())
        broker.under_way += 1
        broker.has_left = False

    def ended(self, query: ClientQuery) -> None:
        """Note that a query is over, whatever came of it."""
        if (client := self._clients.get(query.member)) is not None:
            client.is_under_way = False
        broker = self._brokers[query.address]
        broker.under_way -= 1
        if broker.has_left and not broker.under_way:
            del self._brokers[query.address]

    def answered(self, member: GroupMember) -> None:
        """Note that a client has answered: it is not silent."""
        if (client := self._clients.get(member)) is not None:
            client.silent_until_ms = client.silence_ms = 0

    def silent(self, query: ClientQuery, sent_ms: int, now_ms: int) -> None:
        """Note that a client has not answered in time, or nothing that can be read; its broker may wait for it."""
        # One that was forgotten meanwhile is lost: nobody would forget it again.
        if (client := self._clients.get(query.member)) is not None:
            client.silence_ms = min(2 * client.silence_ms, SILENT_MS_MAX) or SILENT_MS
            client.silent_until_ms = now_ms + client.silence_ms
        self._brokers.setdefault(query.address, _Broker()).waited_for_ms.append(sent_ms)

    def unreachable(self, address: str, now_ms: int) -> None:
        """Note that a broker could not be reached."""
        self._brokers.setdefault(address, _Broker()).unreachable_until_ms = now_ms + UNREACHABLE_MS

    def forget(self, members: Collection[GroupMember]) -> None:
        """Forget clients that are lost."""
        for member in members:
            self._clients.pop(member, None)

    def forget_brokers(self, addresses: Collection[str]) -> None:
        """Forget brokers that left; those through which queries are under way once these are over."""
        for address in addresses:
            if (broker := self._brokers.get(address)) is None:
                continue
            if broker.under_way:
                broker.has_left = True
            else:
                del self._brokers[address]

    def _candidates(self, table: QueueHolders, members: ListedMembers, now_ms: int) -> Iterator[GroupMember]:
        for group in members.lockable_groups():
            kind = table.kind_of(group)
            if kind is ConsumerKind.CONCURRENT:
                continue
            candidates = (
                member
                for client_id in members.clients_of(group)
                if self.may_query(member := GroupMember(group, client_id), now_ms)
            )
            if kind is ConsumerKind.ORDERLY:
                yield from candidates
            elif (first := next(candidates, None)) is not None:
                yield first

    def _due_ms(self, member: GroupMember, watched: Collection[str]) -> int:
        client = self._clients.get(member)
        if client is None or client.sent_ms is None:
            return 0
        return client.sent_ms + (WATCH_PERIOD_MS if member.group in watched else PERIOD_MS)

    def _watched(self, table: QueueHolders, now_ms: int) -> frozenset[str]:
        """Return the groups that hold queues at new masters: any of their clients may get one there."""
        return frozenset(member.group for name in self.watched(now_ms) for member in table.members_at(name))

    def _under_way(self, address: str) -> int:
        broker = self._brokers.get(address)
        return broker.under_way if broker is not None else 0
