"""The metrics as Prometheus scrapes them: read from the tables and the counts at that moment, nothing is kept twice.

Values are read on the loop, in some milliseconds; the text is written in a thread, because that takes longer. Only this
module knows prometheus-client, and it is imported when the remoting port is already open.
"""

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add
from typing import Final

import msgspec
from prometheus_client import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector

from namesrv import metric_catalogue as catalogue
from namesrv import overview
from namesrv.code_names import UNKNOWN, request_name, response_name
from namesrv.counts import BROKERS_MAX, CLUSTERS_MAX, Histogram, HistogramTable, LabelGuard, Labels, Tally
from namesrv.health import Health
from namesrv.logs import Logs
from namesrv.metric_catalogue import Family
from namesrv.releases import release_of
from namesrv.route_counts import BODY_BYTES_BOUNDS, RouteCounts
from namesrv.route_state import RouteState
from namesrv.server_counts import LATENCY_S, ServerCounts
from namesrv.settings import Settings
from namesrv.tables.live_table import LiveKey, LiveRow
from remoting.clock import Clock
from remoting.codes import NAMESRV_REQUESTS, ResponseCode
from remoting.statistics import ServerStatistics

#: After a text was written, it is answered again for so many times what the writing took: somebody who scrapes without
#: pause then gets no more than a tenth of a processor.
_REST_FACTOR: Final = 9

Values = Mapping[Labels, float]
Histograms = Mapping[Labels, Histogram]


