"""Variables and annotations that several boards have."""

from typing import Final

from dashboards.panels import Annotation, Variable

CLUSTER: Final = Variable("cluster", "Cluster", "rocketmq_namesrv_broker_sets", "cluster")
BROKER: Final = Variable("broker", "Broker set", "rocketmq_namesrv_broker_info", "broker", within='cluster=~"$cluster"')
NAMESRV: Final = Variable("instance", "NameServer", "rocketmq_namesrv_build_info", "instance")
CONTROLLER: Final = Variable("instance", "Controller", "rocketmq_controller_build_info", "instance")

# The epoch moves with every new master and is there since the controller leads; so no election is missed because a
# counter was born with it.
FAILOVERS: Final = Annotation(
    "New master",
    "sum by (cluster, broker) (changes(rocketmq_controller_master_epoch[$__interval])) > 0",
    "{{cluster}} {{broker}}",
    "red",
)
LEADER_CHANGES: Final = Annotation(
    "Another controller leads",
    "max(increase(rocketmq_controller_leader_changes_total[$__interval])) > 0",
    "seen by a controller",
    "purple",
)
# By its age and not by a change: a pod that is replaced has another address, and so another series.
NAMESRV_STARTS: Final = Annotation(
    "NameServer started",
    'time() - process_start_time_seconds{job=~".*namesrv.*"} < $__interval_ms / 1000',
    "{{instance}}",
    "orange",
)
