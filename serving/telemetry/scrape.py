"""The metrics that a server declares, as a scrape reads them. Import this late: prometheus-client takes long."""

from collections.abc import Iterable, Iterator, Mapping

from serving.metrics.counters import LabelGuard, Labels
from serving.metrics.exposition import Admitted, Histograms, Values
from serving.metrics.families import FamilyMaker, MetricFamily
from serving.telemetry.events import Declared, Measure
from serving.telemetry.telemetry import Telemetry


class DeclaredMetrics:
    """What events counted and observed, and gauges as they stand."""

    def __init__(self, declared: Declared, make: FamilyMaker, telemetry: Telemetry) -> None:
        self._make = make
        self._telemetry = telemetry
        self._gauges = {gauge: LabelGuard(gauge.label_sets_max, gauge.peer_labels) for gauge in declared.gauges}

    def values(self, measures: Iterable[Measure | None]) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Yield gauges as measured, then counters; None where the measures have one, so that others have their turn."""
        gauges = {gauge: Admitted(guard, gauge.combine) for gauge, guard in self._gauges.items()}
        for measure in measures:
            if measure is None:
                yield None
            else:
                gauges[measure.gauge].add(measure.labels, measure.value)
        for gauge, found in gauges.items():
            # One without labels is 0 where its part does not run.
            unlabelled: tuple[Labels, ...] = () if gauge.labels else ((),)
            zeros = dict.fromkeys(unlabelled if gauge.known is None else gauge.known, 0.0)
            yield gauge.family(self._make), zeros | found.values
        yield from self._telemetry.counts(self._make)

    def histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        """Yield what was observed."""
        yield from self._telemetry.durations(self._make)

    def guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return what limits the labels that peers name."""
        gauges = {gauge.family(self._make): guard for gauge, guard in self._gauges.items()}
        return gauges | self._telemetry.guards(self._make)
