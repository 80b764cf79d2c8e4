"""Which client is asked when for the queues that it holds (307), and through which broker. Pure.

A broker keeps one of its 16 threads for administration busy with each 307 until the client answers, 10 s at most.
Reading an answer costs this process about 1 ms for 16 queues: 1000 clients a second would take a core. So:

- each client of an orderly group is asked each PERIOD_MS, so that most holders are confirmed (FRESH_MS) when their
  master fails: clients that come by a role address are connected to no other broker through which they could be asked
  then. Where that were more than RATE_MAX a second, clients are asked more rarely;
- of a group of which nobody knows yet how it consumes, one client is asked, and of one that is not orderly none.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from offsets.order.holders import ConsumerKind, Holders, Member

#: How often each client of an orderly group is asked.
PERIOD_MS: Final = 1000
#: Requests a second to all clients, apart from those about suspects and replays.
RATE_MAX: Final = 100
#: How long a broker waits for a client, and one of its threads with it.
RELAY_MS: Final = 10_000
#: Silent clients that one broker may wait for; other clients are asked through others. With as many requests under
#: way, less than twice as many of its threads are busy.
WAITED_FOR_MAX: Final = 4
#: How long a client that did not answer is left alone.
SILENT_MS: Final = 10_000


class PollPlan:
    """Which clients are due, and what brokers still wait for."""

    def __init__(self, holders: Holders) -> None:
        self._holders = holders
        #: By the address of a broker, the queries that are under way through it.
        self._under_way: Counter[str] = Counter()
        #: And when those were sent that the client did not answer in time.
        self._waited_for_ms: dict[str, list[int]] = {}

    def due(self, now_ms: int, under_way: Collection[Member] = ()) -> list[Member]:
        """Return the clients that are due, those that wait longest first; `under_way` are those asked already."""
        waiting = []
        for member in self._candidates(now_ms, under_way):
            asked_ms = self._holders.client(member).asked_ms
            if asked_ms is None or now_ms - asked_ms >= PERIOD_MS:
                waiting.append((asked_ms or 0, member))
        return [member for _, member in sorted(waiting)]

    def route(self, brokers: Collection[str], now_ms: int) -> str | None:
        """Return the broker with the least under way; None if none of `brokers` may be used now."""
        usable = [address for address in brokers if not self.is_busy(address, now_ms)]
        return min(usable, key=lambda address: (self._under_way[address], address), default=None)

    def is_busy(self, address: str, now_ms: int) -> bool:
        """Return whether a broker waits for as many silent clients as it may."""
        waited_for = [sent_ms for sent_ms in self._waited_for_ms.pop(address, ()) if now_ms - sent_ms < RELAY_MS]
        if waited_for:
            self._waited_for_ms[address] = waited_for
        return len(waited_for) >= WAITED_FOR_MAX

    def is_silent(self, member: Member, now_ms: int) -> bool:
        """Return whether a client is left alone, as it did not answer."""
        return self._holders.client(member).silent_until_ms > now_ms

    def started(self, member: Member, address: str, now_ms: int) -> None:
        """Note that a client is asked through the broker at "host:port"."""
        self._holders.client(member).asked_ms = now_ms
        self._under_way[address] += 1

    def ended(self, address: str) -> None:
        """Note that a query through a broker is over, whatever came of it."""
        self._under_way[address] -= 1
        if not self._under_way[address]:
            del self._under_way[address]

    def silent(self, member: Member, address: str, sent_ms: int, now_ms: int) -> None:
        """Note that a client has not answered in time, or not readably; its broker may still wait for it."""
        self._holders.client(member).silent_until_ms = now_ms + SILENT_MS
        self._waited_for_ms.setdefault(address, []).append(sent_ms)

    def _candidates(self, now_ms: int, under_way: Collection[Member]) -> Iterator[Member]:
        for of in self._holders.groups():
            if (kind := self._holders.kind_of(of)) is ConsumerKind.CONCURRENT:
                continue
            candidates = (
                member
                for member in self._holders.members_of(of)
                if member not in under_way and not self.is_silent(member, now_ms)
            )
            if kind is ConsumerKind.ORDERLY:
                yield from candidates
            elif (first := next(candidates, None)) is not None:
                yield first
