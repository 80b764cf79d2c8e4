"""What a metric is, those that any server has, and how a catalogue of them becomes a page."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from serving.config.server_config import Config
from serving.config.server_kind import ServerKind

Kind = Literal["counter", "gauge", "histogram"]


class MetricFamily(msgspec.Struct, frozen=True):
    """One metric."""

    #: With prefix, unit, and `_total` for a counter.
    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


class FamilyMaker:
    """Makes metrics whose names begin alike."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def counter(self, name: str, meaning: str, *labels: str) -> MetricFamily:
        """Return a number that only grows, `<name>_total`."""
        return MetricFamily(f"{self._prefix}{name}_total", "counter", meaning, labels)

    def gauge(self, name: str, meaning: str, *labels: str) -> MetricFamily:
        """Return a number as it is now."""
        return MetricFamily(self._prefix + name, "gauge", meaning, labels)

    def histogram(self, name: str, meaning: str, *labels: str) -> MetricFamily:
        """Return how often values fell into each bucket."""
        return MetricFamily(self._prefix + name, "histogram", meaning, labels)


class ServerFamilies:
    """The metrics that any server has, under its prefix; those of the HTTP side are called alike everywhere."""

    def __init__(self, kind: ServerKind[Config]) -> None:
        server, http = FamilyMaker(kind.metric_prefix), FamilyMaker("rocketmq_http_")

        self.build_info = server.gauge(
            "build_info", "Versions of the server and of Python; always 1.", "version", "python"
        )
        self.ready = server.gauge("ready", "1 while peers are served: `/readyz` answers 200.")
        self.draining = server.gauge("draining", "1 after the stop has begun.")
        self.event_loop_lag = server.histogram(
            "event_loop_lag_seconds", "Seconds by which a timer of 100 ms fired late."
        )
        self.tls_expiry = server.gauge(
            "tls_certificate_expiry_timestamp_seconds",
            "When a TLS certificate expires, in Unix seconds.",
            "certificate",
        )
        self.log_events = server.counter("log_events", "Log lines written.", "level")
        self.log_suppressed = server.counter(
            "log_suppressed", "Log lines suppressed by the rate limits, by event.", "event"
        )
        self.log_dropped = server.counter("log_lines_dropped", "Log lines lost because nobody read the output.")
        self.task_failures = server.counter(
            "background_task_failures",
            "Failures of background tasks, each a fault of the server and a log event background_task_failed.",
            "task",
        )
        self.label_overflow = server.counter(
            "label_overflow",
            "Values counted as `__other__` because the metric had reached its limit of label sets.",
            "metric",
        )

        # Requests and connections

        self.requests = server.counter(
            "requests",
            f"Finished requests, one-way ones included; `unknown` for codes that a {kind.name} does not have.",
            "request_code",
            "response_code",
        )
        self.request_duration = server.histogram(
            "request_duration_seconds",
            "Seconds from the last byte of the request until its response was handed to the socket.",
            "request_code",
        )
        self.requests_in_flight = server.gauge("requests_in_flight", "Requests accepted and not answered yet.")
        self.requests_rejected = server.counter(
            "requests_rejected",
            "Frames and requests that were refused, and connections beyond `connectionsMax`.",
            "reason",
        )
        self.received_bytes = server.counter("received_bytes", "Bytes read from peers.")
        self.sent_bytes = server.counter("sent_bytes", "Bytes handed to the sockets.")
        self.partial_frame_bytes = server.gauge(
            "partial_frame_bytes", "Bytes of frames that have not arrived completely."
        )
        self.response_buffer_bytes = server.gauge(
            "response_buffer_bytes",
            "Bytes of responses that peers have not read yet, measured each second; the kernel buffers some more.",
        )
        self.connections_paused = server.gauge(
            "connections_paused",
            "Open connections from which no requests are read because the peer does not read its responses.",
        )
        self.connection_pauses = server.counter(
            "connection_pauses",
            "Times that reading from a connection paused because the peer did not read its responses.",
        )
        self.connections = server.gauge("connections", "Open connections, by kind of the peer.", "kind")
        self.connections_closed = server.counter("connections_closed", "Connections that were closed.", "reason")
        self.http_requests = http.counter(
            "requests", "HTTP requests by path template and class of the status (2xx).", "method", "route", "status"
        )
        self.http_duration = http.histogram(
            "request_duration_seconds", "HTTP requests by path template.", "method", "route"
        )

        self.unsigned_requests = server.counter(
            "unsigned_requests",
            "Requests that this server sent unsigned, although it has keys, because `brokerAccessAddresses` does not "
            "name the address.",
        )

        # History

        history = FamilyMaker("rocketmq_history_")
        self.history_recording = history.gauge(
            "recording", "1 while the history is written; 0 if it is switched off or cannot be written."
        )
        self.history_events = history.counter("events", "Rows written, by family of the history.", "family")
        self.history_dropped = history.counter(
            "events_dropped", "Rows lost because the queue was full: state changes or heartbeats.", "kind"
        )
        self.history_deleted = history.counter(
            "deleted_files",
            "Files deleted, ingested or not, because of their age or the size of all of them.",
            "reason",
        )
        self.history_queued = history.gauge("queue_events", "Rows that wait to be written.")
        self.history_written_bytes = history.counter("written_bytes", "Bytes written.")
        self.history_write_duration = history.histogram(
            "write_duration_seconds", "Seconds of one write of up to some hundred rows."
        )
        self.history_unsealed = history.gauge(
            "oldest_unsealed_timestamp_seconds",
            "When the oldest open file was begun, in Unix seconds; 0 if there is none.",
        )

        # Configuration

        self.config_changes = server.counter(
            "config_changes",
            "Changes of the configuration by request; `failed` ones could not be written to disk.",
            "result",
        )

    @property
    def life(self) -> tuple[MetricFamily, ...]:
        """The process itself."""
        return (
            self.build_info,
            self.ready,
            self.draining,
            self.event_loop_lag,
            self.tls_expiry,
            self.log_events,
            self.log_suppressed,
            self.log_dropped,
            self.task_failures,
            self.label_overflow,
        )

    @property
    def traffic(self) -> tuple[MetricFamily, ...]:
        """Requests and connections."""
        return (
            self.requests,
            self.request_duration,
            self.requests_in_flight,
            self.requests_rejected,
            self.received_bytes,
            self.sent_bytes,
            self.partial_frame_bytes,
            self.response_buffer_bytes,
            self.connections_paused,
            self.connection_pauses,
            self.connections,
            self.connections_closed,
            self.http_requests,
            self.http_duration,
            self.unsigned_requests,
        )

    @property
    def history(self) -> tuple[MetricFamily, ...]:
        """What is recorded."""
        return (
            self.history_recording,
            self.history_events,
            self.history_dropped,
            self.history_deleted,
            self.history_queued,
            self.history_written_bytes,
            self.history_write_duration,
            self.history_unsealed,
        )


def metric_page(kind: ServerKind[Config], families: Iterable[MetricFamily], catalogue: str, labels: str) -> str:
    """Return all metrics of a server as a page.

    `catalogue` is the file that it is written from, `labels` some lines about what the labels hold.
    """
    port = kind.defaults.http_port
    head = [
        "# Metrics",
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
