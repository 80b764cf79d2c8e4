"""The metrics as Prometheus scrapes them: read from tables and counters at that moment, so nothing is stored twice.

It is imported once the remoting port is open, because importing prometheus-client takes long.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from namesrv.core import cluster_summary
from namesrv.core.change_log import GapReason
from namesrv.core.role_addresses.checks import CheckState
from namesrv.core.route_state import RouteState
from namesrv.http.watches import Watches
from namesrv.observability import metric_catalogue as catalogue
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from remoting.clock import Clock
from remoting.server.workers.pool import WorkerPool
from serving.metrics.families import MetricFamily
from serving.metrics.label_values import release_of
from serving.telemetry.events import Measure
from serving.telemetry.exposition import Histograms, ServerMetrics, ServerSources

if TYPE_CHECKING:
    from namesrv.core.peer_views import PeerViews

#: Clusters, or brokers, that are read at a time.
_AT_ONCE: Final = 100


class NameServerMetricSources(ServerSources, frozen=True, kw_only=True):
    state: RouteState
    settings: DurableSettings
    clock: Clock
    watches: Watches
    #: None without any.
    workers: WorkerPool | None = None
    #: None without the option `peers`.
    peers: "PeerViews | None" = None


class NameServerMetrics(ServerMetrics[NameServerConfig]):
    def __init__(self, sources: NameServerMetricSources) -> None:
        super().__init__(NAMESRV, catalogue.SERVER, sources)
        self._sources = sources

    def measures(self) -> Iterator[Measure | None]:
        return chain(
            self._routes(),
            self._route_workers(),
            self._peers(),
            self._watchers(),
            self._clusters(),
            self._brokers(),
            self._role_addresses(),
        )

    def _histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        found = self._sources.state.route_cache.counts.found
        bodies = self._sources.telemetry.timers[catalogue.ROUTE_RESPONSE_BYTES].histograms()[()]
        bodies.buckets, bodies.sum = found.buckets, found.sum
        yield from super()._histograms()

    def _routes(self) -> Iterator[Measure]:
        answers, counts = self._sources.state.route_cache, self._sources.state.route_cache.counts
        found = sum(counts.found.buckets)
        for result, count in (("found", found), ("not_found", counts.not_found), ("error", counts.error)):
            yield Measure(catalogue.ROUTE_QUERIES, count, (result,))
        hits = found - answers.misses - counts.zoned - counts.cold
        for result, count in (("hit", hits), ("miss", answers.misses), ("invalidated", answers.invalidated)):
            yield Measure(catalogue.ROUTE_CACHE, count, (result,))
        yield Measure(catalogue.LEARNED_ANSWERS, counts.learned)
        yield Measure(catalogue.WATCHED_ROUTES, len(self._sources.state.route_fetches))
        yield Measure(catalogue.KV_ENTRIES, sum(map(len, self._sources.settings.kv.table.values())))

    def _route_workers(self) -> Iterator[Measure]:
        if (workers := self._sources.workers) is not None:
            yield Measure(catalogue.ROUTE_WORKERS, len(workers.workers))
            yield Measure(catalogue.ROUTE_WORKERS_ENDED, workers.ended)
            yield Measure(catalogue.ROUTE_WORKER_CONNECTIONS, workers.connections)
            yield Measure(catalogue.ROUTE_WORKER_CPU, workers.cpu_s)
            yield Measure(catalogue.ROUTE_WORKER_REQUESTS, workers.asked)

    def _peers(self) -> Iterator[Measure]:
        if (peers := self._sources.peers) is None:
            yield Measure(catalogue.COLD, 0)
            return
        clock = self._sources.clock
        to_unix_ms = clock.unix_ms() - clock.now_ms()
        yield Measure(catalogue.COLD, int(not peers.cold.is_over))
        for peer in peers.cold.peers:
            yield Measure(catalogue.PEERS_IGNORED, int(peer in peers.cold.problems), (peer,))
        for found in peers.differences.lasting(clock.now_ms()):
            labels = found.cluster, found.broker_name, found.peer, found.kind
            yield Measure(catalogue.PEER_DIFFERENCES, 1, labels)
        for cluster, view in peers.digests.clusters.items():
            yield Measure(catalogue.VIEW_DIGEST, view.digest, (cluster,))
            yield Measure(catalogue.VIEW_CHANGED, (view.since_ms + to_unix_ms) / 1000, (cluster,))

    def _watchers(self) -> Iterator[Measure]:
        yield Measure(catalogue.WATCH_TOPICS, len(self._sources.watches.routes.log.keys))
        for streams in self._sources.watches.streams:
            kind, counts = streams.kind, streams.counts
            yield Measure(catalogue.WATCHERS, counts.watchers, (kind,))
            yield Measure(catalogue.WATCH_EVENTS, counts.events, (kind,))
            for gap in GapReason:
                yield Measure(catalogue.WATCH_GAPS, counts.gaps[gap], (kind, gap.value))
            yield Measure(catalogue.WATCHERS_DROPPED, counts.refused, (kind, "refused"))
            yield Measure(catalogue.WATCHERS_DROPPED, counts.stalled, (kind, "stalled"))

    def _role_addresses(self) -> Iterator[Measure]:
        role_addresses = self._sources.state.role_addresses
        yield Measure(catalogue.ROLE_ADDRESSES_INFO, 1, (role_addresses.rules.digest,))
        yield Measure(catalogue.ROLE_ADDRESS_RULES, len(role_addresses.rules.rules))
        yield Measure(catalogue.ROLE_ADDRESS_PROBLEMS, int(bool(role_addresses.problem)), ("file",))
        yield Measure(catalogue.ROLE_ADDRESS_PROBLEMS, len(role_addresses.loops), ("loop",))
        states = Counter(role_addresses.checks.states())
        for state in (CheckState.WAITING, CheckState.REFUSED, CheckState.FAILING):
            yield Measure(catalogue.ROLE_ADDRESS_PROBLEMS, states[state], (state.value,))

    def _clusters(self) -> Iterator[Measure | None]:
        state = self._sources.state
        clusters = yield from cluster_summary.clusters(state)
        away = state.away_sets.counts()
        for name in clusters.keys() | away:
            yield Measure(catalogue.AWAY_BROKER_SETS, away[name], (name,))
        lost = Counter(dict.fromkeys(clusters, 0))
        for name, losses in state.lost_topics.reported():
            if (broker_set := state.tables.brokers.get(name)) is not None:
                lost[broker_set.cluster] += len(losses.topics)
        for name, count in lost.items():
            yield Measure(catalogue.LOST_TOPICS, count, (name,))
        for number, (name, numbers) in enumerate(clusters.items()):
            if number % _AT_ONCE == 0:
                yield None
            for gauge, counts in (
                (catalogue.ACTIVE_BROKERS, numbers.brokers),
                (catalogue.BROKER_SETS, numbers.sets),
                (catalogue.TOPICS, numbers.topics),
            ):
                for kind, count in counts.items():
                    yield Measure(gauge, count, (name, kind.value))
            yield Measure(catalogue.QUEUES, numbers.read_queues, (name, "read"))
            yield Measure(catalogue.QUEUES, numbers.write_queues, (name, "write"))

    def _brokers(self) -> Iterator[Measure | None]:
        clock = self._sources.clock
        to_unix_ms = clock.unix_ms() - clock.now_ms()
        for number, (key, row) in enumerate(list(self._sources.state.tables.live.rows()), 1):
            labels = row.cluster, key.broker_name, str(row.broker_id)
            yield Measure(catalogue.BROKER_INFO, 1, (*labels, release_of(row.version)))
            yield Measure(catalogue.BROKER_LAST_HEARTBEAT, (row.last_heartbeat_ms + to_unix_ms) / 1000, labels)
            yield Measure(catalogue.BROKER_TIMEOUT, row.timeout_ms / 1000, labels)
            if number % _AT_ONCE == 0:
                yield None
