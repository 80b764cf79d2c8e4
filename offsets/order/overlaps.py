"""Two clients that hold one queue at the same time: what proves it, since when, and when it is over. Pure.

While a queue is handed over, two answers of different moments show two holders, and nothing is wrong. The proof is an
answer of one client that lies whole within the time in which the other one had the same lock throughout.
Source: docs/protocol/queue-locks.md 4 and 5.
"""

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Final, NamedTuple

from offsets.order.events import BrokerLockOverlap, BrokerLockOverlapEnded
from offsets.order.holders import GroupQueue, Holders, Holding, Member
from serving.telemetry.events import Event

#: Holders of one queue that are compared, those that answered last: more is a fault of the clients' ids.
HOLDERS_MAX: Final = 8
#: Overlaps that are remembered as open; further ones are found once some of these are over.
OPEN_MAX: Final = 10_000


class Overlap(NamedTuple):
    """Two clients that hold one queue, by their ids, the smaller one first."""

    queue: GroupQueue
    clients: tuple[str, str]


def proved_since(one: Holding, other: Holding) -> int | None:
    """Return since when, at the latest, both clients had the lock; None if nothing proves that they had it together."""
    if not one.may_consume or not other.may_consume:
        return None
    return min((*_answers_within(one, other), *_answers_within(other, one)), default=None)


def _answers_within(one: Holding, other: Holding) -> Iterator[int]:
    """Yield when answers of the other client arrived that lie whole between the first and the last answer of one.

    A client that does not report when it locked may have lost the lock and got it back between two answers.
    """
    if one.locked_unix_ms is not None:
        for answer in (other.first, other.last):
            if one.first.received_ms <= answer.sent_ms and answer.received_ms <= one.last.sent_ms:
                yield answer.received_ms


def suspects(holders: Holders, queue: GroupQueue) -> tuple[Member, ...]:
    """Return the clients that hold a queue by their last answers, the longest holder first; empty if it is just one.

    To prove or refute an overlap, ask them again in this order.
    """
    held = holders.holders_of(queue).items()
    valid = sorted((holding.first.sent_ms, client_id) for client_id, holding in held if holding.may_consume)
    return tuple(Member(queue.of, client_id) for _, client_id in valid) if len(valid) > 1 else ()


class Overlaps:
    """The overlaps that are proved and not over."""

    def __init__(self) -> None:
        #: Since when, monotonic ms, by queue and clients.
        self._open: dict[GroupQueue, dict[tuple[str, str], int]] = {}

    def update(self, holders: Holders, queues: Collection[GroupQueue], now_ms: int) -> list[Event]:
        """Compare the holders of queues that have changed, and return the events of overlaps that began and ended."""
        events: list[Event] = []
        for queue in sorted(queues):
            events += self._ended(holders, queue, now_ms)
            events += self._began(holders, queue)
        return events

    def open_now(self) -> dict[Overlap, int]:
        """Return all open overlaps in their order, and since when, monotonic ms."""
        found = {Overlap(queue, pair): since for queue, pairs in self._open.items() for pair, since in pairs.items()}
        return dict(sorted(found.items()))

    def has(self, queue: GroupQueue) -> bool:
        return queue in self._open

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def _ended(self, holders: Holders, queue: GroupQueue, now_ms: int) -> Iterator[Event]:
        pairs = self._open.get(queue, {})
        for pair, since_ms in list(pairs.items()):
            if reason := _end_of(holders, queue, pair[0]) or _end_of(holders, queue, pair[1]):
                del pairs[pair]
                duration_ms = now_ms - since_ms
                yield BrokerLockOverlapEnded(queue=queue, clients=pair, reason=reason, duration_ms=duration_ms)
        if not pairs:
            self._open.pop(queue, None)

    def _began(self, holders: Holders, queue: GroupQueue) -> Iterator[Event]:
        held = holders.holders_of(queue)
        latest = sorted(held, key=lambda client_id: held[client_id].last.received_ms)[-HOLDERS_MAX:]
        for pair in combinations(sorted(latest), 2):
            if pair in self._open.get(queue, {}) or (since_ms := proved_since(held[pair[0]], held[pair[1]])) is None:
                continue
            if len(self) < OPEN_MAX:
                self._open.setdefault(queue, {})[pair] = since_ms
                yield BrokerLockOverlap(queue=queue, clients=pair)


def _end_of(holders: Holders, queue: GroupQueue, client_id: str) -> str:
    """Return why a client does not consume a queue any more; blank if it may."""
    if (holding := holders.holders_of(queue).get(client_id)) is None:
        has_answered = holders.client(Member(queue.of, client_id)).confirmed is not None
        return "released" if has_answered else "lost"
    return "released" if holding.is_over else "expired" if holding.is_expired else ""
