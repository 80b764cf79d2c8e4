"""For operators: who leads, and what failed over."""

from typing import Final

from dashboards.boards import server_rows
from dashboards.boards.shared import (
    CLUSTER,
    CONTROLLER,
    FAILOVERS,
    LEADER_CHANGES,
    PLANE,
    grown_of_each,
    now_of_each,
    of_each,
)
from dashboards.grafana import Board, Link, TableColumn, Word, bad_above, lines, row, states, table, worse_above
from dashboards.promql import (
    BY_CLUSTER,
    BY_INSTANCE,
    BY_PLANE,
    Query,
    increase,
    most,
    most_increase,
    quantile,
    quantiles,
    rate,
    total,
)

_PREFIX: Final = "rocketmq_controller_"
_SLOW_S: Final = (0.5, 2.0)
_FAILOVER_S: Final = (5.0, 15.0)
_ROLES: Final = (
    Word(0, "unknown", "red"),
    Word(1, "candidate", "orange"),
    Word(2, "follower", "blue"),
    Word(3, "leader", "green"),
)

_GROUP: Final = row(
    "Who leads",
    states(
        "Role of each controller",
        "One leads and answers for the broker sets; the others follow. candidate for longer than seconds: the store "
        "does not answer, or no controller wins.",
        now_of_each(f"{_PREFIX}role"),
        words=_ROLES,
        width=12,
    ),
    lines(
        "Changes of the leader",
        "As each controller saw them. A restart makes one.",
        grown_of_each(f"{_PREFIX}leader_changes_total"),
        limits=worse_above(2, 5),
        width=6,
    ),
    lines(
        "Suspensions of failure detection",
        "The process paused or the store was slow: no broker is declared failed for a round of heartbeats. The "
        "process lacks CPU time, swaps, or its machine was paused.",
        grown_of_each(f"{_PREFIX}failure_detection_suspensions_total"),
        limits=bad_above(1),
        width=6,
    ),
)

