"""Every metric of a controller: its name, type, labels and meaning.

Metrics of any server are in `serving/metrics/families.py`. `docs/controller-metrics.md` is this catalogue as a page:
`python -m controller.observability.metric_catalogue > docs/controller-metrics.md` writes it, and a test
compares. `metrics.py` reads each.
"""

import sys
from collections.abc import Iterable
from typing import Final

from controller.callbacks import events as callback_events
from controller.config import CONTROLLER
from controller.endpoint_slices import events as slice_events
from controller.role_probe import events as probe_events
from controller.scaling.execution import events as resize_events
from controller.scaling.watching import events as autoscaler_events
from controller.switchover import events as switchover_events
from serving.metrics.families import FamilyMaker, MetricFamily, ServerFamilies, metric_page
from serving.telemetry.events import Declared, declared_in

MAKE: Final = FamilyMaker(CONTROLLER.metric_prefix)

SERVER: Final = ServerFamilies(CONTROLLER)

# The group and its store

ROLE: Final = MAKE.gauge("role", "0 unknown, 1 candidate, 2 follower, 3 leader, as with the Java controller.")
LEADER_CHANGES: Final = MAKE.counter("leader_changes", "Changes of the leading controller, seen from this one.")
STORE_TXN: Final = MAKE.counter(
    "store_txn", "Calls to the store, reads included, by operation and result.", "operation", "result"
)
STORE_TXN_DURATION: Final = MAKE.histogram("store_txn_duration_seconds", "Duration of calls to the store.", "operation")
FAILURE_DETECTION_SUSPENSIONS: Final = MAKE.counter(
    "failure_detection_suspensions",
    "Process pauses and delays of the store, after which no broker was declared failed for a round of heartbeats.",
)
SILENT_HOSTS: Final = MAKE.gauge(
    "silent_hosts",
    "Hosts that fell silent together, if they are most; above 0 no master is replaced that may be alive.",
)

# Sets and brokers; only of the leader

ACTIVE_BROKERS: Final = MAKE.gauge("active_brokers", "Living brokers of a set.", "cluster", "broker")
BROKER_SETS: Final = MAKE.gauge("broker_sets", "Broker sets by state.", "cluster", "state")
REPLICAS: Final = MAKE.gauge("replicas", "Brokers of a set, failed ones included.", "cluster", "broker")
SYNC_STATE_SET_SIZE: Final = MAKE.gauge(
    "sync_state_set_size", "Brokers in the SyncStateSet of a set.", "cluster", "broker"
)
MASTER_EPOCH: Final = MAKE.gauge("master_epoch", "Master epoch of a set.", "cluster", "broker")
DISPUTED_EPOCHS: Final = MAKE.gauge(
    "disputed_epochs", "Sets with brokers that claim a higher master epoch than the stored one without proof."
)
BROKER_LAST_HEARTBEAT: Final = MAKE.gauge(
    "broker_last_heartbeat_timestamp_seconds",
    "Time of the last heartbeat or request of a broker.",
    "cluster",
    "broker",
    "broker_id",
)
# Brokers as this controller judges them. Each controller judges for itself: do not add the numbers of several

SUSPECT_BROKERS: Final = MAKE.gauge("suspect_brokers", "Suspect brokers, which this controller is probing.")
PROBES: Final = MAKE.counter(
    "probes",
    "Probes of brokers' ports by this controller, by outcome; a closed port, or another broker's, is `no_answer` too.",
    "outcome",
)
BROKERS_FAILED: Final = MAKE.counter(
    "brokers_failed",
    "Brokers that this controller declared failed, by first evidence; each controller judges for itself.",
    "cluster",
    "reason",
)

# Elections

ELECTIONS: Final = MAKE.counter("election", "Elections by result.", "cluster", "broker", "election_result")
LOGS_SHRUNK: Final = MAKE.counter(
    "log_shrank", "Brokers in sync with less of their log in an election than they were known to have.", "cluster"
)
ELECTION_DURATION: Final = MAKE.histogram(
    "election_duration_seconds",
    "From the request, or the loss of the master, until the result was stored.",
    "election_result",
)
FAILOVERS: Final = MAKE.counter(
    "failovers", "Elections after the loss of a master, by evidence and outcome.", "cluster", "cause", "outcome"
)
FAILOVER_PHASES: Final = MAKE.histogram(
    "failover_phase_duration_seconds",
    "Phases of a failover: detect, judge, fence (until no host that checks roles led clients to a silent master), "
    "commit, notify (until the new master confirmed), total; serve: from the stored result until the new master was "
    "seen to take messages.",
    "phase",
)
NOTIFICATIONS: Final = MAKE.counter(
    "role_notifications", "Notifications of a broker about its role, by result.", "result"
)