class MetricSources(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is read."""

    state: RouteState
    settings: Settings
    route_counts: RouteCounts
    statistics: ServerStatistics
    counts: ServerCounts
    logs: Logs
    health: Health
    clock: Clock
    version: str


class Metrics:
    """Reads all families of the catalogue."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._cluster_guards = {
            family: LabelGuard(CLUSTERS_MAX * values, peer_labels=1)
            for family, values in (
                (catalogue.ACTIVE_BROKERS, len(overview.Role)),
                (catalogue.BROKER_SETS, len(overview.SetState)),
                (catalogue.TOPICS, 4),
                (catalogue.QUEUES, 2),
            )
        }
        self._broker_guards = {
            family: LabelGuard(BROKERS_MAX, peer_labels=len(family.labels))
            for family in (catalogue.BROKER_INFO, catalogue.BROKER_LAST_HEARTBEAT, catalogue.BROKER_TIMEOUT)
        }
        self._process = ProcessCollector(registry=None)
        self._turn = asyncio.Lock()
        self._text = b""
        self._true_until_s = 0.0

    async def text(self) -> bytes:
        """Return the text format, at most some tenths of a second old."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            began_s = loop.time()
            if began_s >= self._true_until_s:
                self._text = await asyncio.to_thread(self.render, self.collect())
                ended_s = loop.time()
                self._true_until_s = ended_s + _REST_FACTOR * (ended_s - began_s)
            return self._text

    def render(self, metrics: list[Metric]) -> bytes:
        """Return metrics, and those of the process, in the text format; may run in any thread."""
        # The process is looked at here: a list of its open files takes long when there are many.
        return generate_latest(_Collected([*metrics, *self._process.collect()]))

    def collect(self) -> list[Metric]:
        """Return every family of the catalogue with its present values."""
        return [
            *(_gauge_or_counter(family, values) for family, values in self._values()),
            *(_histogram(family, histograms) for family, histograms in self._histograms()),
        ]

    def _values(self) -> Iterator[tuple[Family, Values]]:
        yield from self._server()
        yield from self._traffic()
        yield from self._routes()
        yield from self._clusters()
        yield from self._brokers()
        yield from self._tallies()
        yield catalogue.LABEL_OVERFLOW, self._overflow()

    def _server(self) -> Iterator[tuple[Family, Values]]:
        sources, logs = self._sources, self._sources.logs
        kv = sources.settings.kv.table
        yield catalogue.BUILD_INFO, {(sources.version, platform.python_version()): 1}
        yield catalogue.READY, _single(sources.health.is_ready)
        yield catalogue.DRAINING, _single(sources.health.is_draining)
        yield catalogue.TLS_EXPIRY, _by_label(sources.counts.certificate_expiry.items())
        yield catalogue.LOG_EVENTS, _by_label(logs.written.items())
        yield catalogue.LOG_SUPPRESSED, _by_label(logs.suppressed.items())
        yield catalogue.LOG_DROPPED, _single(logs.lines_dropped)
        yield catalogue.KV_ENTRIES, _single(sum(map(len, kv.values())))

    def _traffic(self) -> Iterator[tuple[Family, Values]]:
        statistics = self._sources.statistics
        yield catalogue.REQUESTS, _requests(statistics)
        yield catalogue.REQUESTS_IN_FLIGHT, _single(statistics.in_flight)
        yield catalogue.REQUESTS_REJECTED, _by_label(statistics.rejected.items())
        yield catalogue.RECEIVED_BYTES, _single(statistics.received_bytes)
        yield catalogue.SENT_BYTES, _single(statistics.sent_bytes)
        yield catalogue.UNFINISHED_BYTES, _single(statistics.unfinished_bytes)
        yield catalogue.UNREAD_BYTES, _single(statistics.unsent_bytes)
        yield catalogue.CONNECTIONS_PAUSED, _single(statistics.paused)
        yield catalogue.CONNECTION_PAUSES, _single(statistics.pauses)
        yield catalogue.CONNECTIONS, _by_label(statistics.connections.items())
        yield catalogue.CONNECTIONS_CLOSED, _by_label(statistics.closed.items())

    def _routes(self) -> Iterator[tuple[Family, Values]]:
        counts, answers = self._sources.route_counts, self._sources.state.answers
        found = sum(counts.found.buckets)
        ended = {"found": found, "not_found": counts.not_found, "error": counts.error}
        yield catalogue.ROUTE_QUERIES, _by_label(ended.items())
        used = {
            "hit": found - answers.misses - counts.zoned,
            "miss": answers.misses,
            "invalidated": answers.invalidated,
        }
        yield catalogue.ROUTE_CACHE, _by_label(used.items())

    def _clusters(self) -> Iterator[tuple[Family, Values]]:
        clusters = overview.clusters(self._sources.state)
        samples: dict[Family, list[tuple[Labels, float]]] = {family: [] for family in self._cluster_guards}
        for name, numbers in clusters.items():
            samples[catalogue.ACTIVE_BROKERS] += [((name, each.value), n) for each, n in numbers.brokers.items()]
            samples[catalogue.BROKER_SETS] += [((name, each.value), n) for each, n in numbers.sets.items()]
            samples[catalogue.TOPICS] += [((name, each.value), n) for each, n in numbers.topics.items()]
            samples[catalogue.QUEUES] += [
                ((name, "read"), numbers.read_queues),
                ((name, "write"), numbers.write_queues),
            ]
        for family, guard in self._cluster_guards.items():
            yield family, _admitted(samples[family], guard, add)

    def _brokers(self) -> Iterator[tuple[Family, Values]]:
        """Brokers beyond the limit share a sample: the longest silent of them, the shortest timeout."""
        clock = self._sources.clock
        now_to_unix_ms = clock.unix_ms() - clock.now_ms()
        readers: dict[Family, Callable[[LiveRow], float]] = {
            catalogue.BROKER_INFO: lambda _: 1,
            catalogue.BROKER_LAST_HEARTBEAT: lambda row: (row.heard_ms + now_to_unix_ms) / 1000,
            catalogue.BROKER_TIMEOUT: lambda row: row.timeout_ms / 1000,
        }
        members = [(_broker_labels(key, row), row) for key, row in self._sources.state.tables.live.rows()]
        for family, read in readers.items():
            samples = ((labels[: len(family.labels)], read(row)) for labels, row in members)
            yield family, _admitted(samples, self._broker_guards[family], min)

    def _tallies(self) -> Iterator[tuple[Family, Values]]:
        return ((family, tally.counts()) for family, tally in _tallies(self._sources.counts))

    def _histograms(self) -> Iterator[tuple[Family, Histograms]]:
        counts, route_counts = self._sources.counts, self._sources.route_counts
        bodies = Histogram(BODY_BYTES_BOUNDS)
        bodies.buckets, bodies.sum = route_counts.found.buckets, route_counts.found.total
        yield catalogue.ROUTE_RESPONSE_BYTES, {(): bodies}
        yield catalogue.REQUEST_DURATION, _durations(self._sources.statistics)
        yield catalogue.EVENT_LOOP_LAG, {(): counts.event_loop_lag}
        yield catalogue.EXPIRY_SCAN, {(): counts.expiry_scan}
        yield catalogue.REGISTRATION_TOPICS, {(): counts.registration_changed_topics}
        yield catalogue.REGISTRATION_BYTES, {(): counts.registration_body_bytes}
        for family, table in _histogram_tables(counts):
            yield family, table.histograms()

    def _overflow(self) -> Values:
        counts = self._sources.counts
        guards = self._cluster_guards | self._broker_guards
        guards |= {family: tally.guard for family, tally in _tallies(counts)}
        guards |= {family: table.guard for family, table in _histogram_tables(counts)}
        return _by_label((family.name, guard.folded) for family, guard in guards.items() if guard.has_limit)


class _Collected:
    """What prometheus-client renders."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        """Return what was collected."""
        return self._metrics


def _tallies(counts: ServerCounts) -> tuple[tuple[Family, Tally], ...]:
    return (
        (catalogue.HEARTBEATS, counts.heartbeats),
        (catalogue.HEARTBEATS_LATE, counts.heartbeats_late),
        (catalogue.REGISTRATIONS, counts.registrations),
        (catalogue.UNREGISTRATIONS, counts.unregistrations),
        (catalogue.ROUTE_CHANGES, counts.route_changes),
        (catalogue.NOTIFICATIONS, counts.notifications),
        (catalogue.KV_CHANGES, counts.kv_changes),
        (catalogue.CONFIG_CHANGES, counts.config_changes),
        (catalogue.HTTP_REQUESTS, counts.http_requests),
    )


def _histogram_tables(counts: ServerCounts) -> tuple[tuple[Family, HistogramTable], ...]:
    return (
        (catalogue.HEARTBEAT_INTERVAL, counts.heartbeat_interval),
        (catalogue.DETECTION_DELAY, counts.detection_delay),
        (catalogue.HTTP_DURATION, counts.http_durations),
    )


def _requests(statistics: ServerStatistics) -> Values:
    # What has not happened yet stands at 0, so that its first time shows in a rate.
    results = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
    found: dict[Labels, float] = {
        (request_name(code), response_name(result)): 0 for code in NAMESRV_REQUESTS for result in results
    }
    for (code, result), count in statistics.finished().items():
        labels = (request_name(code), response_name(result))
        found[labels] = found.get(labels, 0) + count
    return found


def _durations(statistics: ServerStatistics) -> Histograms:
    found: dict[Labels, Histogram] = {
        (name,): Histogram(LATENCY_S) for name in (*map(request_name, NAMESRV_REQUESTS), UNKNOWN)
    }
    for code, latencies in statistics.latencies.items():
        histogram = found[request_name(code),]
        # Codes of other servers are unknown here, all of them together.
        histogram.buckets = list(map(add, histogram.buckets, latencies.buckets))
        histogram.sum += latencies.total_ns / 1e9
    return found


def _broker_labels(key: LiveKey, row: LiveRow) -> Labels:
    return row.cluster, key.broker_name, str(row.broker_id), release_of(row.version)


def _admitted(
    samples: Iterable[tuple[Labels, float]], guard: LabelGuard, combine: Callable[[float, float], float]
) -> Values:
    """Return samples by labels, those beyond the guard's limit combined into `__other__`."""
    admitted: dict[Labels, float] = {}
    for labels, value in samples:
        key = guard.admit(labels, len(admitted))
        admitted[key] = combine(admitted[key], value) if key in admitted else value
    return admitted


def _by_label(values: Iterable[tuple[str, float]]) -> Values:
    return {(label,): value for label, value in values}


def _single(value: float) -> Values:
    return {(): value}


def _gauge_or_counter(family: Family, values: Values) -> Metric:
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = make(family.name, family.meaning, labels=family.labels)
    for labels, value in values.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(family: Family, histograms: Histograms) -> Metric:
    metric = HistogramMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, histogram in histograms.items():
        metric.add_metric(labels, _cumulated(histogram), histogram.sum)
    return metric


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    bounds = (*(str(float(bound)) for bound in histogram.bounds), "+Inf")
    for bound, count in zip(bounds, histogram.buckets, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
