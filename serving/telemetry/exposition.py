"""Reads the metrics of any server at a scrape, and writes them as text.

Importing prometheus-client takes long, so this module is imported with the HTTP side.
"""

import asyncio
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import add
from typing import Final, Generic

import msgspec
from prometheus_client import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from history.recorder import Recorder, RecordingCounts
from history.schemas import FAMILIES
from remoting.protocol.codes import ResponseCode
from remoting.server.statistics import Histogram, ServerStatistics, timer_ns
from serving import __version__
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.logging.logs import Logs
from serving.metrics.counters import LabelGuard, Labels
from serving.metrics.families import HttpServerFamilies, MetricFamily, ServerFamilies
from serving.metrics.health import Health, Serving
from serving.metrics.label_values import UNKNOWN, request_name, response_name
from serving.metrics.server_counters import LATENCY_S, ServerCounters
from serving.telemetry.events import Measure
from serving.telemetry.telemetry import Telemetry

#: The text is written in slices of so many ns at least, and requests are served between them. Not in a thread: uvloop
#: takes Python's lock for each event anew, and would wait for a busy thread as often.
_SLICE_NS: Final = 1_000_000
#: So many samples of a family are written at a time.
_SAMPLES_AT_ONCE: Final = 100
#: After a text was written, it is answered again for so many times what the writing took: somebody who scrapes without
#: pause then gets no more than a tenth of a processor.
_REST_FACTOR: Final = 9

Values = Mapping[Labels, float]
Histograms = Mapping[Labels, Histogram]


class ProcessSources(msgspec.Struct, frozen=True, kw_only=True):
    """What is read in any server, also one that is reached over HTTP alone."""

    counters: ServerCounters
    telemetry: Telemetry
    logs: Logs
    health: Health
    #: Failures of background tasks by name of the task; counted on.
    task_failures: Mapping[str, int]
    #: None where nothing is recorded.
    recorder: Recorder | None = None
    #: What each part yields of its gauges.
    measures: Sequence[Callable[[], Iterable[Measure]]] = ()


class ServerSources(ProcessSources, frozen=True, kw_only=True):
    """What is read in a server of RocketMQ peers."""

    statistics: ServerStatistics


