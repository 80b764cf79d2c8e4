"""What the guard has done since the start, counted; touched by the loop alone."""

from typing import Final

from controller.offsets.guard_runs.occasions import GuardCause
from controller.offsets.guard_runs.run_log import RunResult
from serving.metrics.counters import CounterTable, Histogram

#: How long a run takes: 10 s at most.
_RUN_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class GuardCounters:
    """What the guard counts."""

    def __init__(self) -> None:
        #: By cause and result.
        self.runs = CounterTable(known=[(cause.value, result.value) for cause in GuardCause for result in RunResult])
        #: By action, reason and outcome; all three are of fixed lists.
        self.offsets = CounterTable()
        #: Groups whose members were sent back after a run, by result; a group counts each time.
        self.member_resets = CounterTable(known=[(result,) for result in ("sent", "refused")])
        self.seconds = Histogram(_RUN_S)
