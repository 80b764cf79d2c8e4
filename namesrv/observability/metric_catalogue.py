"""Every metric that only a NameServer has: its name, type, labels and meaning.

Metrics of any server are in `serving/metrics/families.py`. `docs/metrics.md` is this catalogue as a page:
`python -m namesrv.observability.metric_catalogue > docs/metrics.md` writes it, and a test compares. `event_log.py`
counts, `namesrv/http/metrics.py` reads gauges and totals at a scrape.
"""

import sys
from collections.abc import Iterable
from enum import Enum
from operator import add
from typing import Final

from namesrv.core.cluster_summary import BrokerRole, SetLeadership
from namesrv.core.route_cache import BODY_BYTES_BOUNDS
from namesrv.core.values.effects import DepartureReason, HeartbeatKind, RegistrationResult
from namesrv.settings.config import NAMESRV
from remoting.protocol.topic_kinds import TopicKind
from serving.metrics.counters import BROKERS_MAX, CLUSTERS_MAX
from serving.metrics.families import ServerFamilies, metric_page
from serving.telemetry.events import Counter, Declared, Gauge, Timer, Total, declared_in

SERVER: Final = ServerFamilies(NAMESRV)

#: From the last heartbeat to the removal.
_DETECTION_S: Final = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 125, 130, 180, 300)


def _counted(name: str, meaning: str, label: str, values: Iterable[str]) -> Counter:
    """Declare a counter by cluster and a label with few values."""
    each = tuple(values)
    return Counter(name, meaning, ("cluster", label), peer_labels=1, label_sets_max=CLUSTERS_MAX * len(each), each=each)


def _of_clusters(name: str, meaning: str, label: str = "", values: int = 1) -> Gauge:
    """Declare a gauge by cluster, and by a label with so many values; clusters beyond the limit are summed."""
    labels = ("cluster", label) if label else ("cluster",)
    return Gauge(name, meaning, labels, peer_labels=1, label_sets_max=CLUSTERS_MAX * values, combine=add)


def _of_brokers(name: str, meaning: str, *labels: str) -> Gauge:
    """Declare a gauge by broker; brokers beyond the limit share the smallest value."""
    every = ("cluster", "broker", "broker_id", *labels)
    return Gauge(name, meaning, every, peer_labels=len(every), label_sets_max=BROKERS_MAX, combine=min)


def _values(kinds: type[Enum]) -> Iterable[str]:
    return (kind.value for kind in kinds)


# Routes

ROUTE_QUERIES: Final = Total("route_queries", "Route queries by result.", ("result",))
ROUTE_RESPONSE_BYTES: Final = Timer(
    "route_response_bytes", "Bytes of the body of a route response.", bounds=BODY_BYTES_BOUNDS
)
ROUTE_CACHE: Final = Total(
    "route_cache_events",
    "Lookups in the cache of encoded routes (`hit`, `miss`), and entries that a change made invalid.",
    ("result",),
)
WATCHED_ROUTES: Final = Gauge(
    "watched_routes", "Topics of which it is noted who fetches their routes; queries for them take longer."
)
COLD: Final = Gauge(
    "cold",
    "1 after a start with `peers`, until all brokers that they know have registered here, for 120 s at most; else 0.",
)
LEARNED_ANSWERS: Final = Total("learned_route_answers", "Route queries answered with brokers that peers know.")
PEERS_IGNORED: Final = Gauge(
    "peer_ignored", "1 for a NameServer of `peers` that does not answer, or is not believed; else 0.", ("namesrv",)
)
PEER_DIFFERENCES: Final = Gauge(
    "peer_difference",
    "1 for a broker set of which a NameServer of `peers` has known other `brokers` or `topics` for a minute; Java's "
    "NameServers are compared by brokers alone.",
    ("cluster", "broker", "namesrv", "kind"),
    peer_labels=2,
    label_sets_max=BROKERS_MAX,
)
VIEW_DIGEST: Final = _of_clusters(
    "view_digest", "With `peers`, a digest of brokers and topics: the same on NameServers that know the same."
)
VIEW_CHANGED: Final = Gauge(
    "view_changed_timestamp_seconds",
    "Since when the digest is this one, in Unix seconds.",
    ("cluster",),
    peer_labels=1,
    label_sets_max=CLUSTERS_MAX,
)
ROUTE_CHANGE_KINDS: Final = (
    "topic_added",
    "topic_removed",
    "queues",
    "perm",
    "broker_added",
    "broker_removed",
    "master",
)
ROUTE_CHANGES: Final = _counted(
    "route_changes", "Changes of the routes that clients can see.", "kind", ROUTE_CHANGE_KINDS
)

