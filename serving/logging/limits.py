"""How many lines of one kind are let through: a burst, then one now and then, and nothing that matters is lost.

A flapping broker or a port scan must not fill a disk. What is left out is counted, and the next line of its kind has
how many; an error that is held back comes as a line of its own when its pause is over. Pure but for its own tables:
time is an argument.
"""

from collections import Counter, OrderedDict
from collections.abc import MutableMapping
from typing import Any, Final

import msgspec

#: Lines of one event about one broker or peer that pass at once, and the time after which one more may.
BURST: Final = 5
REFILL_MS: Final = 10_000

#: The same for all lines together that are no errors.
TOTAL_BURST: Final = 2000
TOTAL_REFILL_MS: Final = 5

#: Buckets that are remembered; the least recently used go first.
BUCKETS_MAX: Final = 10_000

Line = MutableMapping[str, Any]

#: An event and whom it is about.
Subject = tuple[str, object]


class _Held(msgspec.Struct):
    """The latest of the errors that wait for their turn."""

    line: Line
    due_ms: int
    #: How many it stands for, beside itself.
    others: int = 0


class LogLimits(msgspec.Struct):
    #: Lines left out, by event.
    suppressed: Counter[str] = msgspec.field(default_factory=Counter)
    #: When the bucket of a subject is full again: nothing more of it is known, as there are thousands.
    _full_ms: OrderedDict[Subject, int] = msgspec.field(default_factory=OrderedDict)
    #: Lines left out since one passed.
    _left_out: dict[Subject, int] = msgspec.field(default_factory=dict)
    #: When the bucket of all lines together is.
    _total_full_ms: int = 0
    _held: OrderedDict[Subject, _Held] = msgspec.field(default_factory=OrderedDict)

    def passes(self, subject: Subject, line: Line, now_ms: int) -> bool:
        """Return whether a line passes; one that does gets `suppressed` if others did not."""
        if not self._take(subject, now_ms):
            self._left_out[subject] = self._left_out.get(subject, 0) + 1
            self.suppressed[subject[0]] += 1
            return False
        if not self.passes_total(subject[0], now_ms):
            self._left_out[subject] = self._left_out.get(subject, 0) + 1
            return False
        if self._left_out and (left_out := self._left_out.pop(subject, 0)):
            line["suppressed"] = left_out
        return True

    def passes_total(self, event: str, now_ms: int) -> bool:
        """Return whether a line passes that only the limit of all lines together holds for."""
        full_ms = max(self._total_full_ms, now_ms) + TOTAL_REFILL_MS
        if full_ms - now_ms <= TOTAL_BURST * TOTAL_REFILL_MS:
            self._total_full_ms = full_ms
            return True
        self.suppressed[event] += 1
        return False

    def error_passes(self, subject: Subject, line: Line, now_ms: int) -> bool:
        """Return whether an error passes now; else it is held, and those of its kind before it are counted in it."""
        held = self._held.get(subject)
        if held is None and self._take(subject, now_ms):
            return True
        if held is None:
            self._held[subject] = _Held(line, now_ms + REFILL_MS)
        else:
            held.line = line
            held.others += 1
            self.suppressed[subject[0]] += 1
        return False

    def due(self, now_ms: int) -> list[Line]:
        """Return the held errors whose time has come, and remove them."""
        due = [
            subject
            for number, (subject, held) in enumerate(self._held.items())
            if held.due_ms <= now_ms or number < len(self._held) - BUCKETS_MAX
        ]
        return [self._released(self._held.pop(subject)) for subject in due]

    def all_held(self) -> list[Line]:
        held = [self._released(each) for each in self._held.values()]
        self._held.clear()
        return held

    @staticmethod
    def _released(held: _Held) -> Line:
        if held.others:
            held.line["suppressed"] = held.others
        return held.line

    def _take(self, subject: Subject, now_ms: int) -> bool:
        full_ms = max(self._full_ms.pop(subject, now_ms), now_ms)
        has_one = full_ms - now_ms <= (BURST - 1) * REFILL_MS
        self._full_ms[subject] = full_ms + REFILL_MS if has_one else full_ms
        if len(self._full_ms) > BUCKETS_MAX:
            oldest, _ = self._full_ms.popitem(last=False)
            self._left_out.pop(oldest, None)
        return has_one
