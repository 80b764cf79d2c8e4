"""Variables, annotations and queries that several boards have."""

from typing import Final

from dashboards.grafana import annotation, variable
from dashboards.promql import (
    BY_CLUSTER,
    BY_INSTANCE,
    BY_PLANE,
    NAMESRV_JOBS,
    SERVER_JOBS,
    Query,
    increase,
    legend_of,
    quantile,
    rate,
    unit_of,
)

#: By `up`: a plane that is wholly down can be chosen too.
PLANE: Final = variable("plane", "Plane", "up", "plane", within=SERVER_JOBS, single=True)
CLUSTER: Final = variable("cluster", "Cluster", "rocketmq_namesrv_broker_sets", "cluster", within=BY_PLANE)
BROKER: Final = variable("broker", "Broker set", "rocketmq_namesrv_broker_info", "broker", within=BY_CLUSTER)
NAMESRV: Final = variable("instance", "NameServer", "rocketmq_namesrv_build_info", "instance", within=BY_PLANE)
MANAGER: Final = variable(
    "instance", "Offset manager", "rocketmq_offset_manager_build_info", "instance", within=BY_PLANE
)
CONTROLLER: Final = variable("instance", "Controller", "rocketmq_controller_build_info", "instance", within=BY_PLANE)

# The epoch moves with every new master and is there since the controller leads; so no election is missed because a
# counter was born with it.
FAILOVERS: Final = annotation(
    "New master",
    f"sum by (cluster, broker) (changes(rocketmq_controller_master_epoch{{{BY_PLANE}}}[$__interval])) > 0",
    "{{cluster}} {{broker}}",
    "red",
)
LEADER_CHANGES: Final = annotation(
    "Another controller leads",
    f"max(increase(rocketmq_controller_leader_changes_total{{{BY_PLANE}}}[$__interval])) > 0",
    "seen by a controller",
    "purple",
)
# By its age and not by a change: a pod that is replaced has another address, and so another series.
NAMESRV_STARTS: Final = annotation(
    "NameServer started",
    f"time() - process_start_time_seconds{{{BY_PLANE}, {NAMESRV_JOBS}}} < $__interval_ms / 1000",
    "{{instance}}",
    "orange",
)


def of_each(metric: str, *labels: str) -> Query:
    """Return a rate of each instance, by some labels."""
    return rate(metric, BY_INSTANCE, by=", ".join(("instance", *labels)))


def grown_of_each(metric: str, *labels: str) -> Query:
    """Return by how much a counter of each instance grew, by some labels: for what happens rarely."""
    return increase(metric, BY_INSTANCE, by=", ".join(("instance", *labels)))


def now_of_each(metric: str, *labels: str) -> Query:
    """Return the present value of each instance."""
    series = f"{metric}{{{BY_INSTANCE}}}"
    return Query(series, legend_of("instance", *labels), unit_of(series))


def quantile_of_each(share: float, histogram: str) -> Query:
    """Return a quantile of each instance."""
    return quantile(share, histogram, BY_INSTANCE, by="instance")