# Route workers

ROUTE_WORKERS: Final = Gauge("route_workers", "Route workers that serve; `routeWorkers` says how many there should be.")
ROUTE_WORKERS_ENDED: Final = Total("route_workers_ended", "Route workers that ended; each was started again.")
ROUTE_WORKER_CONNECTIONS: Final = Gauge("route_worker_connections", "Connections of clients that route workers serve.")
ROUTE_WORKER_CPU: Final = Total("route_worker_cpu_seconds", "Processor time of all route workers, in seconds.")
ROUTE_WORKER_REQUESTS: Final = Total(
    "route_worker_requests", "Requests that a route worker had to ask this process about; it keeps most answers."
)

# Watchers

WATCHERS: Final = Gauge("watchers", "Open streams of `/v1/routes/watch` and `/v1/cluster/watch`.", ("watch",))
WATCH_TOPICS: Final = Gauge(
    "watch_topics", "Topics whose routes are followed for watchers: those watched now or in the last 10 minutes."
)
WATCH_EVENTS: Final = Total("watch_events", "Events sent to watchers, each counted once a watcher.", ("watch",))
WATCH_GAPS: Final = Total(
    "watch_gaps",
    "Watchers that were sent a gap: `unknown_id` (of another server, or before a restart), `too_old`, `slow_reader`.",
    ("watch", "reason"),
)
WATCHERS_DROPPED: Final = Total(
    "watchers_dropped",
    "Watchers that were `refused` beyond the limit, or `stalled`: they read nothing.",
    ("watch", "reason"),
)

# Clusters and brokers

