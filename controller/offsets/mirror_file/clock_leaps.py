"""How old kept moments are, where the clock has leapt ahead, or no manager ran for long. Pure: times are Unix ms.

A moment grows old by the time that passes, not by what a clock shows: one that leaps ahead by weeks must not have all
given up that is kept. So it is remembered where the times of moments leap, and by how much.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from controller.offsets.mirror_file.thinning import HOUR_MS, KEPT_MS

#: A smaller leap makes moments a little older.
LEAP_MS: Final = HOUR_MS
#: Leaps that are remembered; of more the two oldest become one.
LEAPS_MAX: Final = 64


class ClockLeap(NamedTuple):
    """Moments until `at_ms` are younger by `by_ms` than they look."""

    at_ms: int
    by_ms: int


class ClockReading(NamedTuple):
    """What the clocks have shown."""

    #: Monotonic ms; None: by an earlier process.
    now_ms: int | None
    unix_ms: int


class MomentSpan(NamedTuple):
    """Moments without a leap between them."""

    #: They are later than that.
    after_ms: int
    #: The last one is not later than that.
    until_ms: int
    #: What the clock would show without the leaps since.
    now_ms: int


@dataclass(frozen=True, slots=True)
class ClockLeaps:
    """The leaps between the moments of a file, the oldest first."""

    leaps: tuple[ClockLeap, ...] = ()

    def passed(self, last: ClockReading, now: ClockReading) -> Self:
        """Return the leaps at a reading of the clocks that comes after another one.

        Those of a time to come are left out, as far as the clock was set back behind them.
        """
        in_between_ms = 0 if last.now_ms is None or now.now_ms is None else now.now_ms - last.now_ms
        leaps = [
            ClockLeap(each.at_ms, min(each.by_ms, now.unix_ms - each.at_ms))
            for each in self.leaps
            if each.at_ms < now.unix_ms
        ]
        leap = ClockLeap(last.unix_ms + in_between_ms, now.unix_ms - last.unix_ms - in_between_ms)
        if leap.by_ms > LEAP_MS:
            leaps.append(leap)
        if len(leaps) > LEAPS_MAX:
            first, second, *rest = leaps
            leaps = [ClockLeap(second.at_ms, first.by_ms + second.by_ms), *rest]
        found = type(self)(tuple(leaps))
        # Before some of them all is old.
        old = sum(1 for span in found.spans(now.unix_ms) if span.now_ms - span.until_ms > KEPT_MS)
        return type(self)(found.leaps[old:])

    def spans(self, unix_ms: int) -> Iterator[MomentSpan]:
        """Yield the spans of all moments until now, the oldest first."""
        after_ms, later_ms = -1, sum(each.by_ms for each in self.leaps)
        for at_ms, by_ms in self.leaps:
            yield MomentSpan(after_ms, at_ms, unix_ms - later_ms)
            after_ms, later_ms = at_ms, later_ms - by_ms
        yield MomentSpan(after_ms, max(unix_ms, after_ms), unix_ms)

    def old_before(self, unix_ms: int) -> int:
        """Return before when moments are older than KEPT_MS."""
        before_ms = 0
        for span in self.spans(unix_ms):
            before_ms = max(before_ms, min(span.until_ms + 1, span.now_ms - KEPT_MS))
            if before_ms <= span.until_ms:
                break
        return before_ms

    def age_ms(self, moment_ms: int, unix_ms: int) -> int:
        """Return how old a moment is; 0 for one that is to come."""
        return max(unix_ms - moment_ms - sum(each.by_ms for each in self.leaps if moment_ms <= each.at_ms), 0)
