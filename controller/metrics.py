"""The metrics of a controller as Prometheus scrapes them: read from sets, brokers and counts at that moment."""

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import add

from controller import metric_catalogue as catalogue
from controller.broker_set import BrokerSet
from controller.config import CONTROLLER, ControllerConfig
from controller.control import Control
from controller.overview import SetState, state_of
from controller.set_counts import SetCounts
from remoting.clock import Clock
from serving.counts import BROKERS_MAX, CLUSTERS_MAX, HistogramTable, LabelGuard, Labels, Tally
from serving.metric_families import Family
from serving.metrics import Histograms, ServerMetrics, ServerSources, Values, admitted, single


class MetricSources(ServerSources, frozen=True, kw_only=True):
    """Everything that is read."""

    counts: SetCounts
    control: Control
    clock: Clock


class Metrics(ServerMetrics[ControllerConfig]):
    """Reads all families of the catalogue."""

    def __init__(self, sources: MetricSources) -> None:
        super().__init__(CONTROLLER, catalogue.SERVER, sources)
        self._sources = sources
        per_set = (
            catalogue.ACTIVE_BROKERS,
            catalogue.REPLICAS,
            catalogue.SYNC_STATE_SET_SIZE,
            catalogue.MASTER_EPOCH,
            catalogue.BROKER_LAST_HEARTBEAT,
        )
        self._guards = {family: LabelGuard(BROKERS_MAX, peer_labels=len(family.labels)) for family in per_set}
        self._guards[catalogue.BROKER_SETS] = LabelGuard(CLUSTERS_MAX * len(SetState), peer_labels=1)

    def own_values(self) -> Iterator[tuple[Family, Values]]:
        """Yield what there is of the group, of sets and of brokers."""
        control, counts = self._sources.control, self._sources.counts
        yield catalogue.ROLE, single(control.group.role)
        yield catalogue.LEADER_CHANGES, single(control.group.leader_changes)
        yield catalogue.SELF_DOUBTS, single(counts.self_doubts)
        yield catalogue.SUSPECT_BROKERS, single(_suspects(control))
        yield from self._sets()
        for family, tally in _tallies(counts):
            yield family, tally.counts()

    def own_histograms(self) -> Iterator[tuple[Family, Histograms]]:
        """Yield how long."""
        for family, table in _histogram_tables(self._sources.counts):
            yield family, table.histograms()

    def own_guards(self) -> Mapping[Family, LabelGuard]:
        """Return what limits clusters and sets."""
        counts = self._sources.counts
        guards = self._guards | {family: tally.guard for family, tally in _tallies(counts)}
        return guards | {family: table.guard for family, table in _histogram_tables(counts)}

    def _sets(self) -> Iterator[tuple[Family, Values]]:
        samples: dict[Family, list[tuple[Labels, float]]] = {family: [] for family in self._guards}
        now_ms = self._sources.clock.now_ms()
        # Summed before the limit is looked at: sets of a cluster that has its series belong into them, however late.
        states: Counter[Labels] = Counter()
        # A follower knows of its sets only what it has read; the leader counts them, so that a sum counts each once.
        if self._sources.control.group.is_leader:
            for broker_set in self._sources.control.store.sets():
                self._add_set(samples, states, broker_set, now_ms)
        samples[catalogue.BROKER_SETS] += states.items()
        for family, guard in self._guards.items():
            combine = min if family is catalogue.BROKER_LAST_HEARTBEAT else add
            yield family, admitted(samples[family], guard, combine)

    def _add_set(
        self,
        samples: dict[Family, list[tuple[Labels, float]]],
        states: Counter[Labels],
        broker_set: BrokerSet,
        now_ms: int,
    ) -> None:
        control, clock = self._sources.control, self._sources.clock
        name, cluster = broker_set.broker_name, broker_set.cluster
        alive = control.live.alive(name, now_ms).keys() & broker_set.replicas.keys()
        state = state_of(broker_set, alive)
        for each in SetState:
            states[cluster, each.value] += each is state
        for family, value in (
            (catalogue.ACTIVE_BROKERS, len(alive)),
            (catalogue.REPLICAS, len(broker_set.replicas)),
            (catalogue.SYNC_STATE_SET_SIZE, len(broker_set.sync_state_set)),
            (catalogue.MASTER_EPOCH, broker_set.master_epoch),
        ):
            samples[family].append(((cluster, name), value))
        to_unix_ms = clock.unix_ms() - clock.now_ms()
        samples[catalogue.BROKER_LAST_HEARTBEAT] += [
            ((cluster, name, str(i)), (heard.heard_ms + to_unix_ms) / 1000)
            for i, heard in control.live.of_set(name).items()
            if i in broker_set.replicas
        ]


def _suspects(control: Control) -> int:
    """Return how many brokers are being asked; nobody asks a broker that belongs to no set."""
    sets = ((control.store.get(key.broker_name), key.broker_id) for key in control.detection.suspects)
    return sum(broker_set is not None and broker_id in broker_set.replicas for broker_set, broker_id in sets)


def _tallies(counts: SetCounts) -> tuple[tuple[Family, Tally], ...]:
    return (
        (catalogue.ELECTIONS, counts.elections),
        (catalogue.FAILOVERS, counts.failovers),
        (catalogue.NOTIFICATIONS, counts.notifications),
        (catalogue.PROBES, counts.probes),
        (catalogue.DEATHS, counts.deaths),
        (catalogue.STORE_TXN, counts.store_calls),
    )


def _histogram_tables(counts: SetCounts) -> tuple[tuple[Family, HistogramTable], ...]:
    return (
        (catalogue.ELECTION_DURATION, counts.election_durations),
        (catalogue.FAILOVER_PHASES, counts.failover_phases),
        (catalogue.STORE_TXN_DURATION, counts.store_durations),
    )
