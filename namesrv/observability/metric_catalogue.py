"""Every metric that only a NameServer has: its name, type, labels and meaning.

Metrics of any server are in `serving/metrics/families.py`. `docs/metrics.md` is this catalogue as a page:
`python -m namesrv.observability.metric_catalogue > docs/metrics.md` writes it, and a test compares. `metrics.py`
reads the values.
"""

import sys
from typing import Final

from namesrv.settings.config import NAMESRV
from serving.metrics.families import FamilyMaker, MetricFamily, ServerFamilies, metric_page

_MAKE: Final = FamilyMaker(NAMESRV.metric_prefix)

SERVER: Final = ServerFamilies(NAMESRV)

# Routes

ROUTE_QUERIES: Final = _MAKE.counter("route_queries", "Route queries by result.", "result")
ROUTE_RESPONSE_BYTES: Final = _MAKE.histogram("route_response_bytes", "Bytes of the body of a route response.")
ROUTE_CACHE: Final = _MAKE.counter(
    "route_cache_events",
    "Lookups in the cache of encoded routes (`hit`, `miss`), and entries that a change made invalid.",
    "result",
)
WATCHED_ROUTES: Final = _MAKE.gauge(
    "watched_routes", "Topics of which it is noted who fetches their routes; queries for them take longer."
)
ROUTE_CHANGES: Final = _MAKE.counter("route_changes", "Changes of the routes that clients can see.", "cluster", "kind")

# Watchers

WATCHERS: Final = _MAKE.gauge("watchers", "Open streams of `/v1/routes/watch` and `/v1/cluster/watch`.", "watch")
WATCH_TOPICS: Final = _MAKE.gauge(
    "watch_topics", "Topics whose routes are followed for watchers: those watched now or in the last 10 minutes."
)
WATCH_EVENTS: Final = _MAKE.counter("watch_events", "Events sent to watchers, each counted once a watcher.", "watch")
WATCH_GAPS: Final = _MAKE.counter(
    "watch_gaps",
    "Watchers that were sent a gap: `unknown_id` (of another server, or before a restart), `too_old`, `slow_reader`.",
    "watch",
    "reason",
)
WATCHERS_DROPPED: Final = _MAKE.counter(
    "watchers_dropped",
    "Watchers that were `refused` beyond the limit, or `stalled`: they read nothing.",
    "watch",
    "reason",
)

# Clusters and brokers

ACTIVE_BROKERS: Final = _MAKE.gauge("active_brokers", "Live brokers.", "cluster", "role")
BROKER_SETS: Final = _MAKE.gauge("broker_sets", "Broker sets by who leads them.", "cluster", "state")
AWAY_BROKER_SETS: Final = _MAKE.gauge(
    "away_broker_sets",
    "Broker sets that had topics, or were registered for 30 s, and of which no broker is registered; for a day.",
    "cluster",
)
LOST_TOPICS: Final = _MAKE.gauge(
    "lost_topics", "Topics in routes that the master of their set does not have since it is the master.", "cluster"
)
TOPICS: Final = _MAKE.gauge("topics", "Topics, each counted once per cluster.", "cluster", "kind")
QUEUES: Final = _MAKE.gauge("queues", "Queues over all topics and broker sets.", "cluster", "access")
BROKER_INFO: Final = _MAKE.gauge("broker_info", "A live broker; always 1.", "cluster", "broker", "broker_id", "version")
BROKER_LAST_HEARTBEAT: Final = _MAKE.gauge(
    "broker_last_heartbeat_timestamp_seconds",
    "When a broker registered or sent a heartbeat last, in Unix seconds.",
    "cluster",
    "broker",
    "broker_id",
)
BROKER_TIMEOUT: Final = _MAKE.gauge(
    "broker_heartbeat_timeout_seconds",
    "Seconds without a heartbeat after which a broker expires.",
    "cluster",
    "broker",
    "broker_id",
)
HEARTBEATS: Final = _MAKE.counter(
    "heartbeats", "Heartbeats; registrations and data version queries count too.", "cluster", "kind"
)
HEARTBEATS_LATE: Final = _MAKE.counter(
    "heartbeats_late",
    "Heartbeats more than 1.5 periods after the last; the period is 1 s for a timeout below 30 s, else 30 s.",
    "cluster",
    "broker",
)
HEARTBEAT_INTERVAL: Final = _MAKE.histogram(
    "heartbeat_interval_seconds", "Seconds between two heartbeats of a broker.", "cluster"
)
REGISTRATIONS: Final = _MAKE.counter("registrations", "Registrations by result.", "cluster", "result")
REGISTRATION_TOPICS: Final = _MAKE.histogram("registration_changed_topics", "Topics changed by one registration.")
REGISTRATION_BYTES: Final = _MAKE.histogram(
    "registration_body_bytes", "Bytes of the body of a registration, compressed or not."
)
UNREGISTRATIONS: Final = _MAKE.counter(
    "unregistrations", "Brokers that left the routes, by reason.", "cluster", "reason"
)
DETECTION_DELAY: Final = _MAKE.histogram(
    "detection_delay_seconds", "Seconds from the last heartbeat of a broker until it left the routes.", "reason"
)
EXPIRY_SCAN: Final = _MAKE.histogram("expiry_scan_duration_seconds", "Seconds of one scan for expired brokers.")
NOTIFICATIONS: Final = _MAKE.counter(
    "min_broker_id_notifications", "Notifications of brokers about a new smallest broker id of their set.", "result"
)

# Role addresses

ROLE_ADDRESSES_INFO: Final = _MAKE.gauge(
    "role_addresses_info",
    "Rules of role addresses in force, by their digest; always 1. It has to be the same on all NameServers, "
    "with and without roleAddressFile.",
    "digest",
)
ROLE_ADDRESS_RULES: Final = _MAKE.gauge("role_address_rules", "Rules of role addresses in force.")
ROLE_ADDRESS_PROBLEMS: Final = _MAKE.gauge(
    "role_address_problems",
    "What is wrong with role addresses: `file` is 1 while the newest file is refused; `loop` counts rules that have "
    "the address of a broker, `waiting` addresses that are not checked yet as no broker is registered for which they "
    "stand, `refused` those that did not lead to it. Clients get none of these. `failing` counts those that they get, "
    "and that have led nowhere for 15 s or more.",
    "kind",
)

# KV and configuration

KV_ENTRIES: Final = _MAKE.gauge("kv_entries", "KV entries in all namespaces.")
KV_CHANGES: Final = _MAKE.counter("kv_changes", "KV changes; `failed` ones could not be written to disk.", "result")

#: All of the above, in the order of the page.
FAMILIES: Final = (
    *SERVER.life,
    *SERVER.traffic,
    *SERVER.history,
    *(each for each in list(globals().values()) if isinstance(each, MetricFamily)),
    SERVER.config_changes,
)

_LABELS: Final = """\
Times are in seconds, sizes in bytes. No label holds a topic, a group, a client or an address; the series of a
broker end when it leaves the routes. `cluster` has at most 20 values and `broker` 1000, all others count as
`__other__` and in `rocketmq_namesrv_label_overflow_total`. On Linux the `process_*` metrics are there too."""


def as_markdown() -> str:
    """Return the catalogue as the page `docs/metrics.md`."""
    return metric_page(NAMESRV, FAMILIES, "namesrv/observability/metric_catalogue.py", _LABELS)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
