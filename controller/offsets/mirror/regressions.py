"""Offsets that went back: what, when, from where to where, and what caused it. Pure.

Within one run of a master an offset goes back only because somebody has committed a smaller one, or has deleted it;
both are respected.
Between two runs it goes back because the new memory is older than the former one: what the guard restores.
Source: docs/protocol/offsets.md 8.2.
"""

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror.changes import MirrorChanges, OffsetMove, ReadState
from controller.offsets.mirror.masters import SetName

#: Regressions that are remembered, one for each queue and cause: about 500 bytes each.
REGRESSIONS_MAX: Final = 20_000
#: Resets that are remembered until a reading shows them.
RESETS_MAX: Final = 20_000
#: A reset explains what is seen within this time: readings are 5 s apart, and a consumer that is online may take 10 s.
RESET_SEEN_MS: Final = 60_000
#: A reading that was requested within this time may not show it yet: a restore may take that long to write.
RESET_SENT_MS: Final = 30_000


class RegressionCause(enum.StrEnum):
    """Why an offset went back."""

    #: Another broker is master, or the same one after another one: it has what it last copied.
    ROLE_CHANGE = "role_change"
    #: The master has started again with an older file of offsets.
    RESTART = "restart"
    #: It has started again, and its log ends before where it ended: an empty disk, an older copy, or a lost tail.
    DISK_REPLACED = "disk_replaced"
    #: An operator has reset the group by this service.
    OPERATOR_RESET = "operator_reset"
    #: The guard has set one back that was read before its write.
    GUARD = "guard"
    #: The same, or REWIND: another manager leads, and the run was new.
    GUARD_OR_REWIND = "guard_or_rewind"
    #: Somebody has committed a smaller offset: a client, or a tool that talks to brokers directly.
    REWIND = "rewind"
    #: Somebody has deleted it within a run of the master: a tool, or the broker with its topic or group.
    DELETED = "deleted"


#: What nobody has wanted.
UNWANTED: Final = frozenset({RegressionCause.ROLE_CHANGE, RegressionCause.RESTART, RegressionCause.DISK_REPLACED})


class SetQueue(NamedTuple):
    """One queue of a broker set that a group consumes."""

    set_name: SetName
    key: EntryKey
    queue_id: int