class HttpServerMetrics:
    """Reads all metrics of a server that is reached over HTTP alone."""

    def __init__(self, families: HttpServerFamilies, sources: ProcessSources) -> None:
        self._make, self._life_families, self._http_families = families.make, families.life, families.http
        self._history_families = families.history
        self._sources_of_process = sources
        self._process = ProcessCollector(registry=None)
        self._turn = asyncio.Lock()
        self._text = b""
        self._true_until_s = 0.0

    def measures(self) -> Iterator[Measure | None]:
        """Yield the gauges of this server alone, and None now and then where there is much to read."""
        return chain.from_iterable(measures() for measures in self._sources_of_process.measures)

    def own_values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Yield what this server alone declares: gauges as measured, then counters; None as the measures do."""
        telemetry = self._sources_of_process.telemetry
        gauges = {gauge: Admitted(guard, gauge.combine) for gauge, guard in telemetry.gauges.items()}
        for measure in self.measures():
            if measure is None:
                yield None
            else:
                gauges[measure.gauge].add(measure.labels, measure.value)
        for gauge, found in gauges.items():
            # One without labels is 0 where its part does not run.
            unlabelled: tuple[Labels, ...] = () if gauge.labels else ((),)
            zeros = dict.fromkeys(unlabelled if gauge.known is None else gauge.known, 0.0)
            yield gauge.family(self._make), zeros | found.values
        yield from telemetry.counts(self._make)

    def own_guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return what limits the label sets of this server's own metrics."""
        return self._sources_of_process.telemetry.guards(self._make)

    async def text(self) -> bytes:
        """Return the text format, at most some tenths of a second old."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            began_s = loop.time()
            if began_s >= self._true_until_s:
                # A list of its open files takes long when there are many.
                process = await asyncio.to_thread(lambda: list(self._process.collect()))
                self._text = await _in_slices(self.pieces(process))
                ended_s = loop.time()
                self._true_until_s = ended_s + _REST_FACTOR * (ended_s - began_s)
            return self._text

    def pieces(self, process: Iterable[Metric] = ()) -> Iterator[bytes]:
        """Yield the text piece by piece: every family of the catalogue with its present values, and `process`."""
        for found in self._values():
            if found is None:
                yield b""
            else:
                yield from _written(_gauge_or_counter(*found))
        for family, histograms in self._histograms():
            yield from _written(_histogram(family, histograms))
        yield generate_latest(_Collected(process))

    def _values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        counters = self._sources_of_process.counters
        yield from self._life()
        yield self._http_families.http_admin_requests_denied, counters.http_admin_requests_denied.counts()
        yield from self.own_values()
        yield from self._history()
        yield self._http_families.http_requests, counters.http_requests.counts()
        guards = self.own_guards()
        folded = ((family.name, guard.folded) for family, guard in guards.items() if guard.has_limit)
        yield self._life_families.label_overflow, by_label(folded)

    def _histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        counters = self._sources_of_process.counters
        yield self._life_families.event_loop_lag, {(): counters.event_loop_lag}
        yield self._http_families.http_duration, counters.http_durations.histograms()
        yield self._history_families.write_duration, {(): counters.history_writes}
        yield from self._sources_of_process.telemetry.durations(self._make)

    def _life(self) -> Iterator[tuple[MetricFamily, Values]]:
        families, sources, logs = self._life_families, self._sources_of_process, self._sources_of_process.logs
        yield families.build_info, {(__version__, platform.python_version()): 1}
        yield families.ready, single(sources.health.serving in (Serving.READY, Serving.WAITING))
        yield families.draining, single(sources.health.serving is Serving.DRAINING)
        yield families.tls_expiry, by_label(sources.counters.certificate_expiry.items())
        yield families.log_events, by_label(logs.written.items())
        yield families.log_suppressed, by_label(logs.suppressed.items())
        yield families.log_dropped, single(logs.lines_dropped)
        yield families.task_failures, by_label(sources.task_failures.items())

    def _history(self) -> Iterator[tuple[MetricFamily, Values]]:
        families, recorder = self._history_families, self._sources_of_process.recorder
        counts = recorder.counts if recorder is not None else RecordingCounts()
        unsealed_us = recorder.unsealed_since_us if recorder is not None else None
        yield families.recording, single(counts.is_recording)
        yield families.events, by_label((name, counts.events[name]) for name in FAMILIES)
        yield families.dropped, by_label((kind, counts.dropped[kind]) for kind in ("state", "heartbeat"))
        yield families.deleted, by_label((reason, counts.deleted_files[reason]) for reason in ("age", "size"))
        yield families.queued, single(recorder.queued if recorder is not None else 0)
        yield families.written_bytes, single(counts.written_bytes)
        yield families.unsealed, single((unsealed_us or 0) / 1e6)
        while counts.writes_s:
            self._sources_of_process.counters.history_writes.observe(counts.writes_s.popleft())


class ServerMetrics(HttpServerMetrics, Generic[Config]):
    """Reads all metrics of a server of RocketMQ peers; its children add their own."""

    def __init__(self, kind: ServerKind[Config], families: ServerFamilies, sources: ServerSources) -> None:
        super().__init__(families, sources)
        self._kind = kind
        self._families = families
        self._server = sources

    def _values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        yield from super()._values()
        yield from self._traffic()
        yield self._families.config_changes, self._server.counters.config_changes.counts()

    def _traffic(self) -> Iterator[tuple[MetricFamily, Values]]:
        families, statistics = self._families.traffic, self._server.statistics
        yield families.requests, self._requests()
        yield families.requests_in_flight, single(statistics.in_flight)
        yield families.requests_rejected, by_label(statistics.rejected.items())
        yield families.received_bytes, single(statistics.received_bytes)
        yield families.sent_bytes, single(statistics.sent_bytes)
        yield families.partial_frame_bytes, single(statistics.partial_frame_bytes)
        yield families.response_buffer_bytes, single(statistics.response_buffer_bytes)
        yield families.connections_paused, single(statistics.paused)
        yield families.connection_pauses, single(statistics.pauses)
        yield families.connections, by_label(statistics.connections.items())
        yield families.connections_closed, by_label(statistics.closed.items())
        yield families.unsigned_requests, self._server.counters.unsigned_requests.counts()

    def _histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        yield from super()._histograms()
        yield self._families.traffic.request_duration, self._durations()

    def _requests(self) -> Values:
        # What has not happened yet stands at 0, so that its first time shows in a rate.
        results = (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
        found: dict[Labels, float] = {
            (request_name(self._kind, code), response_name(result)): 0
            for code in self._kind.requests
            for result in results
        }
        for (code, result), count in self._server.statistics.finished().items():
            labels = (request_name(self._kind, code), response_name(result))
            found[labels] = found.get(labels, 0) + count
        return found

    def _durations(self) -> Histograms:
        found: dict[Labels, Histogram] = {
            (name,): Histogram(LATENCY_S) for name in (*self._kind.request_names.values(), UNKNOWN)
        }
        for code, latencies in self._server.statistics.latencies.items():
            histogram = found[request_name(self._kind, code),]
            # Codes of other servers are unknown here, all of them together.
            histogram.buckets = list(map(add, histogram.buckets, latencies.buckets))
            histogram.sum += latencies.total_ns / 1e9
        return found


class _Collected:
    """What prometheus-client renders."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def _in_slices(pieces: Iterator[bytes]) -> bytes:
    """Return all pieces together; whatever else has to be done is done while they are written."""
    text: list[bytes] = []
    began_ns = timer_ns()
    for piece in pieces:
        text.append(piece)
        if timer_ns() - began_ns >= _SLICE_NS:
            await asyncio.sleep(0)
            began_ns = timer_ns()
    return b"".join(text)


def _written(metric: Metric) -> Iterator[bytes]:
    samples, metric.samples = metric.samples, []
    head = generate_latest(_Collected([metric]))
    yield head
    for first in range(0, len(samples), _SAMPLES_AT_ONCE):
        metric.samples = samples[first : first + _SAMPLES_AT_ONCE]
        yield generate_latest(_Collected([metric])).removeprefix(head)


class Admitted:
    """Samples by labels, those beyond a guard's limit combined into `__other__`."""

    def __init__(self, guard: LabelGuard, combine: Callable[[float, float], float]) -> None:
        self.values: dict[Labels, float] = {}
        self._guard = guard
        self._combine = combine

    def add(self, labels: Labels, value: float) -> None:
        key = self._guard.admit(labels, len(self.values))
        self.values[key] = self._combine(self.values[key], value) if key in self.values else value


def by_label(values: Iterable[tuple[str, float]]) -> Values:
    return {(label,): value for label, value in values}


def single(value: float) -> Values:
    return {(): value}


def _gauge_or_counter(family: MetricFamily, values: Values) -> Metric:
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = make(family.name, family.meaning, labels=family.labels)
    for labels, value in values.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(family: MetricFamily, histograms: Histograms) -> Metric:
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
