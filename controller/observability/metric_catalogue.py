"""Every metric of a controller: its name, type, labels and meaning.

What any server has stands in `serving/metrics/families.py`. `docs/controller-metrics.md` is this catalogue as a page:
`python -m controller.observability.metric_catalogue > docs/controller-metrics.md` writes it, and a test
compares. How each is read stands in `metrics.py`.
"""

import sys
from typing import Final

from controller.config import CONTROLLER
from serving.metrics.families import Family, FamilyMaker, ServerFamilies, metric_page

_MAKE: Final = FamilyMaker(CONTROLLER.metric_prefix)

SERVER: Final = ServerFamilies(CONTROLLER)

# The group and its store

ROLE: Final = _MAKE.gauge("role", "0 unknown, 1 candidate, 2 follower, 3 leader, as with the Java controller.")
LEADER_CHANGES: Final = _MAKE.counter("leader_changes", "Changes of the leading controller, seen from this one.")
STORE_TXN: Final = _MAKE.counter(
    "store_txn", "Calls to the store, reads too, by what was asked and what came of it.", "operation", "result"
)
STORE_TXN_DURATION: Final = _MAKE.histogram("store_txn_duration_seconds", "Calls to the store.", "operation")
SELF_DOUBTS: Final = _MAKE.counter(
    "self_doubts", "Standstills of this process, and changes that the store held up: nobody was judged then."
)
SILENT_HOSTS: Final = _MAKE.gauge(
    "silent_hosts",
    "Hosts that fell silent together, most of all: while there are any no master is moved that may live.",
)

# Sets and brokers; only of the leader

ACTIVE_BROKERS: Final = _MAKE.gauge("active_brokers", "Living brokers of a set.", "cluster", "broker")
BROKER_SETS: Final = _MAKE.gauge("broker_sets", "Sets by how they are.", "cluster", "state")
REPLICAS: Final = _MAKE.gauge("replicas", "Brokers of a set, dead ones too.", "cluster", "broker")
SYNC_STATE_SET_SIZE: Final = _MAKE.gauge("sync_state_set_size", "Brokers of a set in sync.", "cluster", "broker")
MASTER_EPOCH: Final = _MAKE.gauge("master_epoch", "Master epoch of a set.", "cluster", "broker")
DISPUTED_EPOCHS: Final = _MAKE.gauge(
    "disputed_epochs", "Sets with brokers that claim a higher master epoch than the stored one and prove nothing by it."
)
BROKER_LAST_HEARTBEAT: Final = _MAKE.gauge(
    "broker_last_heartbeat_timestamp_seconds", "Last sign of life of a broker.", "cluster", "broker", "broker_id"
)
# Brokers as this controller judges them: each does so for itself, so numbers of several are not to be added

SUSPECT_BROKERS: Final = _MAKE.gauge("suspect_brokers", "Brokers that this controller is asking whether they live.")
PROBES: Final = _MAKE.counter("probes", "Questions of this controller to brokers, by what came of them.", "outcome")
DEATHS: Final = _MAKE.counter(
    "broker_deaths", "Brokers that this controller found dead, by how it began; each judges.", "cluster", "reason"
)

# Elections

ELECTIONS: Final = _MAKE.counter("election", "Elections by how they ended.", "cluster", "broker", "election_result")
ELECTION_DURATION: Final = _MAKE.histogram(
    "election_duration_seconds", "From the request or the loss until the result was stored.", "election_result"
)
FAILOVERS: Final = _MAKE.counter(
    "failovers", "Elections because a master was lost, by how that showed.", "cluster", "cause", "outcome"
)
FAILOVER_PHASES: Final = _MAKE.histogram(
    "failover_phase_duration_seconds",
    "Parts of a failover: detect, judge, commit, notify (until the new master confirmed), total.",
    "phase",
)
NOTIFICATIONS: Final = _MAKE.counter(
    "role_notifications", "Brokers told of a new master, by what came of it.", "result"
)

# Results of the Spark analyses

_ANALYTICS: Final = FamilyMaker("rocketmq_analytics_")
ANALYTICS_LAST_SUCCESS: Final = _ANALYTICS.gauge(
    "last_success_timestamp_seconds", "When an analysis has published its result last.", "job"
)
ANALYTICS_DURATION: Final = _ANALYTICS.gauge("run_duration_seconds", "How long that took.", "job")
ANALYTICS_INPUT_ROWS: Final = _ANALYTICS.gauge("input_rows", "Recorded rows that it was made of.", "job")
AVAILABILITY: Final = _ANALYTICS.gauge(
    "broker_availability_ratio", "Time up of the least available broker of a set (A1).", "cluster", "broker"
)
FLAPPING_SCORE: Final = _ANALYTICS.gauge(
    "flapping_score", "Highest flapping score of a broker of the set (A3).", "cluster", "broker"
)
RECOMMENDED_TIMEOUT: Final = _ANALYTICS.gauge(
    "recommended_timeout_seconds",
    "Longest recommended heartbeat timeout in the set (A5), where there is enough history.",
    "cluster",
    "broker",
)
MISSED_HEARTBEATS: Final = _ANALYTICS.gauge(
    "missed_heartbeat_ratio",
    "Missed beats of the worst broker of the set (A2), where there is enough history.",
    "cluster",
    "broker",
)
DIVERGENCE: Final = _ANALYTICS.gauge(
    "divergence_seconds", "Seconds in which NameServers told different things (A6), at least."
)
CAPACITY_DAYS_LEFT: Final = _ANALYTICS.gauge("capacity_days_left", "Days until a limit is reached (A12).", "resource")
QUEUE_RECOMMENDATIONS: Final = _ANALYTICS.gauge(
    "queue_recommendations",
    "Proposed: queues to move (A8), topics to grow, to shrink (A9); none of a result that was cut.",
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
    CAPACITY_DAYS_LEFT,
    QUEUE_RECOMMENDATIONS,
)
PER_SET_RESULTS: Final = (AVAILABILITY, FLAPPING_SCORE, RECOMMENDED_TIMEOUT, MISSED_HEARTBEATS)

#: All of the above, in the order of the page.
FAMILIES: Final = (
    *SERVER.life,
    *SERVER.traffic,
    *SERVER.history,
    *(each for each in list(globals().values()) if isinstance(each, Family)),
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
