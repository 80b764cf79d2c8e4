"""Whether a recorded history of one queue can be put into an order that the model of its offset allows.

The history is followed in time, as in `set_checker.py`: all pairs of a position and a choice of operations that have
taken effect are kept, and the first answer that leaves no pair is the violation. An operation without an answer may
take effect at any later time: a commit of a killed manager is in its journal, and comes when that one is back.

A commit without an answer takes effect only where an answer under way shows its position: whatever else may follow it
may follow without it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from linearizability.offset_model import (
    COMMIT,
    Position,
    begun_epoch,
    epochs_shown,
    is_spent,
    positions_after,
    positions_shown,
)

#: Pairs looked at in one history before it is given up.
PAIRS_MAX = 2_000_000
_SHOWN_MAX = 30


class PlacedOperations(NamedTuple):
    """A position, and the operations under way that have taken effect on the way to it, or never will."""

    position: Position
    done: frozenset[int]


@dataclass
class OffsetVerdict:
    """What came of a check."""

    is_decided: bool = True
    #: The operation whose answer fits nothing.
    violation: object = None
    #: Where the queue could be before that, or in the end.
    positions: list = field(default_factory=list)
    #: The operations before the violation.
    history: list = field(default_factory=list)
    pairs: int = 0

    @property
    def holds(self):
        return self.is_decided and self.violation is None

    def __str__(self):
        if not self.is_decided:
            return f"not decided after {self.pairs} pairs of position and operations"
        if self.violation is None:
            return f"linearizable; {self.pairs} pairs"
        lines = [str(each) for each in self.history[-_SHOWN_MAX:]]
        lines += ["no order of these explains:", f"  {self.violation}", "before it the offset could only be at:"]
        return "\n".join([*lines, *(f"  {tuple(each)}" for each in self.positions)])


def check_offset(operations, *, pairs_max=PAIRS_MAX):
    """Check the history of one queue."""
    return _OffsetSearch(operations, pairs_max).run()


class _OffsetSearch:
    def __init__(self, operations, pairs_max):
        self._operations = sorted(operations, key=lambda each: (each.invoked_s, each.number))
        self._pairs_max = pairs_max
        shown = set().union(*(epochs_shown(each) for each in operations))
        begun = {begun_epoch(each) for each in operations}
        #: Those that only an operation which shows none can have begun.
        self._free_epochs = sorted(shown - begun)
        self._under_way = {}
        self._looked_at = 0

    def run(self):
        pairs = {PlacedOperations(Position(), frozenset())}
        for at_s, is_end, operation in self._events():
            if not is_end:
                self._under_way[operation.number] = operation
                continue
            after = self._after(pairs, operation)
            if after is None:
                return OffsetVerdict(is_decided=False, pairs=self._looked_at)
            if not after:
                before = [each for each in self._operations if each.invoked_s <= at_s and each is not operation]
                positions = sorted({pair.position for pair in pairs})
                return OffsetVerdict(True, operation, positions, before, self._looked_at)
            pairs = self._without({operation.number}, after)
            over = frozenset.intersection(*(pair.done for pair in pairs))
            pairs = self._without({each for each in over if self._under_way[each].answer is None}, pairs)
        return OffsetVerdict(positions=sorted({pair.position for pair in pairs}), pairs=self._looked_at)

    def _events(self):
        """Return when operations begin and end; at the same time, what begins comes first."""
        begins = [(each.invoked_s, False, each.number, each) for each in self._operations]
        ends = [(each.answered_s, True, each.number, each) for each in self._operations if each.answered_s is not None]
        return [(at_s, is_end, each) for at_s, is_end, _, each in sorted(begins + ends, key=lambda event: event[:3])]

    def _after(self, pairs, ending):
        """Return the pairs in which the operation that ends has taken effect; None if they are too many."""
        needed = set().union(*(positions_shown(each) for each in self._under_way.values()))
        after, seen, stack = set(), set(), list(pairs)
        while stack:
            pair = self._settled(stack.pop())
            if pair in seen:
                continue
            seen.add(pair)
            self._looked_at += 1
            if self._looked_at > self._pairs_max:
                return None
            if ending.number in pair.done:
                after.add(pair)
            else:
                stack += self._next(pair, needed)
        return after

    def _settled(self, pair):
        """Let all take effect that fits here and changes nothing, and give up what never will change anything."""
        position, done = pair
        more = {
            number
            for number, each in self._under_way.items()
            if number not in done and self._is_settled(each, position)
        }
        return PlacedOperations(position, done | more) if more else pair

    def _is_settled(self, operation, position):
        if operation.answer is None:
            return is_spent(operation, position)
        return position in positions_after(position, operation, self._free_epochs)

    def _next(self, pair, needed):
        """Return what one more effect makes of it; commits without an answer lead to needed positions only."""
        position, done = pair
        return [
            PlacedOperations(after, done | {number})
            for number, each in self._under_way.items()
            if number not in done and (each.answer is not None or each.kind != COMMIT or each.wanted in needed)
            for after in positions_after(position, each, self._free_epochs)
            if after != position
        ]

    def _without(self, numbers, pairs):
        """Follow these operations no more."""
        for number in numbers:
            del self._under_way[number]
        return {PlacedOperations(position, done - numbers) for position, done in pairs}
