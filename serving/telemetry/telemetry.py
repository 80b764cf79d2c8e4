"""Carries out what events declare: `emit` writes the line, moves the metrics and records the rows."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from remoting.clock import Clock
from remoting.server.statistics import Histogram
from serving.logging.logs import Logs
from serving.metrics.counters import CounterTable, HistogramTable, LabelGuard, Labels, Living, everything
from serving.metrics.families import FamilyMaker, MetricFamily
from serving.telemetry.events import Counter, Declared, Emit, Event, Timer

if TYPE_CHECKING:
    from history.recorder import Recorder

#: What stands at 0 from the start where there are no labels: a rate has to see its first event.
_UNLABELLED: Final = ((),)


class Telemetry:
    """What one server tells; touched by its loop alone."""

    def __init__(
        self,
        logs: Logs,
        declared: Declared,
        recorder: "Recorder | None" = None,
        *,
        living: Living = everything,
        requester: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """Take the log, what is declared, and where rows go; None records nothing.

        `living` returns the clusters that have members, `requester` what the line of an audit event says of its sender.
        """
        self._logs = logs
        self._recorder = recorder
        self._requester = requester
        #: Take every event after it was told.
        self.followers: list[Emit] = []
        self._log_events: Final = {event: event.log_event() for event in declared.events}
        #: For whoever counts too often for an event each time.
        self.counters: Final = {
            counter: CounterTable(
                label_sets_max=counter.label_sets_max,
                peer_labels=counter.peer_labels,
                known=counter.known if counter.labels else _UNLABELLED,
                each=counter.each,
                living=living,
            )
            for counter in declared.metrics
            if isinstance(counter, Counter)
        }
        self.timers: Final = {
            timer: HistogramTable(
                timer.bounds,
                label_sets_max=timer.label_sets_max,
                peer_labels=timer.peer_labels,
                known=timer.known if timer.labels else _UNLABELLED,
                living=living,
            )
            for timer in declared.metrics
            if isinstance(timer, Timer)
        }
        self.gauges: Final = {gauge: LabelGuard(gauge.label_sets_max, gauge.peer_labels) for gauge in declared.gauges}

    def emit(self, event: Event) -> None:
        """Tell an event; raises KeyError for one whose module was not declared."""
        for counter, labels, amount in event.counted():
            self.counters[counter].add(labels, amount)
        for timer, seconds, labels in event.observed():
            self.timers[timer].observe(labels, seconds)
        if (log_event := self._log_events[type(event)]) is not None:
            self._logs.write(log_event, **event.line(), **(self._requester() if log_event.audit else {}))
        if self._recorder is not None:
            for row in event.rows():
                self._recorder.enqueue(row)
        for follow in self.followers:
            follow(event)

    def counts(self, make: FamilyMaker) -> Iterator[tuple[MetricFamily, Mapping[Labels, int]]]:
        """Yield each counter as a scrape reads it."""
        for counter, table in self.counters.items():
            yield counter.family(make), table.counts()

    def durations(self, make: FamilyMaker) -> Iterator[tuple[MetricFamily, Mapping[Labels, Histogram]]]:
        """Yield each timer as a scrape reads it."""
        for timer, table in self.timers.items():
            yield timer.family(make), table.histograms()

    def guards(self, make: FamilyMaker) -> dict[MetricFamily, LabelGuard]:
        """Return what limits the labels that peers name."""
        guards = {gauge.family(make): guard for gauge, guard in self.gauges.items()}
        guards |= {counter.family(make): table.guard for counter, table in self.counters.items()}
        return guards | {timer.family(make): table.guard for timer, table in self.timers.items()}


def unix_s(since_ms: int | None, clock: Clock) -> float:
    """Return a monotonic time as Unix seconds, as gauges show it; 0 for none."""
    return 0 if since_ms is None else (clock.unix_ms() - clock.now_ms() + since_ms) / 1000
