"""Carries out what events declare: `emit` writes the line, moves the metrics and records the rows."""

from collections.abc import Iterator
from typing import Final

from history.recorder import Recorder
from serving.logging.logs import Logs
from serving.metrics.counters import CounterTable, Histogram, Labels
from serving.metrics.families import FamilyMaker, MetricFamily
from serving.metrics.server_counters import LATENCY_S
from serving.telemetry.events import Declared, Event


class Telemetry:
    """What one server tells; touched by its loop alone."""

    def __init__(self, logs: Logs, declared: Declared, recorder: Recorder | None = None) -> None:
        """Take the log, what is declared, and where rows go; None records nothing."""
        self._logs = logs
        self._recorder = recorder
        self._log_events: Final = {event: event.log_event() for event in declared.events}
        # One without labels stands at 0 from the start, too: a rate has to see its first event.
        self._counts: Final = {
            counter: CounterTable(known=counter.known if counter.labels else ((),)) for counter in declared.counters
        }
        self._durations: Final = {timer: Histogram(LATENCY_S) for timer in declared.timers}

    def emit(self, event: Event) -> None:
        """Tell an event; raises KeyError for one whose module was not declared."""
        for counter, labels, amount in event.counted():
            self._counts[counter].add(labels, amount)
        for timer, seconds in event.observed():
            self._durations[timer].observe(seconds)
        if (log_event := self._log_events[type(event)]) is not None:
            values = ((name, getattr(event, name)) for name in log_event.keys)
            self._logs.write(log_event, **{name: value for name, value in values if value is not None})
        if self._recorder is not None:
            for row in event.rows():
                self._recorder.enqueue(row)

    def counts(self, make: FamilyMaker) -> Iterator[tuple[MetricFamily, dict[Labels, float]]]:
        """Yield each counter as a scrape reads it."""
        for counter, table in self._counts.items():
            yield counter.family(make), dict(table.counts())

    def durations(self, make: FamilyMaker) -> Iterator[tuple[MetricFamily, dict[Labels, Histogram]]]:
        """Yield each timer as a scrape reads it."""
        for timer, histogram in self._durations.items():
            yield timer.family(make), {(): histogram}
