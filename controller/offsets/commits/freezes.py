"""Freezes: while one lasts, nobody but its operation changes the offsets, or gets the locks, that it covers. Pure.

A freeze belongs to an operation: queue scaling, a migration. It ends with Thaw, or when the operation does not renew
it for the length of its lease: an operation that crashed blocks nobody for longer. Source: docs/protocol/offsets.md 7
and docs/protocol/queue-locks.md 7.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import msgspec

from controller.offsets.commits.entry_checks import problem_of_name
from controller.offsets.commits.refusals import FreezeRefused
from controller.offsets.commits.scopes import OffsetScope, scopes_of
from controller.offsets.values import GroupTopic, QueueKey

#: Freezes at a time: each costs every batch of commits a look.
FREEZES_MAX: Final = 64
#: Queues that one freeze may name one by one.
FROZEN_KEYS_MAX: Final = 10_000
#: Scopes of one freeze.
FROZEN_SCOPES_MAX: Final = 100
LEASE_MS_MIN: Final = 10_000
LEASE_MS_MAX: Final = 600_000
REASON_CHARACTERS_MAX: Final = 500


class Freeze(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation has frozen."""

    #: The id of the operation; a repeated freeze of it replaces the former one.
    operation: str
    #: Shown to everybody who is refused.
    reason: str
    scopes: tuple[OffsetScope, ...] = ()
    keys: frozenset[QueueKey] = frozenset()
    #: How long it lasts after it was made or renewed, in ms: LEASE_MS_MIN to LEASE_MS_MAX.
    lease_ms: int = 60_000

    @property
    def sentence(self) -> str:
        """Say who has frozen it, and why."""
        return f"frozen by operation {self.operation}: {self.reason}; repeat it when the operation has ended"


class FreezeChange(NamedTuple):
    """A freeze before and after; None: there is none."""

    operation: str
    before: Freeze | None
    after: Freeze | None


@dataclass(frozen=True, slots=True)
class RowFreezes:
    """The freezes that last in one row."""

    #: One that covers each of its queues.
    whole: Freeze | None = None
    #: Those that name some of its queues.
    some: tuple[Freeze, ...] = ()

    def of_queue(self, key: QueueKey) -> Freeze | None:
        """Return a freeze that covers a queue of the row."""
        return self.whole or next((each for each in self.some if key in each.keys), None)


_NO_FREEZES: Final = RowFreezes()


class FreezeTable:
    """The freezes, and when each was renewed. `apply` alone changes which there are."""

    def __init__(self) -> None:
        self._freezes: dict[str, Freeze] = {}
        #: Monotonic ms.
        self._renewed_ms: dict[str, int] = {}
        # Which operations cover what: commits of a thousand rows do not look at each freeze for each row.
        self._of_scope: dict[OffsetScope, set[str]] = {}
        self._of_row: dict[GroupTopic, set[str]] = {}

    @property
    def count(self) -> int:
        """Return how many there are, with those that have ended and were not taken out yet."""
        return len(self._freezes)

    def of_operation(self, operation: str) -> Freeze | None:
        """Return the freeze of an operation, ended or not."""
        return self._freezes.get(operation)

    def of_row(self, of: GroupTopic, now_ms: int, operation: str = "") -> RowFreezes:
        """Return the freezes that last in a row, without that of the operation that wants to change it."""
        if not self._freezes:
            return _NO_FREEZES
        whole = {each for scope in scopes_of(of) for each in self._of_scope.get(scope, ())}
        return RowFreezes(
            whole=next(self._lasting(whole, now_ms, operation), None),
            some=tuple(self._lasting(self._of_row.get(of, ()), now_ms, operation)),
        )

    def ended(self, now_ms: int) -> tuple[FreezeChange, ...]:
        """Return the end of each freeze whose operation has not renewed it; they freeze nothing any more already."""
        ended = [each for each in self._freezes.values() if self._is_ended(each, now_ms)]
        return tuple(FreezeChange(each.operation, each, None) for each in ended)

    def apply(self, change: FreezeChange, now_ms: int) -> None:
        """Make a change that was decided; also what was stored before a restart, whose leases begin again."""
        operation = change.operation
        before = self._freezes.pop(operation, None)
        if before is not None:
            del self._renewed_ms[operation]
            _take_out(self._of_scope, before.scopes, operation)
            _take_out(self._of_row, {key.of for key in before.keys}, operation)
        after = change.after
        if after is not None:
            self._freezes[operation] = after
            self._renewed_ms[operation] = now_ms
            _put_in(self._of_scope, after.scopes, operation)
            _put_in(self._of_row, {key.of for key in after.keys}, operation)

    def renew(self, operation: str, now_ms: int) -> Freeze:
        """Let a freeze last for its lease from now on. Not stored: a restart begins every lease again.

        Raises FreezeRefused if it has ended: others may have changed offsets since.
        """
        freeze = self._freezes.get(operation)
        if freeze is None or self._is_ended(freeze, now_ms):
            raise FreezeRefused(f"the freeze of operation {operation} has ended: check the offsets, then freeze again")
        self._renewed_ms[operation] = now_ms
        return freeze

    def _lasting(self, operations: Iterable[str], now_ms: int, operation: str) -> Iterator[Freeze]:
        for each in sorted(operations):
            freeze = self._freezes[each]
            if each != operation and not self._is_ended(freeze, now_ms):
                yield freeze

    def _is_ended(self, freeze: Freeze, now_ms: int) -> bool:
        return now_ms - self._renewed_ms[freeze.operation] > freeze.lease_ms


