"""Which client is asked when for the queues that it holds (307), and through which broker. Pure.

A broker keeps one of its 16 threads for administration busy with each 307 until the client answers, 10 s at most.
Reading an answer costs this process about 1 ms for 16 queues: 1000 clients a second would take a core. So:

- each client of an orderly group is asked each PERIOD_MS, or more rarely where that were more than RATE_MAX a second;
- for WATCH_MS after a promotion the groups that hold queues there are asked each WATCH_PERIOD_MS: holders trust their
  old locks for 30 s, and a client that gets a queue gets its lock at once;
- polling does not confirm holders within 2 s: they are asked when their master fails (`replay.py`);
- of a group of which nobody knows yet how it consumes, one client is asked, and of one that is not orderly none.
"""

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from offsets.order.holders import CLIENT_VALIDITY_MS, ConsumerKind, Holders, Member, OrderlyGroup
from offsets.values import SetName

#: How often each client of an orderly group is asked.
PERIOD_MS: Final = 10_000
#: Requests a second to all clients, apart from those about suspects and replays.
RATE_MAX: Final = 100
WATCH_PERIOD_MS: Final = 2000
#: How long after a promotion: as long as clients trust locks of the former master, and one period.
WATCH_MS: Final = CLIENT_VALIDITY_MS + WATCH_PERIOD_MS
#: How long a broker waits for a client, and one of its threads with it.
RELAY_MS: Final = 10_000
#: Silent clients that one broker may wait for; other clients are asked through others. With as many requests under
#: way, less than twice as many of its threads are busy.
WAITED_FOR_MAX: Final = 4
#: How long a client that did not answer is left alone; twice as long after each further time, up to the second.
SILENT_MS: Final = 10_000
SILENT_MS_MAX: Final = 480_000
#: How long a broker that could not be reached is not used.
UNREACHABLE_MS: Final = 2000

_NONE_CHOSEN: Final[Mapping[str, int]] = MappingProxyType({})


class Query(NamedTuple):
    """A client to be asked through the broker at "host:port"."""

    member: Member
    address: str


class QueryEnd(enum.Enum):
    """How a query ended."""

    ANSWERED = enum.auto()
    #: The client did not answer in time, or not readably; the broker may still wait for it.
    SILENT = enum.auto()
    #: The broker does not have the client, or nothing was sent.
    REFUSED = enum.auto()
    #: The broker could not be reached.
    UNREACHABLE = enum.auto()


@dataclass(slots=True)
class _Asked:
    """When one client was asked, and since when it is silent."""

    sent_ms: int
    silence_ms: int = 0
    silent_until_ms: int = 0


@dataclass(slots=True)
class _Relay:
    """A broker through which clients are asked."""

    under_way: int = 0
    #: When requests were sent whose clients did not answer in time.
    silent_ms: list[int] = field(default_factory=list)
    unreachable_until_ms: int = 0

    def is_busy(self, now_ms: int) -> bool:
        """Return whether it waits for as many silent clients as it may, or could not be reached just now."""
        self.silent_ms = [sent_ms for sent_ms in self.silent_ms if now_ms - sent_ms < RELAY_MS]
        return len(self.silent_ms) >= WAITED_FOR_MAX or self.unreachable_until_ms > now_ms

    def is_idle(self, now_ms: int) -> bool:
        """Return whether nothing has to be remembered of it."""
        return not (self.is_busy(now_ms) or self.silent_ms or self.under_way)


