"""Whether a recorded history of one set can be put into an order that the sequential model allows.

As Wing and Gong describe it, in the form of Lowe ("Testing for linearizability"): the history is followed in time, and
all pairs of a state and a choice of operations that have taken effect are kept. An operation takes effect as late as
possible, when some answer needs it. The first answer that leaves no pair is the violation; what came before is the
shortest prefix that shows it.

What is known of the model makes this quick: an operation that changes nothing takes effect as soon as it may, and as
master epochs never go back, no state can be beyond the lowest epoch that an answer shows later.
"""

import bisect
import itertools
import math
import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from linearizability.lives import Moment
from linearizability.set_model import OK, QUESTIONS, SetState, by_itself, epoch_shown, results

#: How long after it began an operation without an answer may take effect: far longer than any deadline of a controller
#: or of etcd.
LATE_S = 20.0
#: Pairs looked at in one history before it is given up.
PAIRS_MAX = 2_000_000
#: How long a violation is made shorter.
SHRINK_S = 10.0
_SHOWN_MAX = 40
#: How many elections nobody need have seen at the end of a history.
_UNSEEN_ELECTIONS = 3


class Pair(NamedTuple):
    """A state, and the operations under way that have taken effect on the way to it."""

    state: SetState
    done: frozenset[int]


@dataclass
class Verdict:
    """What came of a check."""

    is_decided: bool = True
    #: The operation whose answer fits nothing.
    violation: object = None
    #: In which states the set could be before that, or in the end.
    states: list = field(default_factory=list)
    #: The operations that show it.
    history: list = field(default_factory=list)
    pairs: int = 0
    pairs_at_once: int = 0

    @property
    def holds(self):
        return self.is_decided and self.violation is None

    def __str__(self):
        if not self.is_decided:
            return f"not decided after {self.pairs} pairs of state and operations"
        if self.violation is None:
            return f"linearizable; {self.pairs} pairs, {self.pairs_at_once} at once"
        left_out = len(self.history) - _SHOWN_MAX
        lines = [f"(and {left_out} operations before)"] if left_out > 0 else []
        lines += [str(each) for each in self.history[-_SHOWN_MAX:]]
        lines += ["no order of these explains:", f"  {self.violation}", "before it the set could only be in:"]
        return "\n".join([*lines, *(f"  {state}" for state in self.states)])


class TooMany(Exception):
    """More pairs than anybody wants to wait for."""


def check(operations, lives, *, pairs_max=PAIRS_MAX):
    """Check one set's history, and make a violation short."""
    verdict = _check(operations, lives, pairs_max)
    if verdict.violation is None:
        return verdict
    prefix = _shortest_prefix(operations, lives, pairs_max)
    failed = max(prefix, key=lambda each: each.answered_s or 0)
    verdict.violation = failed
    verdict.states = _check(_without(prefix, [failed]), lives, pairs_max).states
    verdict.history = _without(_shortened(prefix, failed, lives, pairs_max), [failed])
    return verdict


def _check(operations, lives, pairs_max):
    search = _Search(operations, lives, pairs_max)
    try:
        return search.run()
    except TooMany:
        return Verdict(is_decided=False, pairs=search.pairs)


def _shortest_prefix(operations, lives, pairs_max):
    """Return what had happened when an answer first fitted nothing: the check of a whole history looks ahead."""
    ends = sorted(each.answered_s for each in operations if each.answered_s is not None)
    place = bisect.bisect_left(
        ends, True, key=lambda at_s: _check(_until(operations, at_s), lives, pairs_max).violation is not None
    )
    return _until(operations, ends[min(place, len(ends) - 1)])


def _until(operations, at_s):
    begun = [each for each in operations if each.invoked_s <= at_s]
    return [
        each if each.answered_s is None or each.answered_s <= at_s else replace(each, answered_s=None, answer=None)
        for each in begun
    ]