_CoveredT = TypeVar("_CoveredT", OffsetScope, GroupTopic)


def _put_in(index: dict[_CoveredT, set[str]], covered: Iterable[_CoveredT], operation: str) -> None:
    for each in covered:
        index.setdefault(each, set()).add(operation)


def _take_out(index: dict[_CoveredT, set[str]], covered: Iterable[_CoveredT], operation: str) -> None:
    for each in covered:
        operations = index.get(each, set())
        operations.discard(operation)
        if not operations:
            index.pop(each, None)


def decide_freeze(table: FreezeTable, freeze: Freeze) -> FreezeChange:
    """Return the freeze of an operation, in place of its former one. Raises FreezeRefused."""
    if problem := _problem_of(freeze):
        raise FreezeRefused(problem)
    before = table.of_operation(freeze.operation)
    if before is None and table.count >= FREEZES_MAX:
        raise FreezeRefused(f"{FREEZES_MAX} operations have frozen offsets already: wait for one, or thaw it")
    return FreezeChange(freeze.operation, before, freeze)


def decide_thaw(table: FreezeTable, operation: str) -> tuple[FreezeChange, ...]:
    """Return the end of an operation's freeze; empty if it has none, so that a thaw can be repeated."""
    before = table.of_operation(operation)
    return () if before is None else (FreezeChange(operation, before, None),)


def _problem_of(freeze: Freeze) -> str:
    if not freeze.operation.strip():
        return "the operation of the freeze is blank: name it, so that it can be thawed"
    if problem := problem_of_name(freeze.operation):
        return f"the operation {problem}"
    return _problem_of_reason(freeze) or _problem_of_extent(freeze)


def _problem_of_reason(freeze: Freeze) -> str:
    if len(freeze.reason) > REASON_CHARACTERS_MAX:
        return f"the reason has {len(freeze.reason)} characters, at most {REASON_CHARACTERS_MAX} are allowed"
    if not LEASE_MS_MIN <= freeze.lease_ms <= LEASE_MS_MAX:
        return f"a lease of {freeze.lease_ms} ms is not in {LEASE_MS_MIN} to {LEASE_MS_MAX} ms"
    return ""


def _problem_of_extent(freeze: Freeze) -> str:
    if not freeze.scopes and not freeze.keys:
        return "the freeze covers nothing: name groups, topics or queues"
    if len(freeze.keys) > FROZEN_KEYS_MAX:
        return f"{len(freeze.keys)} queues in one freeze, at most {FROZEN_KEYS_MAX} are allowed: name their topic"
    if len(freeze.scopes) > FROZEN_SCOPES_MAX:
        return f"{len(freeze.scopes)} scopes in one freeze, at most {FROZEN_SCOPES_MAX} are allowed"
    return ""