ROLE_CHECKS: Final = MAKE.counter(
    "role_checks",
    "Answers at roleCheckPort, by verdict: serves, failed, superseded, held, unknown of a broker; leads or follows of "
    "this controller; invalid of what was no check.",
    "verdict",
)

MASTERS_WAITS: Final = MAKE.gauge("masters_waits", "Requests at /v1/masters that wait for a change.")

_BESIDE: Final = declared_in(
    *map(vars, (switchover_events, resize_events, autoscaler_events, callback_events, slice_events, probe_events))
)

# Results of the Spark analyses

_ANALYTICS: Final = FamilyMaker("rocketmq_analytics_")
ANALYTICS_LAST_SUCCESS: Final = _ANALYTICS.gauge(
    "last_success_timestamp_seconds", "Time at which an analysis last published its result.", "job"
)
ANALYTICS_DURATION: Final = _ANALYTICS.gauge("run_duration_seconds", "Duration of that run.", "job")
ANALYTICS_INPUT_ROWS: Final = _ANALYTICS.gauge("input_rows", "Recorded rows that run read.", "job")
AVAILABILITY: Final = _ANALYTICS.gauge(
    "broker_availability_ratio", "Share of time up of the least available broker of a set (A1).", "cluster", "broker"
)
FLAPPING_SCORE: Final = _ANALYTICS.gauge(
    "flapping_score", "Highest flapping score among the brokers of a set (A3).", "cluster", "broker"
)
RECOMMENDED_TIMEOUT: Final = _ANALYTICS.gauge(
    "recommended_timeout_seconds",
    "Longest recommended heartbeat timeout in a set (A5), where there is enough history.",
    "cluster",
    "broker",
)
MISSED_HEARTBEATS: Final = _ANALYTICS.gauge(
    "missed_heartbeat_ratio",
    "Missed heartbeats of the worst broker of a set (A2), where there is enough history.",
    "cluster",
    "broker",
)
DIVERGENCE: Final = _ANALYTICS.gauge("divergence_seconds", "Seconds, at least, in which NameServers disagreed (A6).")
FAILOVER_PHASE: Final = _ANALYTICS.gauge(
    "failover_phase_seconds",
    "Seconds that 95 % of the failovers in the window did not exceed in each phase (A10).",
    "cluster",
    "phase",
)
CAPACITY_DAYS_LEFT: Final = _ANALYTICS.gauge("capacity_days_left", "Days until a limit is reached (A12).", "resource")
QUEUE_RECOMMENDATIONS: Final = _ANALYTICS.gauge(
    "queue_recommendations",
    "Proposals: queues to move (A8), topics to grow or shrink (A9); none from a truncated result.",
    "kind",
)
ANALYTICS_RESULTS: Final = (
    ANALYTICS_LAST_SUCCESS,
    ANALYTICS_DURATION,
    ANALYTICS_INPUT_ROWS,
    AVAILABILITY,
    FLAPPING_SCORE,
    RECOMMENDED_TIMEOUT,
    MISSED_HEARTBEATS,
    DIVERGENCE,
    FAILOVER_PHASE,
    CAPACITY_DAYS_LEFT,
    QUEUE_RECOMMENDATIONS,
)
PER_SET_RESULTS: Final = (AVAILABILITY, FLAPPING_SCORE, RECOMMENDED_TIMEOUT, MISSED_HEARTBEATS)


def _families_of(value: object) -> Iterable[MetricFamily]:
    if isinstance(value, Declared):
        return value.families(MAKE)
    return (value,) if isinstance(value, MetricFamily) else ()


#: All of the above, in the order of the page.
FAMILIES: Final = (
    *SERVER.life,
    *SERVER.traffic,
    *SERVER.history,
    *(family for value in list(globals().values()) for family in _families_of(value)),
    SERVER.config_changes,
)

_LABELS: Final = """\
Times are in seconds, sizes in bytes. `broker` is the name of a broker set; no label holds an address. `cluster` has
at most 20 values and `broker` 1000, all others count as `__other__` and in
`rocketmq_controller_label_overflow_total`. On Linux the `process_*` metrics are there too."""


def as_markdown() -> str:
    """Return the catalogue as the page `docs/controller-metrics.md`."""
    return metric_page(CONTROLLER, FAMILIES, "controller/observability/metric_catalogue.py", _LABELS)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
