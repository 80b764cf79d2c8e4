"""What a metric is, those that any server has, and how a catalogue of them becomes a page."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from serving.config.server_config import Config
from serving.config.server_kind import ServerKind

Kind = Literal["counter", "gauge", "histogram"]


class Family(msgspec.Struct, frozen=True):
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

    def counter(self, name: str, meaning: str, *labels: str) -> Family:
        """Return a number that only grows, `<name>_total`."""
        return Family(f"{self._prefix}{name}_total", "counter", meaning, labels)

    def gauge(self, name: str, meaning: str, *labels: str) -> Family:
        """Return a number as it is now."""
        return Family(self._prefix + name, "gauge", meaning, labels)

    def histogram(self, name: str, meaning: str, *labels: str) -> Family:
        """Return how often values fell into each bucket."""
        return Family(self._prefix + name, "histogram", meaning, labels)


class ServerFamilies:
    """The metrics that any server has, under its prefix; those of the HTTP side are called alike everywhere."""

    def __init__(self, kind: ServerKind[Config]) -> None:
        server, http = FamilyMaker(kind.metric_prefix), FamilyMaker("rocketmq_http_")

        self.build_info = server.gauge("build_info", "What runs; always 1.", "version", "python")
        self.ready = server.gauge("ready", "1 while peers are served, as /readyz answers.")
        self.draining = server.gauge("draining", "1 since the stop has begun.")
        self.event_loop_lag = server.histogram("event_loop_lag_seconds", "How late a timer of 100 ms came.")
        self.tls_expiry = server.gauge(
            "tls_certificate_expiry_timestamp_seconds", "End of a TLS certificate.", "certificate"
        )
        self.log_events = server.counter("log_events", "Log lines written.", "level")
        self.log_suppressed = server.counter("log_suppressed", "Log lines kept back by the limits, by event.", "event")
        self.log_dropped = server.counter("log_lines_dropped", "Log lines lost because the output did not take them.")
        self.task_failures = server.counter(
            "background_task_failures",
            "Failures of background tasks by a fault of the server, by task; each is a log event chore_failed.",
            "task",
        )
        self.label_overflow = server.counter(
            "label_overflow", "Values counted as __other__ because a metric had its most label sets.", "metric"
        )

        # Requests and connections

        self.requests = server.counter(
            "requests",
            f"Finished requests, one-way ones too; codes that are not of a {kind.name} are unknown.",
            "request_code",
            "response_code",
        )
        self.request_duration = server.histogram(
            "request_duration_seconds",
            "From the whole frame read until the answer was handed to the socket.",
            "request_code",
        )
        self.requests_in_flight = server.gauge("requests_in_flight", "Requests accepted and not answered yet.")
        self.requests_rejected = server.counter(
            "requests_rejected",
            "Frames and requests that were not carried out, and connections beyond the limit.",
            "reason",
        )
        self.received_bytes = server.counter("received_bytes", "Bytes read from peers.")
        self.sent_bytes = server.counter("sent_bytes", "Bytes handed to the sockets.")
        self.unfinished_bytes = server.gauge("unfinished_frame_bytes", "Bytes that wait for the end of their frame.")
        self.unread_bytes = server.gauge(
            "unread_answer_bytes",
            "Answers that peers have not taken yet, looked at each second; the system keeps some more.",
        )
        self.connections_paused = server.gauge(
            "connections_paused",
            "Open connections that are not read, because their peers leave too many answers unread.",
        )
        self.connection_pauses = server.counter("connection_pauses", "Times that a peer left too many answers unread.")
        self.connections = server.gauge(
            "connections", "Open connections, by what the other end has shown itself to be.", "kind"
        )
        self.connections_closed = server.counter("connections_closed", "Connections that ended.", "reason")
        self.http_requests = http.counter(
            "requests", "HTTP requests by path template and class of the status (2xx).", "method", "route", "status"
        )
        self.http_duration = http.histogram(
            "request_duration_seconds", "HTTP requests by path template.", "method", "route"
        )

        self.unsigned_requests = server.counter(
            "unsigned_requests",
            "Requests of its own that went unsigned to addresses that brokerAccessAddresses does not name, although "
            "there are keys.",
        )

        # History

        history = FamilyMaker("rocketmq_history_")
        self.history_recording = history.gauge(
            "recording", "1 while the history is written; 0 if it is off, or cannot be written."
        )
        self.history_events = history.counter("events", "Rows written, by family of the history.", "family")
        self.history_dropped = history.counter(
            "events_dropped", "What found no room while it waited to be written: state changes or beats.", "kind"
        )
        self.history_deleted = history.counter(
            "deleted_files", "Files deleted, read or not, because of their age or the size of all of them.", "reason"
        )
        self.history_queued = history.gauge("queue_events", "What waits to be written.")
        self.history_written_bytes = history.counter("written_bytes", "Bytes written.")
        self.history_write_duration = history.histogram(
            "write_duration_seconds", "One writing of up to some hundred rows."
        )
        self.history_unsealed = history.gauge(
            "oldest_unsealed_timestamp_seconds", "When the oldest file was begun that still grows; 0 if there is none."
        )

        # Configuration

        self.config_changes = server.counter(
            "config_changes", "Changes of the configuration; failed ones could not be written to disk.", "result"
        )

    @property
    def life(self) -> tuple[Family, ...]:
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
    def traffic(self) -> tuple[Family, ...]:
        """Requests and connections."""
        return (
            self.requests,
            self.request_duration,
            self.requests_in_flight,
            self.requests_rejected,
            self.received_bytes,
            self.sent_bytes,
            self.unfinished_bytes,
            self.unread_bytes,
            self.connections_paused,
            self.connection_pauses,
            self.connections,
            self.connections_closed,
            self.http_requests,
            self.http_duration,
            self.unsigned_requests,
        )

    @property
    def history(self) -> tuple[Family, ...]:
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


def metric_page(kind: ServerKind[Config], families: Iterable[Family], catalogue: str, labels: str) -> str:
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


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"
