"""The metrics of a controller as Prometheus scrapes them: read from sets, brokers and counts at that moment."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Final

from controller.config import CONTROLLER, ControllerConfig
from controller.failover.requests import BrokerRequests
from controller.observability import metric_catalogue as catalogue
from controller.observability.analytics_results import Sample
from controller.observability.counters import SetCounters
from controller.observability.log_events import DECLARED
from controller.sets.broker_set import BrokerSet
from controller.sets.health import SetHealth, health_of
from remoting.clock import Clock
from serving.metrics.counters import BROKERS_MAX, CLUSTERS_MAX, CounterTable, HistogramTable, LabelGuard, Labels
from serving.metrics.exposition import Admitted, Histograms, ServerMetrics, ServerSources, Values, single
from serving.metrics.families import MetricFamily
from serving.telemetry.events import Measure
from serving.telemetry.telemetry import Telemetry

#: So many sets are read at a time.
_SETS_AT_ONCE: Final = 50


class ControllerMetricSources(ServerSources, frozen=True, kw_only=True):
    """Everything that is read."""

    counters: SetCounters
    control: BrokerRequests
    clock: Clock
    #: What the Spark analyses have published last.
    results: Callable[[], Iterable[Sample]] = tuple
    telemetry: Telemetry
    #: What each part yields of its gauges.
    measures: Sequence[Callable[[], Iterable[Measure]]] = ()


class ControllerMetrics(ServerMetrics[ControllerConfig]):
    """Reads all families of the catalogue."""

    def __init__(self, sources: ControllerMetricSources) -> None:
        super().__init__(CONTROLLER, catalogue.SERVER, sources)
        self._sources = sources
        per_set = (
            catalogue.ACTIVE_BROKERS,
            catalogue.REPLICAS,
            catalogue.SYNC_STATE_SET_SIZE,
            catalogue.MASTER_EPOCH,
            catalogue.BROKER_LAST_HEARTBEAT,
            *catalogue.PER_SET_RESULTS,
        )
        self._gauges = {gauge: LabelGuard(gauge.label_sets_max, gauge.peer_labels) for gauge in DECLARED.gauges}
        self._guards = {family: LabelGuard(BROKERS_MAX, peer_labels=len(family.labels)) for family in per_set}
        self._guards[catalogue.BROKER_SETS] = LabelGuard(CLUSTERS_MAX * len(SetHealth), peer_labels=1)

    def own_values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Yield what there is of the group, of sets and of brokers."""
        control, counters = self._sources.control, self._sources.counters
        yield catalogue.ROLE, single(control.group.role)
        yield catalogue.LEADER_CHANGES, single(control.group.leader_changes)
        yield catalogue.FAILURE_DETECTION_SUSPENSIONS, single(counters.failure_detection_suspensions)
        yield catalogue.SILENT_HOSTS, single(counters.silent_hosts)
        yield catalogue.SUSPECT_BROKERS, single(_suspects(control))
        yield catalogue.DISPUTED_EPOCHS, single(control.monitor.disputed_sets)
        yield catalogue.MASTERS_WAITS, single(control.store.changes.waits)
        yield from self._sets()
        yield from self._results()
        for family, tally in _tallies(counters):
            yield family, tally.counts()
        yield from self._measured()
        yield from self._sources.telemetry.counts(catalogue.MAKE)

    def own_histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        """Yield how long."""
        for family, table in _histogram_tables(self._sources.counters):
            yield family, table.histograms()
        yield from self._sources.telemetry.durations(catalogue.MAKE)

    def own_guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return what limits clusters and sets."""
        counters = self._sources.counters
        guards = (
            self._guards
            | {gauge.family(catalogue.MAKE): guard for gauge, guard in self._gauges.items()}
            | self._sources.telemetry.guards(catalogue.MAKE)
            | {family: tally.guard for family, tally in _tallies(counters)}
        )
        return guards | {family: table.guard for family, table in _histogram_tables(counters)}

    def _measured(self) -> Iterator[tuple[MetricFamily, Values]]:
        """Yield the gauges of parts; one without labels is 0 where the part does not run."""
        gauges = {gauge: Admitted(guard, gauge.combine) for gauge, guard in self._gauges.items()}
        for measures in self._sources.measures:
            for gauge, value, labels in measures():
                gauges[gauge].add(labels, value)
        for gauge, found in gauges.items():
            known: tuple[Labels, ...] = () if gauge.labels else ((),)
            zeros = dict.fromkeys(known if gauge.known is None else gauge.known, 0.0)
            yield gauge.family(catalogue.MAKE), zeros | found.values

    def _results(self) -> Iterator[tuple[MetricFamily, Values]]:
        """Yield what analyses have published; sets beyond the limit share the highest."""
        unlimited = LabelGuard(0, peer_labels=0)
        found = {family: Admitted(self._guards.get(family, unlimited), max) for family in catalogue.ANALYTICS_RESULTS}
        for sample in self._sources.results():
            found[sample.family].add(sample.labels, sample.value)
        yield from ((family, admitted.values) for family, admitted in found.items())

    def _sets(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        families = [family for family in self._guards if family not in catalogue.PER_SET_RESULTS]
        found = {family: Admitted(self._guards[family], _combine(family)) for family in families}
        # Summed before the limit is looked at: sets of a cluster that has its series belong into them, however late.
        states: Counter[Labels] = Counter()
        # A follower has only what it has read of its sets; the leader counts them, so that a sum counts each once.
        sets = list(self._sources.control.store.sets()) if self._sources.control.group.is_leader else []
        for number, broker_set in enumerate(sets, 1):
            self._add_set(found, states, broker_set)
            if number % _SETS_AT_ONCE == 0:
                yield None
        for cluster in {cluster for cluster, _ in states}:
            self._sources.counters.know(cluster)
        for labels, count in states.items():
            found[catalogue.BROKER_SETS].add(labels, count)
        yield from ((family, admitted.values) for family, admitted in found.items())

    def _add_set(self, found: Mapping[MetricFamily, Admitted], states: Counter[Labels], broker_set: BrokerSet) -> None:
        clock = self._sources.clock
        now_ms, unix_ms = clock.now_ms(), clock.unix_ms()
        labels = broker_set.cluster, broker_set.broker_name
        heartbeats = self._sources.control.live.of_set(broker_set.broker_name)
        members = {i: each for i, each in heartbeats.items() if i in broker_set.replicas}
        alive = {i for i, each in members.items() if each.is_alive(now_ms)}
        state = health_of(broker_set, alive)
        for each in SetHealth:
            states[broker_set.cluster, each.value] += each is state
        found[catalogue.ACTIVE_BROKERS].add(labels, len(alive))
        found[catalogue.REPLICAS].add(labels, len(broker_set.replicas))
        found[catalogue.SYNC_STATE_SET_SIZE].add(labels, len(broker_set.sync_state_set))
        found[catalogue.MASTER_EPOCH].add(labels, broker_set.master_epoch)
        for i, row in members.items():
            found[catalogue.BROKER_LAST_HEARTBEAT].add(
                (*labels, str(i)), (row.last_contact_ms - now_ms + unix_ms) / 1000
            )


def _combine(family: MetricFamily) -> Callable[[float, float], float]:
    """Return what sets and brokers beyond the limit share: of times the longest ago, of numbers the sum."""
    return min if family is catalogue.BROKER_LAST_HEARTBEAT else add


def _suspects(control: BrokerRequests) -> int:
    """Return how many brokers are being probed; a broker that belongs to no set is not."""
    sets = ((control.store.get(key.broker_name), key.broker_id) for key in control.detector.suspects)
    return sum(broker_set is not None and broker_id in broker_set.replicas for broker_set, broker_id in sets)


def _tallies(counters: SetCounters) -> tuple[tuple[MetricFamily, CounterTable], ...]:
    return (
        (catalogue.ELECTIONS, counters.elections),
        (catalogue.FAILOVERS, counters.failovers),
        (catalogue.NOTIFICATIONS, counters.notifications),
        (catalogue.ROLE_CHECKS, counters.role_checks),
        (catalogue.PROBES, counters.probes),
        (catalogue.BROKERS_FAILED, counters.brokers_failed),
        (catalogue.LOGS_SHRUNK, counters.logs_shrunk),
        (catalogue.STORE_TXN, counters.store_calls),
    )


def _histogram_tables(counters: SetCounters) -> tuple[tuple[MetricFamily, HistogramTable], ...]:
    return (
        (catalogue.ELECTION_DURATION, counters.election_durations),
        (catalogue.FAILOVER_PHASES, counters.failover_phases),
        (catalogue.STORE_TXN_DURATION, counters.store_durations),
    )
