"""Every metric of this server: its name, type, labels and meaning.

`docs/metrics.md` is this catalogue as a page: `python -m namesrv.metric_catalogue > docs/metrics.md` writes it, and a
test compares. How each is read stands in `metrics.py`.
"""

import sys
from typing import Final, Literal

import msgspec

PREFIX: Final = "rocketmq_namesrv_"

Kind = Literal["counter", "gauge", "histogram"]


class Family(msgspec.Struct, frozen=True):
    """One metric."""

    #: With prefix, unit, and `_total` for a counter.
    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


def _counter(name: str, meaning: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}_total", "counter", meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Family:
    return Family(PREFIX + name, "gauge", meaning, labels)


def _histogram(name: str, meaning: str, *labels: str) -> Family:
    return Family(PREFIX + name, "histogram", meaning, labels)


# The server itself

BUILD_INFO: Final = _gauge("build_info", "What runs; always 1.", "version", "python")
READY: Final = _gauge("ready", "1 while peers are served, as /readyz answers.")
DRAINING: Final = _gauge("draining", "1 since the stop has begun.")
EVENT_LOOP_LAG: Final = _histogram("event_loop_lag_seconds", "How late a timer of 100 ms came.")
TLS_EXPIRY: Final = _gauge("tls_certificate_expiry_timestamp_seconds", "End of a TLS certificate.", "certificate")
LOG_EVENTS: Final = _counter("log_events", "Log lines written.", "level")
LOG_SUPPRESSED: Final = _counter("log_suppressed", "Log lines kept back by the limits, by event.", "event")
LOG_DROPPED: Final = _counter("log_lines_dropped", "Log lines lost because the output did not take them.")
LABEL_OVERFLOW: Final = _counter(
    "label_overflow", "Values counted as __other__ because a metric had its most label sets.", "metric"
)

# Requests and connections

REQUESTS: Final = _counter(
    "requests",
    "Finished requests, one-way ones too; codes that are not of a NameServer are unknown.",
    "request_code",
    "response_code",
)
REQUEST_DURATION: Final = _histogram(
    "request_duration_seconds", "From the whole frame read until the answer was handed to the socket.", "request_code"
)
REQUESTS_IN_FLIGHT: Final = _gauge("requests_in_flight", "Requests accepted and not answered yet.")
REQUESTS_REJECTED: Final = _counter(
    "requests_rejected", "Frames and requests that were not carried out, and connections beyond the limit.", "reason"
)
RECEIVED_BYTES: Final = _counter("received_bytes", "Bytes read from peers.")
SENT_BYTES: Final = _counter("sent_bytes", "Bytes handed to the sockets.")
UNFINISHED_BYTES: Final = _gauge("unfinished_frame_bytes", "Bytes that wait for the end of their frame.")
UNREAD_BYTES: Final = _gauge(
    "unread_answer_bytes", "Answers that peers have not taken yet, looked at each second; the system keeps some more."
)
CONNECTIONS_PAUSED: Final = _gauge(
    "connections_paused", "Open connections that are not read, because their peers leave too many answers unread."
)
CONNECTION_PAUSES: Final = _counter("connection_pauses", "Times that a peer left too many answers unread.")
CONNECTIONS: Final = _gauge("connections", "Open connections, by what the other end has shown itself to be.", "kind")
CONNECTIONS_CLOSED: Final = _counter("connections_closed", "Connections that ended.", "reason")
HTTP_REQUESTS: Final = Family(
    "rocketmq_http_requests_total",
    "counter",
    "HTTP requests by path template and class of the status (2xx).",
    ("method", "route", "status"),
)
HTTP_DURATION: Final = Family(
    "rocketmq_http_request_duration_seconds", "histogram", "HTTP requests by path template.", ("method", "route")
)

# Routes

