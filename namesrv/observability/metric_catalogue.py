"""Every metric of this server: its name, type, labels and meaning.

What any server has stands in `serving/metrics/families.py`. `docs/metrics.md` is this catalogue as a page:
`python -m namesrv.observability.metric_catalogue > docs/metrics.md` writes it, and a test compares. How each is read
stands in `metrics.py`.
"""

import sys
from typing import Final

from namesrv.settings.config import NAMESRV
from serving.metrics.families import FamilyMaker, MetricFamily, ServerFamilies, metric_page

_MAKE: Final = FamilyMaker(NAMESRV.metric_prefix)

SERVER: Final = ServerFamilies(NAMESRV)

# Routes

ROUTE_QUERIES: Final = _MAKE.counter("route_queries", "Route queries by how they ended.", "result")
ROUTE_RESPONSE_BYTES: Final = _MAKE.histogram("route_response_bytes", "Encoded route bodies.")
ROUTE_CACHE: Final = _MAKE.counter("route_cache_events", "Uses of encoded routes kept for the next query.", "result")
ROUTE_CHANGES: Final = _MAKE.counter("route_changes", "Visible changes of the routes.", "cluster", "kind")

# Clusters and brokers

ACTIVE_BROKERS: Final = _MAKE.gauge("active_brokers", "Living brokers.", "cluster", "role")
BROKER_SETS: Final = _MAKE.gauge("broker_sets", "Broker names by who leads them.", "cluster", "state")
TOPICS: Final = _MAKE.gauge("topics", "Topics, each counted once per cluster.", "cluster", "kind")
QUEUES: Final = _MAKE.gauge("queues", "Queues over all topics and broker sets.", "cluster", "access")
BROKER_INFO: Final = _MAKE.gauge(
    "broker_info", "A living broker; always 1.", "cluster", "broker", "broker_id", "version"
)
BROKER_LAST_HEARTBEAT: Final = _MAKE.gauge(
    "broker_last_heartbeat_timestamp_seconds", "Last sign of life of a broker.", "cluster", "broker", "broker_id"
)
BROKER_TIMEOUT: Final = _MAKE.gauge(
    "broker_heartbeat_timeout_seconds", "Silence that is allowed to a broker.", "cluster", "broker", "broker_id"
)
HEARTBEATS: Final = _MAKE.counter("heartbeats", "Signs of life, registrations among them.", "cluster", "kind")
HEARTBEATS_LATE: Final = _MAKE.counter(
    "heartbeats_late",
    "Signs of life more than 1.5 periods after the last; the period is 1 s for a timeout below 30 s, else 30 s.",
    "cluster",
    "broker",
)
HEARTBEAT_INTERVAL: Final = _MAKE.histogram(
    "heartbeat_interval_seconds", "Time between two signs of life of a broker.", "cluster"
)
REGISTRATIONS: Final = _MAKE.counter("registrations", "Registrations by effect.", "cluster", "result")
REGISTRATION_TOPICS: Final = _MAKE.histogram("registration_changed_topics", "Topics that one registration changed.")
REGISTRATION_BYTES: Final = _MAKE.histogram("registration_body_bytes", "Bodies of registrations, as they came.")
UNREGISTRATIONS: Final = _MAKE.counter("unregistrations", "Brokers that left, and why.", "cluster", "reason")
DETECTION_DELAY: Final = _MAKE.histogram(
    "detection_delay_seconds", "From the last sign of life of a broker until it left the routes.", "reason"
)
EXPIRY_SCAN: Final = _MAKE.histogram("expiry_scan_duration_seconds", "One look for silent brokers.")
NOTIFICATIONS: Final = _MAKE.counter(
    "min_broker_id_notifications", "Brokers told of a new smallest broker id of their set.", "result"
)

# KV and configuration

KV_ENTRIES: Final = _MAKE.gauge("kv_entries", "KV entries of all namespaces.")
KV_CHANGES: Final = _MAKE.counter("kv_changes", "KV changes; failed ones could not be written to disk.", "result")

#: All of the above, in the order of the page.
FAMILIES: Final = (
    *SERVER.life,
    *SERVER.traffic,
    *SERVER.history,
    *(each for each in list(globals().values()) if isinstance(each, MetricFamily)),
    SERVER.config_changes,
)

_LABELS: Final = """\
Times are in seconds, sizes in bytes. No label holds a topic, a group, a client or an address; series of a
broker go with the broker. `cluster` has at most 20 values and `broker` 1000, all others count as
`__other__` and in `rocketmq_namesrv_label_overflow_total`. On Linux the `process_*` metrics are there too."""


def as_markdown() -> str:
    """Return the catalogue as the page `docs/metrics.md`."""
    return metric_page(NAMESRV, FAMILIES, "namesrv/observability/metric_catalogue.py", _LABELS)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
