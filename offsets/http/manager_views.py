"""What the manager tells of itself: whether it leads, whom it follows, what is not stored yet, and its metrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from offsets.catalogues import DECLARED, MAKE, SERVER, UNSIGNED_REQUESTS
from offsets.commits.service import OffsetService
from offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from offsets.lead import Lead
from offsets.sets.following import Following
from serving.http.paths import get
from serving.http.server_views import check_serving
from serving.http.views import Unavailable
from serving.metrics.counters import LabelGuard, Labels
from serving.metrics.exposition import Histograms, HttpServerMetrics, ProcessSources, Values
from serving.metrics.families import MetricFamily
from serving.metrics.health import Health
from serving.shapes.offsets import ManagerView
from serving.telemetry.events import Gauge, Measure
from serving.telemetry.telemetry import Telemetry


class ManagerViews:
    def __init__(self, config: OffsetManagerConfig, lead: Lead, following: Following, commits: OffsetService) -> None:
        self._options, self._lead, self._following, self._commits = config, lead, following, commits

    @get("/v1/manager", refusals=(400,))
    def manager(self) -> ManagerView:
        """This offset manager: its role, its source of masters, and what the store lacks."""
        lead, following, store = self._lead, self._following, self._commits.store
        return ManagerView(
            id=lead.me.id,
            address=lead.me.address,
            group=self._options.manager_group,
            role=lead.role,
            leader_address=None if lead.leader is None else lead.leader.address,
            follows=following.source,
            masters_known=following.is_fresh(),
            broker_sets=len(following.sets),
            broker_sets_with_master=sum(1 for _ in following.masters()),
            store=self._options.store,
            offsets=self._commits.table.count,
            dirty_keys=store.dirty_keys,
            oldest_dirty_ms=store.oldest_dirty_ms,
            last_flush_error=store.last_error,
        )


def check_ready(health: Health, lead: Lead) -> None:
    """Raise Unavailable unless this manager answers, or another one is known to."""
    check_serving(OFFSET_MANAGER.name, health)
    if lead.role == "loading" or lead.leader is None:
        raise Unavailable("This offset manager is loading, or no offset manager leads at present.")


class OffsetManagerMetrics(HttpServerMetrics):
    """Reads everything that is declared."""

    def __init__(
        self, sources: ProcessSources, telemetry: Telemetry, measures: Sequence[Callable[[], Iterable[Measure]]]
    ) -> None:
        """Take what each part yields of its gauges."""
        super().__init__(SERVER, sources)
        self._sources, self._telemetry, self._measures = sources, telemetry, measures

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
        """No peer names a label."""
        return {}