def _shortened(prefix, failed, lives, pairs_max):
    """Leave out what changes nothing as long as no order explains the rest.

    Operations that may change something stay: without them others would not fit for a new reason.
    """
    ends_s = time.perf_counter() + SHRINK_S
    kept = prefix
    chunk = max(1, len(kept) // 2)
    while chunk:
        start = 0
        while start < len(kept) and time.perf_counter() < ends_s:
            part = [each for each in kept[start : start + chunk] if _changes_nothing(each) and each != failed]
            if part and _check(_without(kept, part), lives, pairs_max).violation is not None:
                kept = _without(kept, part)
            else:
                start += chunk
        chunk //= 2
    return kept


def _without(operations, others):
    numbers = {each.number for each in others}
    return [each for each in operations if each.number not in numbers]


def _changes_nothing(operation):
    """Tell whether the operation is a question, or was refused."""
    return operation.answer is not None and (operation.code in QUESTIONS or operation.answer[0] != OK)


class _Search:
    def __init__(self, operations, lives, pairs_max):
        self._operations = sorted(operations, key=lambda each: (each.invoked_s, each.number))
        self._lives = lives
        self._pairs_max = pairs_max
        self._under_way = {}
        self._shown = {each.number: epoch_shown(each) for each in operations}
        self._later_epochs = self._epochs_from_here()
        self._invoked = [each.invoked_s for each in self._operations]
        self._low_s = -math.inf
        self.pairs = 0

    def run(self):
        pairs = {Pair(SetState(), frozenset())}
        at_once = 1
        for at_s, kind, operation in self._events():
            if kind == _BEGINS:
                self._under_way[operation.number] = operation
                continue
            if kind == _EXPIRES:
                del self._under_way[operation.number]
                pairs = {Pair(state, done - {operation.number}) for state, done in pairs}
                continue
            after = self._after(pairs, operation, at_s)
            if not after:
                return Verdict(violation=operation, pairs=self.pairs, pairs_at_once=at_once)
            del self._under_way[operation.number]
            self._low_s = max(self._low_s, operation.invoked_s)
            pairs, at_once = after, max(at_once, len(after))
        states = sorted({str(pair.state) for pair in pairs})
        return Verdict(pairs=self.pairs, pairs_at_once=at_once, states=states)

    def _events(self):
        events = []
        for each in self._operations:
            events.append((each.invoked_s, _BEGINS, each.number, each))
            if each.answered_s is None:
                events.append((each.invoked_s + LATE_S, _EXPIRES, each.number, each))
            else:
                events.append((each.answered_s, _ENDS, each.number, each))
        events.sort(key=lambda event: event[:3])
        return [(at_s, kind, each) for at_s, kind, _, each in events]

    def _epochs_from_here(self):
        """Return for each operation, by its place, the lowest epoch that it or a later one shows."""
        shown = (self._shown[each.number] for each in reversed(self._operations))
        lowest = itertools.accumulate((math.inf if each is None else each for each in shown), min)
        return [*reversed(list(lowest)), self._highest() + _UNSEEN_ELECTIONS]

    def _highest(self):
        return max((each for each in self._shown.values() if each is not None), default=0)

    def _after(self, pairs, ending, at_s):
        """Return the pairs in which the operation that ends has taken effect."""
        turn = _Turn(self._under_way, self._shown, Moment(self._lives, self._low_s, at_s))
        place = bisect.bisect_right(self._invoked, at_s)
        later_epoch = min(self._later_epochs[place], self._later_epochs[-1])
        after, seen = [], set()
        stack = list(pairs)
        while stack:
            pair = turn.settled(stack.pop())
            if pair in seen or pair.state.master_epoch > min(later_epoch, turn.epoch_awaited(pair.done)):
                continue
            seen.add(pair)
            self.pairs += 1
            if self.pairs > self._pairs_max:
                raise TooMany
            if ending.number in pair.done:
                after.append(Pair(pair.state, pair.done - {ending.number}))
            else:
                stack += turn.next(pair)
        return turn.strongest(after)


class _Turn:
    """What may happen until one answer comes."""

    def __init__(self, under_way, shown, moment):
        self._moment = moment
        self._under_way = under_way
        self._unanswered = frozenset(number for number, each in under_way.items() if each.answer is None)
        self._awaited = sorted((shown[number], number) for number in under_way if shown[number] is not None)
        self._effects = {}

    def epoch_awaited(self, done):
        """Return the lowest epoch that an answer under way still shows."""
        return next((epoch for epoch, number in self._awaited if number not in done), math.inf)

    def settled(self, pair):
        """Let everything take effect that fits here and changes nothing."""
        fitting = self._effects_in(pair.state)[0]
        return pair if fitting <= pair.done else Pair(pair.state, pair.done | fitting)

    def next(self, pair):
        """Return what one more effect makes of it."""
        state, done = pair
        _, changes = self._effects_in(state)
        found = [Pair(after, done) for after in by_itself(state, self._moment)]
        return found + [Pair(after, done | {number}) for number, after in changes if number not in done]

    def strongest(self, pairs):
        """Leave out who has used up an operation without answer that another one, in the same state, still has."""
        kept = {}
        for pair in sorted(set(pairs), key=lambda each: len(each.done)):
            used = pair.done & self._unanswered
            others = kept.setdefault((pair.state, pair.done - used), [])
            if not any(other <= used for other in others):
                others.append(used)
        return {Pair(state, answered | used) for (state, answered), others in kept.items() for used in others}

    def _effects_in(self, state):
        """Return the operations that fit and change nothing, and all changes with the operations that make them."""
        known = self._effects.get(state)
        if known is None:
            fitting, changes = set(), []
            for number, each in self._under_way.items():
                for after, answer in results(state, each, self._moment):
                    if after != state and each.answer in (None, answer):
                        changes.append((number, after))
                    elif after == state and answer == each.answer:
                        fitting.add(number)
            known = self._effects[state] = frozenset(fitting), changes
        return known


#: At the same time, what begins comes first: it may have taken effect before what ends then.
_BEGINS, _ENDS, _EXPIRES = range(3)