_FAILING_OVER: Final = row(
    "What failed over",
    lines(
        "Elections",
        "By result. keep_current_master answers a broker that requests an election while its master is alive. "
        "no_master_elected: see the table below.",
        increase(f"{_PREFIX}election_total", BY_CLUSTER, by="cluster, broker, election_result"),
    ),
    lines(
        "Failovers",
        "Elections after the loss of a master, by evidence and outcome.",
        increase(f"{_PREFIX}failovers_total", BY_CLUSTER, by="cluster, cause, outcome"),
    ),
    lines(
        "Phases of a failover, p95",
        "detect: silence until it was suspected; judge: until it was sure; fence: until no proxy and no agent led "
        "clients to a silent master; commit: until the result was stored; notify: until the new master confirmed. The "
        "longest is the one to work on.",
        quantile(
            0.95,
            f"{_PREFIX}failover_phase_duration_seconds",
            f'{BY_PLANE}, phase!~"total|serve"',
            by="phase",
            window="1h",
        ),
        stacked=True,
    ),
    lines(
        "Whole failover",
        "p50 and p95 of the last hour, from the last sign of life to the new master's confirmation.",
        *quantiles(f"{_PREFIX}failover_phase_duration_seconds", f'{BY_PLANE}, phase="total"', 0.5, 0.95, window="1h"),
        limits=worse_above(*_FAILOVER_S),
    ),
    lines(
        "Duration of elections, p99",
        "From the request or the loss until the result was stored, by result.",
        quantile(0.99, f"{_PREFIX}election_duration_seconds", BY_INSTANCE, by="election_result"),
        limits=worse_above(*_SLOW_S),
    ),
    lines(
        "Brokers failed",
        "By first evidence: a closed connection, or silence. Every controller judges for itself: this is the highest "
        "count of one controller.",
        most_increase(f"{_PREFIX}brokers_failed_total", BY_CLUSTER, by="cluster, reason"),
    ),
    lines(
        "Probes of brokers",
        "By outcome. A suspect is probed before it is declared failed. no_answer for many: the network between this "
        "controller and the brokers. not_asked: it lacks files or memory.",
        of_each(f"{_PREFIX}probes_total", "outcome"),
    ),
    lines(
        "Suspect brokers",
        "Brokers being probed at this moment. More than a few: a rack or the network failed.",
        now_of_each(f"{_PREFIX}suspect_brokers"),
        limits=worse_above(3, 10),
    ),
    lines(
        "Sets with disputed epochs",
        "A broker claims a higher master epoch than the stored one without proof: see master_epoch_disputed in the "
        "log.",
        now_of_each(f"{_PREFIX}disputed_epochs"),
        limits=worse_above(1, 1),
    ),
    lines(
        "Role notifications",
        "By result. failed: the broker learns its role by its own poll within 5 s.",
        grown_of_each(f"{_PREFIX}role_notifications_total", "result"),
    ),
    lines(
        "Last gap of each set, seen by the probe",
        "How long the set acknowledged no message, from the last one before a failure to the first one after it. 0 "
        "without roleProbeTopic, and until there is a gap.",
        most(f"{_PREFIX}role_probe_last_gap_seconds", BY_CLUSTER, by="cluster, broker").or_zero(),
        limits=worse_above(2.0, 5.0),
    ),
    lines(
        "Gaps seen by the probe, p95",
        "Of all sets, in the last hour.",
        quantile(0.95, f"{_PREFIX}role_probe_gap_seconds", window="1h").or_zero().named("p95"),
        limits=worse_above(2.0, 5.0),
    ),
    lines(
        "Messages of the probe",
        "By result. no_master: the route has none, so nothing was sent.",
        of_each(f"{_PREFIX}role_probe_sends_total", "result"),
    ),
    lines(
        "Sets of the probe",
        "Sets that have its topic: probed, or left out because there are more than 200.",
        now_of_each(f"{_PREFIX}role_probe_sets", "state"),
    ),
    lines(
        "Sets that onRoleChange has not taken",
        "Their last change of the master was not delivered to the program or URL. More than seconds: "
        "/v1/role-callbacks on the leader says why.",
        now_of_each(f"{_PREFIX}role_callbacks_undelivered"),
        limits=bad_above(1),
    ),
    lines(
        "Calls of onRoleChange",
        "Each attempt, by result. failed and timeout are repeated after growing waits.",
        grown_of_each(f"{_PREFIX}role_callbacks_total", "result"),
    ),
    lines(
        "Duration of calls of onRoleChange, p99",
        "onRoleChangeTimeoutMs ends them. No election waits for them.",
        quantile(0.99, f"{_PREFIX}role_callback_duration_seconds", BY_INSTANCE).or_zero().named("p99"),
    ),
)


def _of_set(metric: str) -> Query:
    return most(f"{_PREFIX}{metric}", BY_CLUSTER, by="cluster, broker")


_SETS: Final = row(
    "Broker sets",
    lines(
        "Sets by state",
        "healthy: a living master and every broker in sync. under_replicated: a broker failed or is out of sync. "
        "no_master: the set takes no messages.",
        total(f"{_PREFIX}broker_sets", BY_CLUSTER, by="cluster, state"),
        stacked=True,
    ),
    table(
        "Sets that lack a broker, or have one out of sync",
        "Their brokers, how many of them live and how many are in sync. Empty when all is well.",
        _of_set("sync_state_set_size").then(
            f"< {_of_set('replicas')} or {_of_set('sync_state_set_size')}"
            f" and {_of_set('active_brokers')} < {_of_set('replicas')}"
        ),
        columns=(
            TableColumn("cluster", "Cluster"),
            TableColumn("broker", "Broker set"),
            TableColumn("Value", "In sync", limits=((None, "red"), (1.0, "orange"))),
        ),
        links=(Link("Its brokers", "rmq-brokers", "broker"),),
        width=6,
    ),
    table(
        "All sets",
        "Brokers of each set, how many live, how many are in sync, and the epoch of its master.",
        *map(_of_set, ("replicas", "active_brokers", "sync_state_set_size", "master_epoch")),
        columns=(
            TableColumn("cluster", "Cluster"),
            TableColumn("broker", "Broker set"),
            TableColumn("Value #A", "Brokers"),
            TableColumn("Value #B", "Living", limits=((None, "red"), (1.0, "green"))),
            TableColumn("Value #C", "In sync", limits=((None, "red"), (1.0, "green"))),
            TableColumn("Value #D", "Master epoch"),
        ),
        links=(Link("Its brokers", "rmq-brokers", "broker"),),
        width=10,
    ),
)

