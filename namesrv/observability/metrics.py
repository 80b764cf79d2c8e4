"""The metrics as Prometheus scrapes them: read from tables and counters at that moment, so nothing is stored twice.

It is imported once the remoting port is open, because importing prometheus-client takes long.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import add
from typing import Final

from namesrv.core import cluster_summary
from namesrv.core.change_log import GapReason
from namesrv.core.role_addresses.checks import CheckState
from namesrv.core.route_state import RouteState
from namesrv.core.tables.live_table import LiveKey, LiveRow
from namesrv.http.watches import Watches
from namesrv.observability import metric_catalogue as catalogue
from namesrv.observability.broker_counters import BrokerCounters
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from remoting.clock import Clock
from serving.metrics.counters import (
    BROKERS_MAX,
    CLUSTERS_MAX,
    CounterTable,
    HistogramTable,
    LabelGuard,
    Labels,
)
from serving.metrics.exposition import Admitted, Histograms, ServerMetrics, ServerSources, Values, by_label, single
from serving.metrics.families import MetricFamily
from serving.metrics.label_values import release_of

#: Brokers read at a time.
_BROKERS_AT_ONCE: Final = 100
#: Samples admitted at a time.
_SAMPLES_AT_ONCE: Final = 1000


class NameServerMetricSources(ServerSources, frozen=True, kw_only=True):
    """Everything that is read."""

    counters: BrokerCounters
    state: RouteState
    settings: DurableSettings
    clock: Clock
    watches: Watches


class NameServerMetrics(ServerMetrics[NameServerConfig]):
    """Reads all families of the catalogue."""

    def __init__(self, sources: NameServerMetricSources) -> None:
        super().__init__(NAMESRV, catalogue.SERVER, sources)
        self._sources = sources
        self._cluster_guards = {
            family: LabelGuard(CLUSTERS_MAX * values, peer_labels=1)
            for family, values in (
                (catalogue.ACTIVE_BROKERS, len(cluster_summary.BrokerRole)),
                (catalogue.BROKER_SETS, len(cluster_summary.SetLeadership)),
                (catalogue.AWAY_BROKER_SETS, 1),
                (catalogue.LOST_TOPICS, 1),
                (catalogue.TOPICS, 4),
                (catalogue.QUEUES, 2),
            )
        }
        self._broker_guards = {
            family: LabelGuard(BROKERS_MAX, peer_labels=len(family.labels))
            for family in (catalogue.BROKER_INFO, catalogue.BROKER_LAST_HEARTBEAT, catalogue.BROKER_TIMEOUT)
        }

    def own_values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Yield what there is of routes, clusters, brokers and the KV table."""
        yield from self._routes()
        yield from self._watchers()
        yield from self._clusters()
        yield from self._brokers()
        yield from self._role_addresses()
        kv = self._sources.settings.kv.table
        yield catalogue.KV_ENTRIES, single(sum(map(len, kv.values())))
        for family, tally in _tallies(self._sources.counters):
            yield family, tally.counts()

    def own_histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        """Yield how long, how large and how many."""
        counters, route_counts = self._sources.counters, self._sources.state.route_cache.counts
        yield catalogue.ROUTE_RESPONSE_BYTES, {(): route_counts.found}
        yield catalogue.EXPIRY_SCAN, {(): counters.expiry_scan}
        yield catalogue.REGISTRATION_TOPICS, {(): counters.registration_changed_topics}
        yield catalogue.REGISTRATION_BYTES, {(): counters.registration_body_bytes}
        for family, table in _histogram_tables(counters):
            yield family, table.histograms()

    def own_guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return what limits clusters and brokers."""
        counters = self._sources.counters
        guards = self._cluster_guards | self._broker_guards
        guards |= {family: tally.guard for family, tally in _tallies(counters)}
        return guards | {family: table.guard for family, table in _histogram_tables(counters)}

    def _routes(self) -> Iterator[tuple[MetricFamily, Values]]:
        answers = self._sources.state.route_cache
        counts = answers.counts
        found = sum(counts.found.buckets)
        ended = {"found": found, "not_found": counts.not_found, "error": counts.error}
        yield catalogue.ROUTE_QUERIES, by_label(ended.items())
        used = {
            "hit": found - answers.misses - counts.zoned,
            "miss": answers.misses,
            "invalidated": answers.invalidated,
        }
        yield catalogue.ROUTE_CACHE, by_label(used.items())
        yield catalogue.WATCHED_ROUTES, single(len(self._sources.state.route_fetches))

    def _watchers(self) -> Iterator[tuple[MetricFamily, Values]]:
        watches = self._sources.watches
        counts = [(streams.kind, streams.counts) for streams in watches.streams]
        yield catalogue.WATCHERS, by_label((kind, each.watchers) for kind, each in counts)
        yield catalogue.WATCH_TOPICS, single(watches.routes.followed)
        yield catalogue.WATCH_EVENTS, by_label((kind, each.events) for kind, each in counts)
        gaps: Values = {(kind, reason.value): each.gaps[reason] for kind, each in counts for reason in GapReason}
        yield catalogue.WATCH_GAPS, gaps
        dropped: Values = {
            (kind, reason): count
            for kind, each in counts
            for reason, count in (("refused", each.refused), ("stalled", each.stalled))
        }
        yield catalogue.WATCHERS_DROPPED, dropped

    def _role_addresses(self) -> Iterator[tuple[MetricFamily, Values]]:
        role_addresses = self._sources.state.role_addresses
        yield catalogue.ROLE_ADDRESSES_INFO, by_label([(role_addresses.rules.digest, 1)])
        yield catalogue.ROLE_ADDRESS_RULES, single(len(role_addresses.rules.rules))
        states = Counter(role_addresses.checks.states())
        problems = {
            "file": int(bool(role_addresses.problem)),
            "loop": len(role_addresses.loops),
            "waiting": states[CheckState.WAITING],
            "refused": states[CheckState.REFUSED],
            "failing": states[CheckState.FAILING],
        }
        yield catalogue.ROLE_ADDRESS_PROBLEMS, by_label(problems.items())

    def _clusters(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        state = self._sources.state
        clusters = yield from cluster_summary.clusters(state)
        samples: dict[MetricFamily, list[tuple[Labels, float]]] = {family: [] for family in self._cluster_guards}
        away = state.away_sets.counts()
        samples[catalogue.AWAY_BROKER_SETS] += [((name,), away[name]) for name in clusters.keys() | away]
        lost = Counter(dict.fromkeys(clusters, 0))
        for name, losses in state.lost_topics.reported():
            if (broker_set := state.tables.brokers.get(name)) is not None:
                lost[broker_set.cluster] += len(losses.topics)
        samples[catalogue.LOST_TOPICS] += [((name,), count) for name, count in lost.items()]
        for number, (name, numbers) in enumerate(clusters.items()):
            if number % _BROKERS_AT_ONCE == 0:
                yield None
            samples[catalogue.ACTIVE_BROKERS] += [((name, each.value), n) for each, n in numbers.brokers.items()]
            samples[catalogue.BROKER_SETS] += [((name, each.value), n) for each, n in numbers.sets.items()]
            samples[catalogue.TOPICS] += [((name, each.value), n) for each, n in numbers.topics.items()]
            samples[catalogue.QUEUES] += [
                ((name, "read"), numbers.read_queues),
                ((name, "write"), numbers.write_queues),
            ]
        for family, guard in self._cluster_guards.items():
            admitted = Admitted(guard, add)
            for number, (labels, value) in enumerate(samples[family]):
                if number % _SAMPLES_AT_ONCE == 0:
                    yield None
                admitted.add(labels, value)
            yield family, admitted.values

    def _brokers(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Brokers beyond the limit share a sample: their oldest heartbeat, their shortest timeout."""
        clock = self._sources.clock
        now_to_unix_ms = clock.unix_ms() - clock.now_ms()
        readers: dict[MetricFamily, Callable[[LiveRow], float]] = {
            catalogue.BROKER_INFO: lambda _: 1,
            catalogue.BROKER_LAST_HEARTBEAT: lambda row: (row.last_heartbeat_ms + now_to_unix_ms) / 1000,
            catalogue.BROKER_TIMEOUT: lambda row: row.timeout_ms / 1000,
        }
        found = {family: Admitted(self._broker_guards[family], min) for family in readers}
        for number, (key, row) in enumerate(list(self._sources.state.tables.live.rows()), 1):
            labels = _broker_labels(key, row)
            for family, read in readers.items():
                found[family].add(labels[: len(family.labels)], read(row))
            if number % _BROKERS_AT_ONCE == 0:
                yield None
        yield from ((family, admitted.values) for family, admitted in found.items())


def _tallies(counters: BrokerCounters) -> tuple[tuple[MetricFamily, CounterTable], ...]:
    return (
        (catalogue.HEARTBEATS, counters.heartbeats),
        (catalogue.HEARTBEATS_LATE, counters.heartbeats_late),
        (catalogue.REGISTRATIONS, counters.registrations),
        (catalogue.UNREGISTRATIONS, counters.unregistrations),
        (catalogue.ROUTE_CHANGES, counters.route_changes),
        (catalogue.NOTIFICATIONS, counters.notifications),
        (catalogue.KV_CHANGES, counters.kv_changes),
    )


def _histogram_tables(counters: BrokerCounters) -> tuple[tuple[MetricFamily, HistogramTable], ...]:
    return (
        (catalogue.HEARTBEAT_INTERVAL, counters.heartbeat_interval),
        (catalogue.DETECTION_DELAY, counters.detection_delay),
    )


def _broker_labels(key: LiveKey, row: LiveRow) -> Labels:
    return row.cluster, key.broker_name, str(row.broker_id), release_of(row.version)
