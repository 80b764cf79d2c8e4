"""Two clients that hold one queue at the same time: what proves it, since when, and when it is over. Pure.

While a queue is handed over, two answers of different moments show two holders, and nothing is wrong. An overlap is
proved by answers around each other: one client had the same lock before and after a moment at which the other one had
it.
Source: docs/protocol/queue-locks.md 4 and 5.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final, NamedTuple

from controller.offsets.locks.holders import Confirmation, GroupMember, HeldGroupQueue, Holding, QueueHolders

#: Holders of one queue that are compared, those that answered last: more is a fault of the clients' ids.
HOLDERS_MAX: Final = 8
#: Overlaps that are remembered as open; further ones are found once some of these are over.
OPEN_MAX: Final = 10_000


class ClientPair(NamedTuple):
    """Two clients of one group by their ids, the smaller one first."""

    first: str
    second: str


class Overlap(NamedTuple):
    """Two clients that hold one queue."""

    queue: HeldGroupQueue
    clients: ClientPair


class OverlapEnd(enum.StrEnum):
    """Why an overlap is over."""

    #: A client answered that it has lost or dropped the queue.
    RELEASED = "released"
    #: A client does not trust its lock any more: it has not renewed it for 30 s.
    EXPIRED = "expired"
    #: A client is lost, or has not answered for 90 s.
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOverlap:
    """An overlap that is proved."""

    overlap: Overlap
    #: At the latest since then, monotonic ms.
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedOverlap:
    """An overlap that is over."""

    overlap: Overlap
    since_ms: int
    #: When it was seen to be over, monotonic ms.
    until_ms: int
    why: OverlapEnd


@dataclass(slots=True)
class OverlapChanges:
    """What answers have changed."""

    opened: list[OpenOverlap] = field(default_factory=list)
    closed: list[ClosedOverlap] = field(default_factory=list)


def proved_since(one: Holding, other: Holding) -> int | None:
    """Return since when, at the latest, both clients had the lock; None if nothing proves that they had it together."""
    if not one.may_consume or not other.may_consume:
        return None
    moments = [_both_held(one, other), *_confirmed_within(one, other), *_confirmed_within(other, one)]
    return min((each for each in moments if each is not None), default=None)


def _both_held(one: Holding, other: Holding) -> int | None:
    mine, its = one.held_from_to(), other.held_from_to()
    if mine is None or its is None:
        return None
    since_ms = max(mine.sent_ms, its.sent_ms)
    return since_ms if since_ms <= min(mine.received_ms, its.received_ms) else None


def _confirmed_within(one: Holding, other: Holding) -> list[int]:
    """Return when answers of the other client arrived that lie whole in the time for which one had the lock."""
    certain = one.held_from_to()
    if certain is None:
        return []
    return [each.received_ms for each in (other.first, other.last) if _is_within(each, certain)]


def _is_within(inner: Confirmation, outer: Confirmation) -> bool:
    return outer.sent_ms <= inner.sent_ms and inner.received_ms <= outer.received_ms


def suspects(table: QueueHolders, queue: HeldGroupQueue) -> tuple[GroupMember, ...]:
    """Return the clients that hold a queue by their last answers, the longest holder first; empty if it is just one.

    To prove or refute an overlap, query them in this order and then the first one again.
    """
    valid = [
        (holding.first.sent_ms, client_id)
        for client_id, holding in table.holders_of(queue).items()
        if holding.may_consume
    ]
    return tuple(GroupMember(queue.group, client_id) for _, client_id in sorted(valid)) if len(valid) > 1 else ()


class OpenOverlaps:
    """The overlaps that are proved and not over."""

    def __init__(self) -> None:
        self._open: dict[HeldGroupQueue, dict[ClientPair, int]] = {}
        self._count = 0

    def update(self, table: QueueHolders, queues: Collection[HeldGroupQueue], now_ms: int) -> OverlapChanges:
        """Compare the holders of queues whose holders have changed; return the overlaps that opened and closed."""
        changes = OverlapChanges()
        for queue in sorted(queues):
            self._close(table, queue, now_ms, changes)
            self._find(table, queue, changes)
        return changes

    def open_now(self) -> tuple[OpenOverlap, ...]:
        """Return all open overlaps, sorted."""
        return tuple(
            OpenOverlap(overlap=Overlap(queue, pair), since_ms=since_ms)
            for queue, pairs in sorted(self._open.items())
            for pair, since_ms in sorted(pairs.items())
        )

    def has(self, queue: HeldGroupQueue) -> bool:
        """Return whether an overlap of a queue is open."""
        return queue in self._open

    def __len__(self) -> int:
        """Return how many are open."""
        return self._count

    def _close(self, table: QueueHolders, queue: HeldGroupQueue, now_ms: int, changes: OverlapChanges) -> None:
        pairs = self._open.get(queue, {})
        for pair, since_ms in list(pairs.items()):
            ends = [end for each in pair if (end := _end_of(table, queue, each)) is not None]
            if ends:
                del pairs[pair]
                self._count -= 1
                overlap = Overlap(queue, pair)
                changes.closed.append(ClosedOverlap(overlap=overlap, since_ms=since_ms, until_ms=now_ms, why=ends[0]))
        if not pairs:
            self._open.pop(queue, None)

    def _find(self, table: QueueHolders, queue: HeldGroupQueue, changes: OverlapChanges) -> None:
        holders = table.holders_of(queue)
        latest = sorted(holders, key=lambda each: holders[each].last.received_ms)[-HOLDERS_MAX:]
        for first, second in combinations(sorted(latest), 2):
            pair = ClientPair(first, second)
            if pair in self._open.get(queue, {}) or self._count >= OPEN_MAX:
                continue
            if (since_ms := proved_since(holders[first], holders[second])) is not None:
                self._open.setdefault(queue, {})[pair] = since_ms
                self._count += 1
                changes.opened.append(OpenOverlap(overlap=Overlap(queue, pair), since_ms=since_ms))


def _end_of(table: QueueHolders, queue: HeldGroupQueue, client_id: str) -> OverlapEnd | None:
    if (holding := table.holders_of(queue).get(client_id)) is not None:
        if holding.is_over:
            return OverlapEnd.RELEASED
        return OverlapEnd.EXPIRED if holding.is_expired else None
    is_known = table.confirmed(GroupMember(queue.group, client_id)) is not None
    return OverlapEnd.RELEASED if is_known else OverlapEnd.LOST
