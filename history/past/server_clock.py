"""The clock of a server that was set while it ran: which of its moments had a time of day, and what it showed between.

Rows of one process have their order by its monotonic clock and their numbers; only a command names a time of day.
Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from history.past.rows import StoredRow
from history.server_rows import CLOCK_SET, ClockSet

#: So far apart two moments of one time of day are two.
_SAME_US: Final = 1_000_000
_EVER_US: Final = 2**62


class _Piece(NamedTuple):
    """While the time of day was ahead of the monotonic clock by the same, us of that clock."""

    since_us: int
    until_us: int
    offset_us: int


class ServerClock:
    """The clock of one process."""

    def __init__(self, lifecycle: Sequence[StoredRow]) -> None:
        """Take what is recorded of its lifecycle; nothing is known of a clock that was never set."""
        found = (row for row in lifecycle if row.event_type == CLOCK_SET and row.detail is not None)
        # Each change has two rows, by either time of day.
        changes = {row.mono_us: msgspec.json.decode(row.detail or "", type=ClockSet) for row in found}
        self._pieces = list(_pieces(sorted(changes.items())))

    @property
    def was_set(self) -> bool:
        """Whether it was."""
        return bool(self._pieces)

    def moments(self, unix_us: int) -> list[int]:
        """Return when it showed a time of day, in us of the monotonic clock, ascending; twice is possible, or never."""
        found: list[int] = []
        for piece in self._pieces:
            mono_us = unix_us - piece.offset_us
            if piece.since_us <= mono_us <= piece.until_us and not (found and mono_us - found[-1] <= _SAME_US):
                found.append(mono_us)
        return sorted(found)

    def last_before(self, unix_us: int) -> int:
        """Return the last moment before it was set over a time of day that it never showed."""
        ends = (piece.until_us for piece in self._pieces if piece.until_us + piece.offset_us <= unix_us)
        # What is recorded at that moment happened with the new time.
        return max(ends, default=0) - 1

    def spans(self, since_us: int, until_us: int) -> list[tuple[int, int]]:
        """Return which times of day, Unix us, it showed between two moments of the monotonic clock."""
        spans = []
        for piece in self._pieces:
            first, last = max(piece.since_us, since_us), min(piece.until_us, until_us)
            if first <= last:
                spans.append((first + piece.offset_us, last + piece.offset_us))
        return spans


def _pieces(changes: Sequence[tuple[int, ClockSet]]) -> Iterator[_Piece]:
    since_us = 0
    for mono_us, change in changes:
        # It was set at some moment after the row before.
        yield _Piece(since_us, mono_us, change.former_offset_us)
        since_us = change.since_mono_us
    if changes:
        yield _Piece(since_us, _EVER_US, changes[-1][1].offset_us)
