"""The metrics of a controller as Prometheus scrapes them: what events counted, and gauges as they stand."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from controller.config import CONTROLLER, ControllerConfig
from controller.failover import events
from controller.failover.requests import BrokerRequests
from controller.observability import metric_catalogue as catalogue
from controller.observability.analytics_results import Sample
from controller.roles.events import MASTERS_WAITS
from controller.sets.broker_set import BrokerSet, SetHealth, health_of
from remoting.clock import Clock
from serving.metrics.counters import BROKERS_MAX, LabelGuard, Labels
from serving.metrics.families import MetricFamily
from serving.telemetry.events import Measure
from serving.telemetry.exposition import Admitted, ServerMetrics, ServerSources, Values

#: So many sets are read at a time.
_SETS_AT_ONCE: Final = 50


class ControllerMetricSources(ServerSources, frozen=True, kw_only=True):
    control: BrokerRequests
    clock: Clock
    #: What the Spark analyses have published last.
    results: Callable[[], Iterable[Sample]] = tuple


class ControllerMetrics(ServerMetrics[ControllerConfig]):
    def __init__(self, sources: ControllerMetricSources) -> None:
        super().__init__(CONTROLLER, catalogue.SERVER, sources)
        self._sources = sources
        self._results_guards = {
            family: LabelGuard(BROKERS_MAX, peer_labels=len(family.labels)) for family in catalogue.PER_SET_RESULTS
        }

    def measures(self) -> Iterator[Measure | None]:
        """Yield what there is of the group, of sets and of brokers."""
        return chain(self._of_group(), self._of_sets(), super().measures())

    def own_guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return what limits clusters and sets."""
        return {**super().own_guards(), **self._results_guards}

    def own_values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Yield what is declared, and what analyses have published; sets beyond the limit share the highest."""
        yield from super().own_values()
        unlimited, guards = LabelGuard(0, peer_labels=0), self._results_guards
        found = {family: Admitted(guards.get(family, unlimited), max) for family in catalogue.ANALYTICS_RESULTS}
        for sample in self._sources.results():
            found[sample.family].add(sample.labels, sample.value)
        yield from ((family, admitted.values) for family, admitted in found.items())

    def _of_group(self) -> Iterator[Measure]:
        control = self._sources.control
        yield Measure(events.ROLE, control.group.role)
        yield Measure(events.LEADER_CHANGES, control.group.leader_changes)
        yield Measure(events.SILENT_HOSTS, control.monitor.silent_hosts)
        # A broker that belongs to no set is not being probed.
        suspects = (control.store.address_of(key) is not None for key in control.detector.suspects)
        yield Measure(events.SUSPECT_BROKERS, sum(suspects))
        yield Measure(events.DISPUTED_EPOCHS, control.monitor.disputed_sets)
        yield Measure(MASTERS_WAITS, control.store.changes.waits)

    def _of_sets(self) -> Iterator[Measure | None]:
        # Summed before the limit is looked at: sets of a cluster that has its series belong into them, however late.
        states: Counter[Labels] = Counter()
        # A follower has only what it has read of its sets; the leader counts them, so that a sum counts each once.
        sets = list(self._sources.control.store.sets()) if self._sources.control.group.is_leader else []
        for number, broker_set in enumerate(sets, 1):
            yield from self._of_set(broker_set, states)
            if number % _SETS_AT_ONCE == 0:
                yield None
        for cluster in {cluster for cluster, _ in states}:
            self._sources.telemetry.emit(events.ClusterSeen(cluster=cluster))
        for labels, count in states.items():
            yield Measure(events.BROKER_SETS, count, labels)

    def _of_set(self, broker_set: BrokerSet, states: Counter[Labels]) -> Iterator[Measure]:
        clock = self._sources.clock
        now_ms, unix_ms = clock.now_ms(), clock.unix_ms()
        labels = broker_set.cluster, broker_set.broker_name
        heartbeats = self._sources.control.live.of_set(broker_set.broker_name)
        members = {i: each for i, each in heartbeats.items() if i in broker_set.replicas}
        alive = {i for i, each in members.items() if each.is_alive(now_ms)}
        state = health_of(broker_set, alive)
        for each in SetHealth:
            states[broker_set.cluster, each.value] += each is state
        yield Measure(events.ACTIVE_BROKERS, len(alive), labels)
        yield Measure(events.REPLICAS, len(broker_set.replicas), labels)
        yield Measure(events.SYNC_STATE_SET_SIZE, len(broker_set.sync_state_set), labels)
        yield Measure(events.MASTER_EPOCH, broker_set.master_epoch, labels)
        for i, row in members.items():
            last_s = (row.last_contact_ms - now_ms + unix_ms) / 1000
            yield Measure(events.LAST_HEARTBEAT, last_s, (*labels, str(i)))
