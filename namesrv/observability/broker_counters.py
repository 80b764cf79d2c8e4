"""Counters of brokers and routes since the start, from the events of the state and from measurements.

Only the event loop's thread changes them; `metrics.py` reads them at a scrape.
"""

from typing import Final

from namesrv.core.values.effects import (
    BrokerHeartbeat,
    BrokerRegistered,
    BrokerRemoved,
    DepartureReason,
    Event,
    HeartbeatKind,
    RegistrationConflicted,
    RegistrationResult,
    RouteChanges,
    StaleRegistration,
    TopicsChangedByAdmin,
)
from remoting.server.statistics import Histogram
from serving.metrics.counters import (
    BROKERS_MAX,
    CLUSTERS_MAX,
    OTHER,
    CounterTable,
    HistogramTable,
    Living,
    everything,
)
from serving.metrics.server_counters import LATENCY_S, ServerCounters

#: Upper bounds in seconds, from the last heartbeat to the removal.
DETECTION_S: Final = (0.5, 1, 2, 5, 10, 15, 30, 60, 120, 125, 130, 180, 300)

TOPICS_BOUNDS: Final = (0, 1, 10, 100, 1000, 10_000, 100_000)
BODY_BYTES_BOUNDS: Final = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)

ROUTE_CHANGE_KINDS: Final = (
    "topic_added",
    "topic_removed",
    "queues",
    "perm",
    "broker_added",
    "broker_removed",
    "master",
)

#: A timeout below this is that of a broker with enableSlaveActingMaster, which sends a heartbeat each second (10 s
#: by default); the others register each 30 s (registerNameServerPeriod) and have 120 s. No request has the period.
_SHORT_TIMEOUT_MS: Final = 30_000
_HEARTBEAT_PERIOD_MS: Final = 1_000
_REGISTRATION_PERIOD_MS: Final = 30_000
_LATE_PERIODS: Final = 1.5


def is_late(interval_ms: int, heartbeat_timeout_ms: int) -> bool:
    """Return True if a broker with this timeout sent nothing for more than one and a half of its periods."""
    period_ms = _HEARTBEAT_PERIOD_MS if heartbeat_timeout_ms < _SHORT_TIMEOUT_MS else _REGISTRATION_PERIOD_MS
    return interval_ms > _LATE_PERIODS * period_ms


def _by_cluster(each: tuple[str, ...], living: Living) -> CounterTable:
    return CounterTable(label_sets_max=CLUSTERS_MAX * len(each), peer_labels=1, each=each, living=living)


class BrokerCounters(ServerCounters):
    """All counters of a NameServer that no other server has."""

    def __init__(self, living: Living = everything) -> None:
        """Take what returns the clusters that have brokers: those that have none make room for others."""
        super().__init__()
        #: Cluster and kind.
        self.heartbeats = _by_cluster(tuple(kind.value for kind in HeartbeatKind), living)
        #: Cluster and broker name.
        self.heartbeats_late = CounterTable(label_sets_max=BROKERS_MAX, peer_labels=2, living=living)
        #: Seconds between two heartbeats, by cluster.
        self.heartbeat_interval = HistogramTable(DETECTION_S, label_sets_max=CLUSTERS_MAX, peer_labels=1, living=living)
        #: Cluster and result.
        self.registrations = _by_cluster(tuple(result.value for result in RegistrationResult), living)
        self.registration_changed_topics = Histogram(TOPICS_BOUNDS)
        self.registration_body_bytes = Histogram(BODY_BYTES_BOUNDS)
        #: Cluster and reason.
        self.unregistrations = _by_cluster(tuple(reason.value for reason in DepartureReason), living)
        #: Seconds from the last heartbeat to the removal, by reason.
        noticed = (DepartureReason.TIMEOUT, DepartureReason.CHANNEL_CLOSED)
        self.detection_delay = HistogramTable(DETECTION_S, known=[(reason.value,) for reason in noticed])
        #: Cluster and kind.
        self.route_changes = _by_cluster(ROUTE_CHANGE_KINDS, living)
        #: Notifications of a new smallest broker id, by result.
        self.notifications = CounterTable(known=[("sent",), ("failed",)])
        self.kv_changes = CounterTable(known=[("stored",), ("failed",)])
        #: Seconds.
        self.expiry_scan = Histogram(LATENCY_S)

    def count(self, event: Event) -> None:
        """Count one event of the state."""
        match event:
            case BrokerHeartbeat():
                self._count_heartbeat(event)
            case BrokerRegistered():
                self._count_registration(event)
            case RegistrationConflicted():
                self.registrations.add((event.cluster, RegistrationResult.CONFLICT.value))
            case StaleRegistration():
                self.registration_rejected(event.cluster)
            case BrokerRemoved():
                self._count_removal(event)
            case TopicsChangedByAdmin():
                self._count_changes(event.cluster, event.changes)

    def registration_rejected(self, cluster: str) -> None:
        """Count a registration that was refused or ignored, so it changed nothing."""
        labels = (cluster, RegistrationResult.REJECTED.value)
        # A refused request may name any cluster; it must not take the place of an existing one.
        self.registrations.add(labels if labels in self.registrations.counts() else (OTHER, *labels[1:]))

    def _count_heartbeat(self, event: BrokerHeartbeat) -> None:
        self.heartbeats.add((event.cluster, event.kind.value))
        late = 0
        if event.interval_ms is not None:
            self.heartbeat_interval.observe((event.cluster,), event.interval_ms / 1000)
            late = int(is_late(event.interval_ms, event.heartbeat_timeout_ms))
        if late or event.interval_ms is None:
            # The first heartbeat creates the series, at 0.
            self.heartbeats_late.add((event.cluster, event.broker_name), late)

    def _count_registration(self, event: BrokerRegistered) -> None:
        self.registrations.add((event.cluster, event.result.value))
        changes = event.changes
        self.registration_changed_topics.observe(
            # A topic whose queues and permission changed is one topic.
            changes.topics_added + changes.topics_removed + max(changes.queues, changes.perm)
        )
        self.registration_body_bytes.observe(event.body_bytes)
        self._count_changes(event.cluster, changes)
        if event.result is RegistrationResult.FIRST:
            self.route_changes.add((event.cluster, "broker_added"))
            self.unregistrations.add((event.cluster, DepartureReason.REQUEST.value), 0)
        if event.master_changed:
            self.route_changes.add((event.cluster, "master"))

    def _count_removal(self, event: BrokerRemoved) -> None:
        reason = event.reason.value
        self.unregistrations.add((event.cluster, reason))
        if event.reason in (DepartureReason.TIMEOUT, DepartureReason.CHANNEL_CLOSED):
            self.detection_delay.observe((reason,), event.silent_ms / 1000)
        self._count_changes(event.cluster, event.changes)
        self.route_changes.add((event.cluster, "broker_removed"))
        # The registration that superseded a master has counted the change of master.
        if event.was_master and event.reason is not DepartureReason.SUPERSEDED:
            self.route_changes.add((event.cluster, "master"))
        if event.set_removed:
            self.heartbeats_late.remove((event.cluster, event.broker_name))

    def _count_changes(self, cluster: str, changes: RouteChanges) -> None:
        if not changes:
            return
        counted = (changes.topics_added, changes.topics_removed, changes.queues, changes.perm)
        for kind, amount in zip(ROUTE_CHANGE_KINDS, counted, strict=False):
            if amount:
                self.route_changes.add((cluster, kind), amount)
