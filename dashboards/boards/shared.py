"""Variables, annotations and queries that several boards have."""

from typing import Final

from dashboards.panels import Annotation, Query, Variable
from dashboards.promql import BY_CLUSTER, BY_INSTANCE, BY_PLANE, NAMESRV_JOBS, SERVER_JOBS, increase, quantile, rate

#: By `up`: a plane that is wholly down can be chosen too.
PLANE: Final = Variable("plane", "Plane", "up", "plane", within=SERVER_JOBS, single=True)
CLUSTER: Final = Variable("cluster", "Cluster", "rocketmq_namesrv_broker_sets", "cluster", within=BY_PLANE)
BROKER: Final = Variable("broker", "Broker set", "rocketmq_namesrv_broker_info", "broker", within=BY_CLUSTER)
NAMESRV: Final = Variable("instance", "NameServer", "rocketmq_namesrv_build_info", "instance", within=BY_PLANE)
MANAGER: Final = Variable(
    "instance", "Offset manager", "rocketmq_offset_manager_build_info", "instance", within=BY_PLANE
)
CONTROLLER: Final = Variable("instance", "Controller", "rocketmq_controller_build_info", "instance", within=BY_PLANE)

# The epoch moves with every new master and is there since the controller leads; so no election is missed because a
# counter was born with it.
FAILOVERS: Final = Annotation(
    "New master",
    f"sum by (cluster, broker) (changes(rocketmq_controller_master_epoch{{{BY_PLANE}}}[$__interval])) > 0",
    "{{cluster}} {{broker}}",
    "red",
)
LEADER_CHANGES: Final = Annotation(
    "Another controller leads",
    f"max(increase(rocketmq_controller_leader_changes_total{{{BY_PLANE}}}[$__interval])) > 0",
    "seen by a controller",
    "purple",
)
# By its age and not by a change: a pod that is replaced has another address, and so another series.
NAMESRV_STARTS: Final = Annotation(
    "NameServer started",
    f"time() - process_start_time_seconds{{{BY_PLANE}, {NAMESRV_JOBS}}} < $__interval_ms / 1000",
    "{{instance}}",
    "orange",
)


def of_each(metric: str, *labels: str) -> Query:
    """Return a rate of each instance, by some labels."""
    return Query(rate(metric, BY_INSTANCE, by=", ".join(("instance", *labels))), _legend(labels))


def grown_of_each(metric: str, *labels: str) -> Query:
    """Return by how much a counter of each instance grew, by some labels: for what happens rarely."""
    return Query(increase(metric, BY_INSTANCE, by=", ".join(("instance", *labels))), _legend(labels))


def now_of_each(metric: str, *labels: str) -> Query:
    """Return the present value of each instance."""
    return Query(f"{metric}{{{BY_INSTANCE}}}", _legend(labels))


def quantile_of_each(share: float, histogram: str, name: str = "") -> Query:
    """Return a quantile of each instance; `name` distinguishes it from others in the same panel."""
    return Query(quantile(share, histogram, BY_INSTANCE, by="instance"), f"{{{{instance}}}} {name}".strip())


def _legend(labels: tuple[str, ...]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in ("instance", *labels))
