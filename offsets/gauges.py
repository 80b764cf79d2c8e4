"""The metrics of an offset manager at a scrape: what events counted, and gauges as they stand.

Import this late: prometheus-client takes long.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from offsets.catalogues import DECLARED, MAKE, SERVER, UNSIGNED_REQUESTS
from serving.metrics.counters import LabelGuard, Labels
from serving.metrics.exposition import Histograms, HttpServerMetrics, ProcessSources, Values
from serving.metrics.families import MetricFamily
from serving.telemetry.events import Gauge, Measure
from serving.telemetry.telemetry import Telemetry


class OffsetManagerMetrics(HttpServerMetrics):
    """Reads everything that is declared."""

    def __init__(
        self, sources: ProcessSources, telemetry: Telemetry, measures: Sequence[Callable[[], Iterable[Measure]]]
    ) -> None:
        """Take what each part yields of its gauges."""
        super().__init__(SERVER, sources)
        self._sources = sources
        self._telemetry = telemetry
        self._measures = measures

    def own_values(self) -> Iterator[tuple[MetricFamily, Values]]:
        """Yield gauges, then counters; raises KeyError for a gauge whose module is not declared."""
        gauges: dict[Gauge, dict[Labels, float]] = {gauge: {} for gauge in DECLARED.gauges}
        for measures in self._measures:
            for gauge, value, labels in measures():
                gauges[gauge][labels] = value
        for gauge, values in gauges.items():
            yield gauge.family(MAKE), values
        yield from self._telemetry.counts(MAKE)
        yield UNSIGNED_REQUESTS, self._sources.counters.unsigned_requests.counts()

    def own_histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        yield from self._telemetry.durations(MAKE)

    def own_guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return nothing: no peer names a label."""
        return {}
