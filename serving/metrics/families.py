"""What a metric is, those that any server has, and how a catalogue of them becomes a page."""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from serving.config.server_config import Config
from serving.config.server_kind import ServerKind

Kind = Literal["counter", "gauge", "histogram"]


class MetricFamily(msgspec.Struct, frozen=True):
    #: With prefix, unit, and `_total` for a counter.
    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


class FamilyMaker:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def counter(self, name: str, meaning: str, *labels: str) -> MetricFamily:
        """Return a number that only grows, `<name>_total`."""
        return MetricFamily(f"{self._prefix}{name}_total", "counter", meaning, labels)

    def gauge(self, name: str, meaning: str, *labels: str) -> MetricFamily:
        return MetricFamily(self._prefix + name, "gauge", meaning, labels)

    def histogram(self, name: str, meaning: str, *labels: str) -> MetricFamily:
        """Return how often values fell into each bucket."""
        return MetricFamily(self._prefix + name, "histogram", meaning, labels)


class _Families:
    """Some metrics as attributes; iteration yields them in the order of the page."""

    def __iter__(self) -> Iterator[MetricFamily]:
        return iter(vars(self).values())


class ProcessFamilies(_Families):
    def __init__(self, make: FamilyMaker) -> None:
        self.build_info = make.gauge(
            "build_info", "Versions of the server and of Python; always 1.", "version", "python"
        )
        self.ready = make.gauge("ready", "1 while peers are served; `/readyz` answers 503 while it waits for more.")
        self.draining = make.gauge("draining", "1 after the stop has begun.")
        self.event_loop_lag = make.histogram("event_loop_lag_seconds", "Seconds by which a timer of 100 ms fired late.")
        self.tls_expiry = make.gauge(
            "tls_certificate_expiry_timestamp_seconds",
            "When a TLS certificate expires, in Unix seconds.",
            "certificate",
        )
        self.log_events = make.counter("log_events", "Log lines written.", "level")
        self.log_suppressed = make.counter(
            "log_suppressed", "Log lines suppressed by the rate limits, by event.", "event"
        )
        self.log_dropped = make.counter("log_lines_dropped", "Log lines lost because nobody read the output.")
        self.task_failures = make.counter(
            "background_task_failures",
            "Failures of background tasks, each a fault of the server and a log event background_task_failed.",
            "task",
        )
        self.label_overflow = make.counter(
            "label_overflow",
            "Values counted as `__other__` because the metric had reached its limit of label sets.",
            "metric",
        )


class HttpFamilies(_Families):
    def __init__(self, http: FamilyMaker) -> None:
        self.http_requests = http.counter(
            "requests", "HTTP requests by path template and class of the status (2xx).", "method", "route", "status"
        )
        self.http_duration = http.histogram(
            "request_duration_seconds", "HTTP requests by path template.", "method", "route"
        )
        self.http_admin_requests_denied = http.counter(
            "admin_requests_denied",
            "HTTP requests that would change something and were refused: `off` (no `httpAdminTokenFile`), "
            "`other_origin` (a page of another site), `no_token` or `wrong_token`.",
            "reason",
        )


class TrafficFamilies(_Families):
    """Requests and connections of RocketMQ peers."""

    def __init__(self, make: FamilyMaker, server_name: str) -> None:
        self.requests = make.counter(
            "requests",
            f"Finished requests, one-way ones included; `unknown` for codes that a {server_name} does not have.",
            "request_code",
            "response_code",
        )
        self.request_duration = make.histogram(
            "request_duration_seconds",
            "Seconds from the last byte of the request until its response was handed to the socket.",
            "request_code",
        )
        self.requests_in_flight = make.gauge("requests_in_flight", "Requests accepted and not answered yet.")
        self.requests_rejected = make.counter(
            "requests_rejected",
            "Frames and requests that were refused, and connections beyond `connectionsMax`.",
            "reason",
        )
        self.received_bytes = make.counter("received_bytes", "Bytes read from peers.")
        self.sent_bytes = make.counter("sent_bytes", "Bytes handed to the sockets.")
        self.partial_frame_bytes = make.gauge(
            "partial_frame_bytes", "Bytes of frames that have not arrived completely."
        )
        self.response_buffer_bytes = make.gauge(
            "response_buffer_bytes",
            "Bytes of responses that peers have not read yet, measured each second; the kernel buffers some more.",
        )
        self.connections_paused = make.gauge(
            "connections_paused",
            "Open connections from which no requests are read because the peer does not read its responses.",
        )
        self.connection_pauses = make.counter(
            "connection_pauses",
            "Times that reading from a connection paused because the peer did not read its responses.",
        )
        self.connections = make.gauge("connections", "Open connections, by kind of the peer.", "kind")
        self.connections_closed = make.counter("connections_closed", "Connections that were closed.", "reason")
        self.unsigned_requests = make.counter(
            "unsigned_requests",
            "Requests that this server sent unsigned, although it has keys, because `brokerAccessAddresses` does not "
            "name the address.",
        )


class HistoryFamilies(_Families):
    def __init__(self, make: FamilyMaker) -> None:
        self.recording = make.gauge(
            "recording", "1 while the history is written; 0 if it is switched off or cannot be written."
        )
        self.events = make.counter("events", "Rows written, by family of the history.", "family")
        self.dropped = make.counter(
            "events_dropped", "Rows lost because the queue was full: state changes or heartbeats.", "kind"
        )
        self.deleted = make.counter(
            "deleted_files",
            "Files deleted, ingested or not, because of their age or the size of all of them.",
            "reason",
        )
        self.queued = make.gauge("queue_events", "Rows that wait to be written.")
        self.written_bytes = make.counter("written_bytes", "Bytes written.")
        self.write_duration = make.histogram(
            "write_duration_seconds", "Seconds of one write of up to some hundred rows."
        )
        self.unsealed = make.gauge(
            "oldest_unsealed_timestamp_seconds",
            "When the oldest open file was begun, in Unix seconds; 0 if there is none.",
        )


class HttpServerFamilies:
    """The metrics that any server has; those of HTTP and of the history have the same names in each."""

    def __init__(self, kind: ServerKind[Config]) -> None:
        self.make = FamilyMaker(kind.metric_prefix)
        self.life = ProcessFamilies(self.make)
        self.http = HttpFamilies(FamilyMaker("rocketmq_http_"))
        self.history = HistoryFamilies(FamilyMaker("rocketmq_history_"))


class ServerFamilies(HttpServerFamilies):
    """The metrics that any server of RocketMQ peers has."""

    def __init__(self, kind: ServerKind[Config]) -> None:
        super().__init__(kind)
        self.traffic = TrafficFamilies(self.make, kind.name)
        self.config_changes = self.make.counter(
            "config_changes",
            "Changes of the configuration by request; `failed` ones could not be written to disk.",
            "result",
        )


def metric_page(kind: ServerKind[Config], families: Iterable[MetricFamily], catalogue: str, labels: str) -> str:
    """Return all metrics as a page; `catalogue` is the file it is written from, `labels` says what labels hold."""
    port = kind.defaults.http_port
    head = [
        f"# Metrics of the {kind.name}",
        "",
        f"Served at `/metrics` of the HTTP port (`httpPort`, {port}), in Prometheus' text format. Written from",
        f"`{catalogue}`; do not edit.",
        "",
        labels,
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_row, families)]) + "\n"


def _row(family: MetricFamily) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"