_STORE: Final = row(
    "The store",
    lines(
        "Calls",
        "To etcd, or to the file, by operation. Heartbeats never reach the store.",
        rate(f"{_PREFIX}store_txn_total", BY_INSTANCE, by="operation"),
    ),
    lines(
        "Calls that did not succeed",
        "moved: another write came first, and the change was decided anew; usual while a controller takes over. "
        "Anything else for longer than seconds: the store fails.",
        rate(f"{_PREFIX}store_txn_total", f'{BY_INSTANCE}, result!="ok"', by="instance, operation, result").or_zero(),
        limits=bad_above(0.1),
    ),
    lines(
        "Duration p99",
        "By operation. Beyond 1 s controllers suspend failure detection, beyond 1.9 s calls fail.",
        quantile(0.99, f"{_PREFIX}store_txn_duration_seconds", BY_INSTANCE, by="instance, operation"),
        limits=worse_above(0.25, 1.0),
    ),
)

_PLANNED: Final = row(
    "Planned changes of the master",
    lines(
        "Switchovers",
        "That have ended, by outcome. refused: not begun. rolled_back: the new master did not serve. The reason is in "
        "the log, and at /v1/switchovers.",
        grown_of_each(f"{_PREFIX}switchovers_total", "outcome"),
    ),
    lines(
        "Longest hold of clients",
        "The longest time for which a switchover held the clients of a set, since the start. Sends time out after 3 s "
        "by default.",
        now_of_each(f"{_PREFIX}switchover_longest_hold_seconds"),
        limits=worse_above(1, 2.5),
    ),
    lines(
        "Rolling restarts under way",
        "Each waits for an operator, or for brokers that are to be in sync: /v1/broker-sets/NAME/rolling-restart.",
        now_of_each(f"{_PREFIX}rolling_restarts"),
    ),
    lines(
        "Rolling restarts ended",
        "By outcome. failed: the switchover to another master did not succeed.",
        grown_of_each(f"{_PREFIX}rolling_restarts_ended_total", "outcome"),
    ),
)

_ENDPOINT_SLICES: Final = row(
    "EndpointSlices",
    lines(
        "Sets with stale EndpointSlices",
        "The addresses of their brokers are not published: HAProxy finds none that moved. 0 without "
        "kubernetesSetsFile. Failovers go on.",
        now_of_each(f"{_PREFIX}endpoint_slices_stale"),
        limits=bad_above(1),
    ),
    lines(
        "Brokers that are not published",
        "They are in no EndpointSlice: a set whose master is one of them is out of reach. The log of the leading "
        "controller has the reasons (brokers_not_published).",
        now_of_each(f"{_PREFIX}brokers_not_published"),
        limits=bad_above(1),
    ),
    lines(
        "Comparisons of EndpointSlices",
        "Of each set once a minute, and at each change of its brokers, by result.",
        grown_of_each(f"{_PREFIX}endpoint_slice_syncs_total", "result"),
    ),
)


BOARD: Final = Board(
    uid="rmq-controller",
    title="RocketMQ / Controllers",
    question="Who leads, and what failed over?",
    when_red="A set without master: `curl CONTROLLER:9881/v1/elections` names every candidate and why it was not "
    "elected. No leader: check the store first. Pages: `BrokerSetWithoutMaster`, `ControllerNoLeader`, "
    "`FailoverSlow`, `EtcdUnavailable`.",
    variables=(PLANE, CLUSTER, CONTROLLER),
    annotations=(FAILOVERS, LEADER_CHANGES),
    rows=(
        _GROUP,
        _FAILING_OVER,
        _PLANNED,
        _ENDPOINT_SLICES,
        _SETS,
        _STORE,
        server_rows.requests(_PREFIX, slow_s=_SLOW_S),
        server_rows.connections(_PREFIX),
        server_rows.process(_PREFIX),
        server_rows.history(),
    ),
)