ROUTE_QUERIES: Final = _counter("route_queries", "Route queries by how they ended.", "result")
ROUTE_RESPONSE_BYTES: Final = _histogram("route_response_bytes", "Encoded route bodies.")
ROUTE_CACHE: Final = _counter("route_cache_events", "Uses of encoded routes kept for the next query.", "result")
ROUTE_CHANGES: Final = _counter("route_changes", "Visible changes of the routes.", "cluster", "kind")

# Clusters and brokers

ACTIVE_BROKERS: Final = _gauge("active_brokers", "Living brokers.", "cluster", "role")
BROKER_SETS: Final = _gauge("broker_sets", "Broker names by who leads them.", "cluster", "state")
TOPICS: Final = _gauge("topics", "Topics, each counted once per cluster.", "cluster", "kind")
QUEUES: Final = _gauge("queues", "Queues over all topics and broker sets.", "cluster", "access")
BROKER_INFO: Final = _gauge("broker_info", "A living broker; always 1.", "cluster", "broker", "broker_id", "version")
BROKER_LAST_HEARTBEAT: Final = _gauge(
    "broker_last_heartbeat_timestamp_seconds", "Last sign of life of a broker.", "cluster", "broker", "broker_id"
)
BROKER_TIMEOUT: Final = _gauge(
    "broker_heartbeat_timeout_seconds", "Silence that is allowed to a broker.", "cluster", "broker", "broker_id"
)
HEARTBEATS: Final = _counter("heartbeats", "Signs of life, registrations among them.", "cluster", "kind")
HEARTBEATS_LATE: Final = _counter(
    "heartbeats_late",
    "Signs of life more than 1.5 periods after the last; the period is 1 s for a timeout below 30 s, else 30 s.",
    "cluster",
    "broker",
)
HEARTBEAT_INTERVAL: Final = _histogram(
    "heartbeat_interval_seconds", "Time between two signs of life of a broker.", "cluster"
)
REGISTRATIONS: Final = _counter("registrations", "Registrations by effect.", "cluster", "result")
REGISTRATION_TOPICS: Final = _histogram("registration_changed_topics", "Topics that one registration changed.")
REGISTRATION_BYTES: Final = _histogram("registration_body_bytes", "Bodies of registrations, as they came.")
UNREGISTRATIONS: Final = _counter("unregistrations", "Brokers that left, and why.", "cluster", "reason")
DETECTION_DELAY: Final = _histogram(
    "detection_delay_seconds", "From the last sign of life of a broker until it left the routes.", "reason"
)
EXPIRY_SCAN: Final = _histogram("expiry_scan_duration_seconds", "One look for silent brokers.")
NOTIFICATIONS: Final = _counter(
    "min_broker_id_notifications", "Brokers told of a new smallest broker id of their set.", "result"
)

# KV and configuration

KV_ENTRIES: Final = _gauge("kv_entries", "KV entries of all namespaces.")
KV_CHANGES: Final = _counter("kv_changes", "KV changes; failed ones could not be written to disk.", "result")
CONFIG_CHANGES: Final = _counter(
    "config_changes", "Changes of the configuration; failed ones could not be written to disk.", "result"
)

#: All of the above, in their order.
FAMILIES: Final = tuple(each for each in list(globals().values()) if isinstance(each, Family))


def as_markdown() -> str:
    """Return the catalogue as the page `docs/metrics.md`."""
    head = [
        "# Metrics",
        "",
        "Served at `/metrics` of the HTTP port (`httpPort`, 9880), in Prometheus' text format. Written from",
        "`namesrv/metric_catalogue.py`; do not edit.",
        "",
        "Times are in seconds, sizes in bytes. No label holds a topic, a group, a client or an address; series of a",
        "broker go with the broker. `cluster` has at most 20 values and `broker` 1000, all others count as",
        "`__other__` and in `rocketmq_namesrv_label_overflow_total`. On Linux the `process_*` metrics are there too.",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_row, FAMILIES)]) + "\n"


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} |"


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
