"""Every metric of a controller: its name, type, labels and meaning.

Metrics of any server are in `serving/metrics/families.py`, those of each part in its `events.py`.
`docs/controller-metrics.md` is this catalogue as a page:
`python -m controller.observability.metric_catalogue > docs/controller-metrics.md` writes it, and a test compares.
"""

import sys
from typing import Final

from controller.config import CONTROLLER
from controller.observability.log_events import MODULES
from serving.metrics.families import FamilyMaker, MetricFamily, ServerFamilies, metric_page
from serving.telemetry.events import declared_in

SERVER: Final = ServerFamilies(CONTROLLER)

_failover, _switchovers, _resizes, _roles, _autoscaler, _callbacks, _probe, _slices = map(vars, MODULES)
#: In the order of the page.
_DECLARED: Final = declared_in(_failover, _roles, _switchovers, _resizes, _autoscaler, _callbacks, _slices, _probe)

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
ANALYTICS_RESULTS: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, MetricFamily))
PER_SET_RESULTS: Final = (AVAILABILITY, FLAPPING_SCORE, RECOMMENDED_TIMEOUT, MISSED_HEARTBEATS)

FAMILIES: Final = (
    *SERVER.life,
    *SERVER.traffic,
    *SERVER.http,
    *SERVER.history,
    *_DECLARED.families(SERVER.make),
    *ANALYTICS_RESULTS,
    SERVER.config_changes,
)

_LABELS: Final = """\
Times are in seconds, sizes in bytes. `broker` is the name of a broker set; no label holds an address. `cluster` has
at most 20 values and `broker` 1000, all others count as `__other__` and in
`rocketmq_controller_label_overflow_total`. On Linux the `process_*` metrics are there too."""


def as_markdown() -> str:
    return metric_page(CONTROLLER, FAMILIES, "controller/observability/metric_catalogue.py", _LABELS)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
