"""What the mirror of brokers' offsets counts; touched by the loop alone."""

from controller.offsets.mirror.regressions import RegressionCause
from serving.metrics.counters import CounterTable


class MirrorCounters:
    """Counts since the start."""

    def __init__(self) -> None:
        causes = [(cause.value,) for cause in RegressionCause]
        self.regressions = CounterTable(known=causes)
        #: Only of regressions with an offset afterwards.
        self.messages_again = CounterTable(known=causes)
        self.polls = 0
        self.poll_failures = 0
        self.unusable_entries = 0
        self.stores = 0
        self.store_failures = 0
        #: Of the file, in use.
        self.file_bytes = 0