class Reset(NamedTuple):
    """An operator, or the guard, has set an offset of a group."""

    offset: int
    unix_ms: int

    def is_unseen(self, requested_unix_ms: int) -> bool:
        """Return whether a reading that was requested then may not show it yet."""
        return requested_unix_ms <= self.unix_ms + RESET_SENT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierResets:
    """What operators have set back by earlier processes of this manager, as far as its operations can be read."""

    #: The oldest first.
    known: Sequence[tuple[SetQueue, Reset]] = ()
    #: When the last operation began that cannot be read, Unix ms: it may have set any queue. None: all can be read.
    unknown_unix_ms: int | None = None
    #: What is wrong with each of those, and what to do.
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An offset that went back."""

    queue: SetQueue
    cause: RegressionCause
    #: When it was seen.
    unix_ms: int
    from_offset: int
    #: None: there is none any more, and consumers begin where their initial policy says.
    to_offset: int | None
    #: The readings before and after it, with epochs and boot times.
    former: ReadState
    now: ReadState
    #: How often it has happened to this queue for this cause, in all.
    times: int = 1

    @property
    def messages_again(self) -> int | None:
        """How many messages the group would read again, if all are still there; None if that is not known."""
        return None if self.to_offset is None else self.from_offset - self.to_offset


class AnyQueueReset(Mapping[tuple[EntryKey, int], int]):
    """Where queues were set, by entry and queue id, where any other one may have been set too: to 0, for all we know.

    Has every queue; iterates over those alone of which it is known.
    """

    def __init__(self, known: Mapping[tuple[EntryKey, int], int]) -> None:
        self._known = known

    def __getitem__(self, queue: tuple[EntryKey, int]) -> int:
        """Return where a queue was set; 0 where that is not known."""
        return self._known.get(queue, 0)

    def __iter__(self) -> Iterator[tuple[EntryKey, int]]:
        """Yield the queues of which it is known."""
        return iter(self._known)

    def __len__(self) -> int:
        """Return of how many queues it is known."""
        return len(self._known)


class KnownResets:
    """What operators have reset by this service, or its guard has set, until readings show it."""

    def __init__(self) -> None:
        self._resets: OrderedDict[SetQueue, Reset] = OrderedDict()
        #: When any queue may have been reset last, Unix ms; None: all resets are known.
        self._unknown_unix_ms: int | None = None

    def note_earlier(self, earlier: EarlierResets) -> None:
        """Remember what earlier processes have reset, or may have."""
        for queue, reset in earlier.known:
            self.note(queue, reset)
        self._unknown_unix_ms = earlier.unknown_unix_ms

    def note(self, queue: SetQueue, reset: Reset) -> None:
        """Remember a reset; the oldest ones are forgotten above RESETS_MAX."""
        self._resets.pop(queue, None)
        self._resets[queue] = reset
        if len(self._resets) > RESETS_MAX:
            self._resets.popitem(last=False)

    def forget(self, queue: SetQueue, reset: Reset) -> None:
        """Forget a reset that was not done, unless another one was noted since."""
        if self._resets.get(queue) == reset:
            del self._resets[queue]

    def explains(self, queue: SetQueue, move: OffsetMove, unix_ms: int) -> bool:
        """Return whether an offset went back for a reset: to it, or beyond as the group has consumed since."""
        reset = self._resets.get(queue)
        return (
            reset is not None
            and move.after is not None
            and move.after >= reset.offset
            and unix_ms - reset.unix_ms <= RESET_SEEN_MS
        )

    def unseen(self, set_name: SetName, requested_unix_ms: int) -> Mapping[tuple[EntryKey, int], int]:
        """Return the offsets, by entry and queue id, of resets that a reading requested then may not show yet."""
        known = {
            (queue.key, queue.queue_id): reset.offset
            for queue, reset in self._resets.items()
            if queue.set_name == set_name and reset.is_unseen(requested_unix_ms)
        }
        return AnyQueueReset(known) if self._may_be_any(requested_unix_ms) else known

    def is_unseen(self, queue: SetQueue, requested_unix_ms: int) -> bool:
        """Return whether a queue was reset, or may have been, where a reading requested then may not show it yet."""
        reset = self._resets.get(queue)
        is_known = reset is not None and reset.is_unseen(requested_unix_ms)
        return is_known or self._may_be_any(requested_unix_ms)

    def _may_be_any(self, requested_unix_ms: int) -> bool:
        unknown_ms = self._unknown_unix_ms
        return unknown_ms is not None and requested_unix_ms <= unknown_ms + RESET_SENT_MS


class GuardWrites:
    """What the guard may have set: known of this manager, and by the time alone where another one leads."""

    def __init__(self) -> None:
        #: By this manager.
        self.written: Final = KnownResets()
        #: When a new run was read first, by this process's clock, Unix ms.
        self._began_ms: dict[SetName, int] = {}

    def note_run(self, changes: MirrorChanges) -> None:
        """Note that another run has begun, if so."""
        if changes.former is not None and not changes.is_same_memory:
            self._began_ms[changes.set_name] = changes.now.answered_unix_ms

    def forget(self, set_name: SetName) -> None:
        """Forget when a run of a set has begun."""
        self._began_ms.pop(set_name, None)

    def cause_of(self, queue: SetQueue, move: OffsetMove, unix_ms: int, *, is_leading: bool) -> RegressionCause | None:
        """Return whether the guard has set an offset back, or may have; None if not."""
        if self.written.explains(queue, move, unix_ms):
            return RegressionCause.GUARD
        began_ms = self._began_ms.get(queue.set_name)
        is_new_run = began_ms is not None and 0 <= unix_ms - began_ms <= RESET_SEEN_MS
        return RegressionCause.GUARD_OR_REWIND if is_new_run and not is_leading else None


class KnownWrites(NamedTuple):
    """Who may have set offsets back on purpose, as far as this manager knows."""

    resets: KnownResets
    guard: GuardWrites
    #: This manager leads: no guard but its own writes.
    is_leading: bool


def regressions_of(changes: MirrorChanges, known: KnownWrites) -> Iterator[Regression]:
    """Yield what went back in a reading.

    The smallest offset that members of a broadcasting group have pulled goes back whenever one joins: that is none.
    """
    former = changes.former
    if former is None:
        return
    for key, moves, _ in (*changes.moved.decreased, *changes.moved.vanished):
        if key.kind is EntryKind.BROADCAST:
            continue
        for move in moves:
            assert move.before is not None, "it was somewhere before it went back"
            queue = SetQueue(changes.set_name, key, move.queue_id)
            yield Regression(
                queue=queue,
                cause=_cause_of(queue, move, changes, known) or cause_between(former, changes.now),
                unix_ms=changes.now.answered_unix_ms,
                from_offset=move.before,
                to_offset=move.after,
                former=former,
                now=changes.now,
            )


def _cause_of(queue: SetQueue, move: OffsetMove, changes: MirrorChanges, known: KnownWrites) -> RegressionCause | None:
    """Return what has caused one offset to go back within a run; None for what its two readings tell."""
    if not changes.is_same_memory:
        return None
    if move.after is None:
        return RegressionCause.DELETED
    unix_ms = changes.now.answered_unix_ms
    if known.resets.explains(queue, move, unix_ms):
        return RegressionCause.OPERATOR_RESET
    return known.guard.cause_of(queue, move, unix_ms, is_leading=known.is_leading)


def cause_between(former: ReadState, now: ReadState) -> RegressionCause:
    """Return why what one reading showed went back until the next one, as far as the two tell."""
    before, after = former.run, now.run
    if after.has_memory_of(before):
        return RegressionCause.REWIND
    if before.address != after.address or before.master_epoch != after.master_epoch:
        return RegressionCause.ROLE_CHANGE
    if (
        former.log_max_offset is not None
        and now.log_max_offset is not None
        and now.log_max_offset < former.log_max_offset
    ):
        return RegressionCause.DISK_REPLACED
    return RegressionCause.RESTART


class CauseTotals(NamedTuple):
    """What a cause has made go back since the start."""

    regressions: int = 0
    #: Of those with an offset afterwards.
    messages_again: int = 0


class RegressionLog:
    """The last regressions. A queue that goes back again and again for one cause has one entry, the newest."""

    def __init__(self, limit: int = REGRESSIONS_MAX) -> None:
        self._limit = limit
        self._by_queue: OrderedDict[tuple[SetQueue, RegressionCause], Regression] = OrderedDict()
        self.totals = dict.fromkeys(RegressionCause, CauseTotals())
        #: Entries that were forgotten for newer ones.
        self.dropped = 0

    def add(self, regression: Regression) -> Regression:
        """Remember and count a regression, and forget the oldest one above the limit; returns it with its times."""
        earlier = self._by_queue.get((regression.queue, regression.cause))
        if earlier is not None:
            regression = replace(regression, times=earlier.times + 1)
        self.restore(regression)
        totals = self.totals[regression.cause]
        again = totals.messages_again + (regression.messages_again or 0)
        self.totals[regression.cause] = CauseTotals(totals.regressions + 1, again)
        return regression

    def restore(self, regression: Regression) -> None:
        """Remember one that an earlier process has counted."""
        key = regression.queue, regression.cause
        self._by_queue.pop(key, None)
        self._by_queue[key] = regression
        if len(self._by_queue) > self._limit:
            self._by_queue.popitem(last=False)
            self.dropped += 1

    def restore_earlier(self, regressions: Iterable[Regression]) -> None:
        """Remember what an earlier process has counted, the oldest first, as from before all that is known here."""
        known, self._by_queue = self._by_queue, OrderedDict()
        for each in regressions:
            self.restore(each)
        for key, each in known.items():
            earlier = self._by_queue.get(key)
            self.restore(each if earlier is None else replace(each, times=earlier.times + each.times))

    def last(self, limit: int, is_wanted: Callable[[Regression], bool] = lambda _: True) -> Sequence[Regression]:
        """Return the last regressions of those that are wanted, the newest first."""
        return list(islice(filter(is_wanted, reversed(self._by_queue.values())), limit))

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._by_queue)
