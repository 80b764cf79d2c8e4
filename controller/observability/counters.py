"""What happened to sets and brokers since the start, counted; read by `metrics.py` at a scrape."""

from typing import Final

from controller.decisions.election import ElectionResult
from controller.failover.election_log import PHASE_S
from controller.failure_detection.suspicion import PROOFS, ProbeOutcome, SuspicionReason
from controller.roles.verdict import RoleVerdict
from serving.metrics.counters import BROKERS_MAX, CLUSTERS_MAX, CounterTable, HistogramTable, Living, everything
from serving.metrics.server_counters import LATENCY_S, ServerCounters

PHASES: Final = ("detect", "judge", "fence", "commit", "notify", "total", "serve")
RESULTS: Final = tuple(result.value for result in ElectionResult)
#: How a failover ended that brought a new master; otherwise it is the result of its election.
FAILED_OVER: Final = "failed_over"
NOTIFIED: Final = ("ok", "refused", "failed", "superseded")
#: Answers to role checks that are no verdict on a broker: whether this controller leads, and to what is no check.
CHECKS_ELSE: Final = ("leads", "follows", "invalid")


class SetCounters(ServerCounters):
    """What a controller counts."""

    def __init__(self, living: Living = everything) -> None:
        """`living` returns the clusters that have sets: others take the places of those that have none."""
        super().__init__()
        #: Cluster, set and result.
        self.elections = CounterTable(
            label_sets_max=BROKERS_MAX * len(RESULTS), peer_labels=2, each=RESULTS, living=living
        )
        #: Seconds by result, from the request or the loss until it was stored.
        self.election_durations = HistogramTable(LATENCY_S, known=[(result,) for result in RESULTS])
        #: Cluster, what the election was held for, and result.
        self.failovers = CounterTable(label_sets_max=CLUSTERS_MAX * 16, peer_labels=1, living=living)
        #: Seconds by phase.
        self.failover_phases = HistogramTable(PHASE_S, known=[(phase,) for phase in PHASES])
        self.notifications = CounterTable(known=[(result,) for result in NOTIFIED])
        #: By verdict.
        self.role_checks = CounterTable(known=[(each,) for each in (*RoleVerdict, *CHECKS_ELSE)])
        self.probes = CounterTable(known=[(outcome.value,) for outcome in ProbeOutcome if outcome not in PROOFS])
        #: Cluster and why.
        self.brokers_failed = CounterTable(label_sets_max=CLUSTERS_MAX * 2, peer_labels=1, living=living)
        #: By cluster.
        self.logs_shrunk = CounterTable(label_sets_max=CLUSTERS_MAX, peer_labels=1, living=living)
        self.failure_detection_suspensions = 0
        #: How many hosts are silent while masters are left alone because of that.
        self.silent_hosts = 0
        #: Kind and result of each call to the store.
        self.store_calls = CounterTable()
        self.store_durations = HistogramTable(LATENCY_S)

    def know(self, cluster: str) -> None:
        """Begin to count what can happen in a cluster: a rate misses a counter that is born at 1."""
        for why in (SuspicionReason.CLOSED.value, SuspicionReason.SILENT.value):
            self.failovers.add((cluster, why, FAILED_OVER), 0)
            self.brokers_failed.add((cluster, why), 0)
        self.logs_shrunk.add((cluster,), 0)
