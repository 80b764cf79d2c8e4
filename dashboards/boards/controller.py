"""For operators: who leads, and what failed over."""

from typing import Final

from dashboards.boards import history_row, server_rows
from dashboards.boards.controller_rows import ENDPOINT_SLICES, PLANNED
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
from dashboards.panels import Board, Kind, Link, Panel, Query, Row, TableColumn, Word, bad_above, worse_above
from dashboards.promql import BY_CLUSTER, BY_INSTANCE, BY_PLANE, increase, most_increase, quantile, rate

_PREFIX: Final = "rocketmq_controller_"
_SLOW_S: Final = (0.5, 2.0)
_FAILOVER_S: Final = (5.0, 15.0)
_ROLES: Final = (
    Word(0, "unknown", "red"),
    Word(1, "candidate", "orange"),
    Word(2, "follower", "blue"),
    Word(3, "leader", "green"),
)

_GROUP: Final = Row(
    "Who leads",
    (
        Panel(
            kind=Kind.STATES,
            title="Role of each controller",
            description="One leads and answers for the broker sets; the others follow. candidate for longer than "
            "seconds: the store does not answer, or no controller wins.",
            words=_ROLES,
            queries=(now_of_each(f"{_PREFIX}role"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Changes of the leader",
            description="As each controller saw them. A restart makes one.",
            limits=worse_above(2, 5),
            queries=(grown_of_each(f"{_PREFIX}leader_changes_total"),),
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="Suspensions of failure detection",
            description="The process paused or the store was slow: no broker is declared failed for a round of "
            "heartbeats. The process lacks CPU time, swaps, or its machine was paused.",
            limits=bad_above(1),
            queries=(grown_of_each(f"{_PREFIX}failure_detection_suspensions_total"),),
            width=6,
        ),
    ),
)

_FAILING_OVER: Final = Row(
    "What failed over",
    (
        Panel(
            kind=Kind.LINES,
            title="Elections",
            description="By result. keep_current_master answers a broker that requests an election while its master "
            "is alive. no_master_elected: see the table below.",
            queries=(
                Query(
                    increase(f"{_PREFIX}election_total", BY_CLUSTER, by="cluster, broker, election_result"),
                    "{{cluster}} {{broker}} {{election_result}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Failovers",
            description="Elections after the loss of a master, by evidence and outcome.",
            queries=(
                Query(
                    increase(f"{_PREFIX}failovers_total", BY_CLUSTER, by="cluster, cause, outcome"),
                    "{{cluster}} {{cause}} {{outcome}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Phases of a failover, p95",
            description="detect: silence until it was suspected; judge: until it was sure; fence: until no proxy "
            "and no agent led clients to a silent master; commit: until the result "
            "was stored; notify: until the new master confirmed. The longest is the one to work on.",
            unit="s",
            stacked=True,
            queries=(
                Query(
                    quantile(
                        0.95,
                        f"{_PREFIX}failover_phase_duration_seconds",
                        f'{BY_PLANE}, phase!~"total|serve"',
                        by="phase",
                        window="1h",
                    ),
                    "{{phase}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Whole failover",
            description="p50 and p95 of the last hour, from the last sign of life to the new master's confirmation.",
            unit="s",
            limits=worse_above(*_FAILOVER_S),
            queries=tuple(
                Query(
                    quantile(
                        share, f"{_PREFIX}failover_phase_duration_seconds", f'{BY_PLANE}, phase="total"', window="1h"
                    ),
                    name,
                )
                for share, name in ((0.5, "p50"), (0.95, "p95"))
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration of elections, p99",
            description="From the request or the loss until the result was stored, by result.",
            unit="s",
            limits=worse_above(*_SLOW_S),
            queries=(
                Query(
                    quantile(0.99, f"{_PREFIX}election_duration_seconds", BY_INSTANCE, by="election_result"),
                    "{{election_result}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Brokers failed",
            description="By first evidence: a closed connection, or silence. Every controller judges for itself: "
            "this is the highest count of one controller.",
            queries=(
                Query(
                    most_increase(f"{_PREFIX}brokers_failed_total", BY_CLUSTER, by="cluster, reason"),
                    "{{cluster}} {{reason}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Probes of brokers",
            description="By outcome. A suspect is probed before it is declared failed. no_answer for many: the "
            "network between this controller and the brokers. not_asked: it lacks files or memory.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}probes_total", "outcome"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Suspect brokers",
            description="Brokers being probed at this moment. More than a few: a rack or the network failed.",
            limits=worse_above(3, 10),
            queries=(now_of_each(f"{_PREFIX}suspect_brokers"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Sets with disputed epochs",
            description="A broker claims a higher master epoch than the stored one without proof: see "
            "master_epoch_disputed in the log.",
            limits=worse_above(1, 1),
            queries=(now_of_each(f"{_PREFIX}disputed_epochs"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Role notifications",
            description="By result. failed: the broker learns its role by its own poll within 5 s.",
            queries=(grown_of_each(f"{_PREFIX}role_notifications_total", "result"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Last gap of each set, seen by the probe",
            description="How long the set acknowledged no message, from the last one before a failure to the first "
            "one after it. 0 without roleProbeTopic, and until there is a gap.",
            unit="s",
            limits=worse_above(2.0, 5.0),
            queries=(
                Query(
                    f"max by (cluster, broker) ({_PREFIX}role_probe_last_gap_seconds{{{BY_CLUSTER}}})"
                    " or on () vector(0)",
                    "{{cluster}} {{broker}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Gaps seen by the probe, p95",
            description="Of all sets, in the last hour.",
            unit="s",
            limits=worse_above(2.0, 5.0),
            queries=(
                Query(
                    f"{quantile(0.95, f'{_PREFIX}role_probe_gap_seconds', BY_PLANE, window='1h')} or on () vector(0)",
                    "p95",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Messages of the probe",
            description="By result. no_master: the route has none, so nothing was sent.",
            unit="ops",
            queries=(of_each(f"{_PREFIX}role_probe_sends_total", "result"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Sets of the probe",
            description="Sets that have its topic: probed, or left out because there are more than 200.",
            queries=(now_of_each(f"{_PREFIX}role_probe_sets", "state"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Sets that onRoleChange has not taken",
            description="Their last change of the master was not delivered to the program or URL. More than seconds: "
            "/v1/role-callbacks on the leader says why.",
            limits=bad_above(1),
            queries=(now_of_each(f"{_PREFIX}role_callbacks_undelivered"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Calls of onRoleChange",
            description="Each attempt, by result. failed and timeout are repeated after growing waits.",
            queries=(grown_of_each(f"{_PREFIX}role_callbacks_total", "result"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration of calls of onRoleChange, p99",
            description="onRoleChangeTimeoutMs ends them. No election waits for them.",
            unit="s",
            queries=(
                Query(
                    f"{quantile(0.99, f'{_PREFIX}role_callback_duration_seconds', BY_INSTANCE)} or on () vector(0)",
                    "p99",
                ),
            ),
        ),
    ),
)

_SETS: Final = Row(
    "Broker sets",
    (
        Panel(
            kind=Kind.LINES,
            title="Sets by state",
            description="healthy: a living master and every broker in sync. under_replicated: a broker failed or is "
            "out of sync. no_master: the set takes no messages.",
            queries=(
                Query(f"sum by (cluster, state) ({_PREFIX}broker_sets{{{BY_CLUSTER}}})", "{{cluster}} {{state}}"),
            ),
            stacked=True,
        ),
        Panel(
            kind=Kind.TABLE,
            title="Sets that lack a broker, or have one out of sync",
            description="Their brokers, how many of them live and how many are in sync. Empty when all is well.",
            queries=(
                Query(
                    f"max by (cluster, broker) ({_PREFIX}sync_state_set_size{{{BY_CLUSTER}}})"
                    f" < max by (cluster, broker) ({_PREFIX}replicas{{{BY_CLUSTER}}})"
                    f" or max by (cluster, broker) ({_PREFIX}sync_state_set_size{{{BY_CLUSTER}}})"
                    f" and max by (cluster, broker) ({_PREFIX}active_brokers{{{BY_CLUSTER}}})"
                    f" < max by (cluster, broker) ({_PREFIX}replicas{{{BY_CLUSTER}}})"
                ),
            ),
            columns=(
                TableColumn("cluster", "Cluster"),
                TableColumn("broker", "Broker set"),
                TableColumn("Value", "In sync", limits=((None, "red"), (1.0, "orange"))),
            ),
            links=(Link("Its brokers", "rmq-brokers", "broker"),),
            width=6,
        ),
        Panel(
            kind=Kind.TABLE,
            title="All sets",
            description="Brokers of each set, how many live, how many are in sync, and the epoch of its master.",
            queries=tuple(
                Query(f"max by (cluster, broker) ({_PREFIX}{name}{{{BY_CLUSTER}}})")
                for name in ("replicas", "active_brokers", "sync_state_set_size", "master_epoch")
            ),
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
    ),
)

_STORE: Final = Row(
    "The store",
    (
        Panel(
            kind=Kind.LINES,
            title="Calls",
            description="To etcd, or to the file, by operation. Heartbeats never reach the store.",
            unit="ops",
            queries=(Query(rate(f"{_PREFIX}store_txn_total", BY_INSTANCE, by="operation"), "{{operation}}"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Calls that did not succeed",
            description="moved: another write came first, and the change was decided anew; usual while a controller "
            "takes over. Anything else for longer than seconds: the store fails.",
            unit="ops",
            limits=bad_above(0.1),
            queries=(
                Query(
                    rate(f"{_PREFIX}store_txn_total", f'{BY_INSTANCE}, result!="ok"', by="instance, operation, result")
                    + " or on () vector(0)",
                    "{{instance}} {{operation}} {{result}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Duration p99",
            description="By operation. Beyond 1 s controllers suspend failure detection, beyond 1.9 s calls fail.",
            unit="s",
            limits=worse_above(0.25, 1.0),
            queries=(
                Query(
                    quantile(0.99, f"{_PREFIX}store_txn_duration_seconds", BY_INSTANCE, by="instance, operation"),
                    "{{instance}} {{operation}}",
                ),
            ),
        ),
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
        PLANNED,
        ENDPOINT_SLICES,
        _SETS,
        _STORE,
        server_rows.requests(_PREFIX, slow_s=_SLOW_S),
        server_rows.connections(_PREFIX),
        server_rows.process(_PREFIX),
        history_row.history(),
    ),
)
