"""What became of locks at brokers since the start, counted; touched by the loop alone."""

from typing import Final

from controller.offsets.locks.replay_rules import ReplayOutcome
from serving.metrics.counters import CounterTable, Histogram

#: Nothing is replayed later than 3 s after a promotion.
_REPLAY_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3)


class HoldingCounters:
    """Counts about holders at brokers."""

    def __init__(self) -> None:
        self.replays = CounterTable(known=[(each.value,) for each in ReplayOutcome])
        #: Seconds from a promotion until a lock was granted.
        self.replay_seconds = Histogram(_REPLAY_S)
        self.released = 0
        self.overlaps = 0
        self.query_failures = 0