class PollPlan:
    """When clients were asked, what brokers still wait for, and which sets have a new master."""

    def __init__(self) -> None:
        self._asked: dict[Member, _Asked] = {}
        self._relays: dict[str, _Relay] = {}
        self._watches: dict[SetName, tuple[str, int]] = {}

    def watch(self, set_name: SetName, address: str, now_ms: int) -> None:
        """Ask the groups with queues of a broker set more often: it has a new master, at "host:port"."""
        self._watches[set_name] = address, now_ms + WATCH_MS

    def watched(self, now_ms: int) -> dict[SetName, str]:
        """Return the sets whose masters are new, with the addresses of these."""
        self._watches = {name: watch for name, watch in self._watches.items() if watch[1] > now_ms}
        return {name: address for name, (address, _) in self._watches.items()}

    def due(
        self, holders: Holders, now_ms: int, queries_max: int, under_way: Collection[Member] = ()
    ) -> list[Query]:
        """Return the clients to be asked now, those that wait longest first; `under_way` are those asked already."""
        often = {member.of for set_name in self.watched(now_ms) for member in holders.members_at(set_name)}
        waiting = sorted(
            (due_ms, member)
            for member in self._candidates(holders, now_ms, under_way)
            if (due_ms := self._due_ms(member, often)) <= now_ms
        )
        found: list[Query] = []
        chosen: dict[str, int] = {}
        for _, member in waiting:
            if len(found) >= queries_max:
                break
            if (address := self.route(holders.brokers_of(member), now_ms, chosen)) is not None:
                found.append(Query(member, address))
                chosen[address] = chosen.get(address, 0) + 1
        return found

    def route(
        self, brokers: Collection[str], now_ms: int, chosen: Mapping[str, int] = _NONE_CHOSEN
    ) -> str | None:
        """Return the broker with the least under way; None if none of `brokers` may be used now.

        `chosen` has by address how many queries are about to begin.
        """
        usable = [address for address in brokers if not self.is_busy(address, now_ms)]
        return min(usable, key=lambda address: (self._load(address) + chosen.get(address, 0), address), default=None)

    def is_busy(self, address: str, now_ms: int) -> bool:
        """Return whether no client may be asked through a broker now."""
        return (relay := self._relays.get(address)) is not None and relay.is_busy(now_ms)

    def is_silent(self, member: Member, now_ms: int) -> bool:
        """Return whether a client is left alone, as it did not answer."""
        return (asked := self._asked.get(member)) is not None and asked.silent_until_ms > now_ms

    def started(self, query: Query, now_ms: int) -> None:
        """Note that a query is under way."""
        self._asked.setdefault(query.member, _Asked(now_ms)).sent_ms = now_ms
        self._relays.setdefault(query.address, _Relay()).under_way += 1

    def ended(self, query: Query, end: QueryEnd, sent_ms: int, now_ms: int) -> None:
        """Note what came of a query that was sent at `sent_ms`."""
        relay = self._relays[query.address]
        relay.under_way -= 1
        if end is QueryEnd.UNREACHABLE:
            relay.unreachable_until_ms = now_ms + UNREACHABLE_MS
        if end is QueryEnd.SILENT:
            relay.silent_ms.append(sent_ms)
        # A client that was forgotten meanwhile stays so.
        if (asked := self._asked.get(query.member)) is None:
            return
        if end is QueryEnd.ANSWERED:
            asked.silence_ms = asked.silent_until_ms = 0
        elif end is QueryEnd.SILENT:
            asked.silence_ms = min(2 * asked.silence_ms, SILENT_MS_MAX) or SILENT_MS
            asked.silent_until_ms = now_ms + asked.silence_ms

    def forget_ended(self, holders: Holders, now_ms: int) -> None:
        """Forget clients that are unknown by now, and brokers of which nothing has to be remembered."""
        self._asked = {member: asked for member, asked in self._asked.items() if holders.knows(member)}
        self._relays = {address: relay for address, relay in self._relays.items() if not relay.is_idle(now_ms)}

    def _candidates(self, holders: Holders, now_ms: int, under_way: Collection[Member]) -> Iterator[Member]:
        for of in holders.groups():
            kind = holders.kind_of(of)
            if kind is ConsumerKind.CONCURRENT or not holders.may_lock(of):
                continue
            candidates = (
                member
                for client_id in holders.clients_of(of)
                if (member := Member(of, client_id)) not in under_way and not self.is_silent(member, now_ms)
            )
            if kind is ConsumerKind.ORDERLY:
                yield from candidates
            elif (first := next(candidates, None)) is not None:
                yield first

    def _due_ms(self, member: Member, often: Collection[OrderlyGroup]) -> int:
        if (asked := self._asked.get(member)) is None:
            return 0
        return asked.sent_ms + (WATCH_PERIOD_MS if member.of in often else PERIOD_MS)

    def _load(self, address: str) -> int:
        return relay.under_way if (relay := self._relays.get(address)) is not None else 0
