"""What the mirror of brokers' offsets counts; touched by the loop alone."""

from typing import Final

from controller.offsets.mirror.regressions import RegressionCause
from serving.metrics.counters import CounterTable

_RESULTS: Final = [("ok",), ("failed",)]


class MirrorCounters:
    """Counts since the start."""

    def __init__(self) -> None:
        causes = [(cause.value,) for cause in RegressionCause]
        self.regressions = CounterTable(known=causes)
        #: Only of regressions with an offset afterwards.
        self.messages_again = CounterTable(known=causes)
        self.polls = CounterTable(known=_RESULTS)
        self.unusable_entries = 0
        self.stores = CounterTable(known=_RESULTS)
        #: Of the file, in use.
        self.file_bytes = 0