ACTIVE_BROKERS: Final = _of_clusters("active_brokers", "Live brokers.", "role", len(BrokerRole))
BROKER_SETS: Final = _of_clusters("broker_sets", "Broker sets by who leads them.", "state", len(SetLeadership))
AWAY_BROKER_SETS: Final = _of_clusters(
    "away_broker_sets",
    "Broker sets that had topics, or were registered for 30 s, and of which no broker is registered; for a day.",
)
LOST_TOPICS: Final = _of_clusters(
    "lost_topics", "Topics in routes that the master of their set does not have since it is the master."
)
TOPICS: Final = _of_clusters("topics", "Topics, each counted once per cluster.", "kind", len(TopicKind))
QUEUES: Final = _of_clusters("queues", "Queues over all topics and broker sets.", "access", 2)
BROKER_INFO: Final = _of_brokers("broker_info", "A live broker; always 1.", "version")
BROKER_LAST_HEARTBEAT: Final = _of_brokers(
    "broker_last_heartbeat_timestamp_seconds", "When a broker registered or sent a heartbeat last, in Unix seconds."
)
BROKER_TIMEOUT: Final = _of_brokers(
    "broker_heartbeat_timeout_seconds", "Seconds without a heartbeat after which a broker expires."
)
HEARTBEATS: Final = _counted(
    "heartbeats", "Heartbeats; registrations and data version queries count too.", "kind", _values(HeartbeatKind)
)
HEARTBEATS_LATE: Final = Counter(
    "heartbeats_late",
    "Heartbeats more than 1.5 periods after the last; the period is 1 s for a timeout below 30 s, else 30 s.",
    ("cluster", "broker"),
    peer_labels=2,
    label_sets_max=BROKERS_MAX,
)
HEARTBEAT_INTERVAL: Final = Timer(
    "heartbeat_interval_seconds",
    "Seconds between two heartbeats of a broker.",
    ("cluster",),
    bounds=_DETECTION_S,
    peer_labels=1,
    label_sets_max=CLUSTERS_MAX,
)
REGISTRATIONS: Final = _counted("registrations", "Registrations by result.", "result", _values(RegistrationResult))
REGISTRATION_TOPICS: Final = Timer(
    "registration_changed_topics", "Topics changed by one registration.", bounds=(0, 1, 10, 100, 1000, 10_000, 100_000)
)
REGISTRATION_BYTES: Final = Timer(
    "registration_body_bytes",
    "Bytes of the body of a registration, compressed or not.",
    bounds=(256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304),
)
UNREGISTRATIONS: Final = _counted(
    "unregistrations", "Brokers that left the routes, by reason.", "reason", _values(DepartureReason)
)
DETECTION_DELAY: Final = Timer(
    "detection_delay_seconds",
    "Seconds from the last heartbeat of a broker until it left the routes.",
    ("reason",),
    known=((DepartureReason.TIMEOUT.value,), (DepartureReason.CHANNEL_CLOSED.value,)),
    bounds=_DETECTION_S,
)
EXPIRY_SCAN: Final = Timer("expiry_scan_duration_seconds", "Seconds of one scan for expired brokers.")
NOTIFICATIONS: Final = Counter(
    "min_broker_id_notifications",
    "Notifications of brokers about a new smallest broker id of their set.",
    ("result",),
    known=(("sent",), ("failed",)),
)

# Role addresses

ROLE_ADDRESSES_INFO: Final = Gauge(
    "role_addresses_info",
    "Rules of role addresses in force, by their digest; always 1. It has to be the same on all NameServers, "
    "with and without roleAddressFile.",
    ("digest",),
)
ROLE_ADDRESS_RULES: Final = Gauge("role_address_rules", "Rules of role addresses in force.")
ROLE_ADDRESS_PROBLEMS: Final = Gauge(
    "role_address_problems",
    "What is wrong with role addresses: `file` is 1 while the newest file is refused; `loop` counts rules that have "
    "the address of a broker, `waiting` addresses that are not checked yet as no broker is registered for which they "
    "stand, `refused` those that did not lead to it. Clients get none of these. `failing` counts those that they get, "
    "and that have led nowhere for 15 s or more.",
    ("kind",),
)

# KV and configuration

KV_ENTRIES: Final = Gauge("kv_entries", "KV entries in all namespaces.")
KV_CHANGES: Final = Counter(
    "kv_changes",
    "KV changes; `failed` ones could not be written to disk.",
    ("result",),
    known=(("stored",), ("failed",)),
)

DECLARED: Final[Declared] = declared_in(vars())
#: All of the above, in the order of the page.
FAMILIES: Final = (
    *SERVER.life,
    *SERVER.traffic,
    *SERVER.http,
    *SERVER.history,
    *DECLARED.families(SERVER.make),
    SERVER.config_changes,
)

_LABELS: Final = """\
Times are in seconds, sizes in bytes. No label holds a topic, a group, a client or an address, but
`namesrv` one of the option `peers`; the series of a broker end when it leaves the routes. `cluster` has at most 20
values and `broker` 1000, all others count as `__other__` and in `rocketmq_namesrv_label_overflow_total`. On Linux the
`process_*` metrics are there too."""


def as_markdown() -> str:
    """Return the catalogue as the page `docs/metrics.md`."""
    return metric_page(NAMESRV, FAMILIES, "namesrv/observability/metric_catalogue.py", _LABELS)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
