"""For operators: which broker is ill."""

from typing import Final

from dashboards.boards.shared import BROKER, CLUSTER, FAILOVERS, NAMESRV, NAMESRV_STARTS, PLANE
from dashboards.grafana import Board, Link, TableColumn, good_from, lines, row, stat, states, table, worse_above
from dashboards.promql import (
    BY_BROKER,
    BY_CLUSTER,
    BY_INSTANCE,
    BY_PLANE,
    Query,
    age_at_scrape,
    increase,
    most,
    over,
    quantile,
    quantiles,
    rate,
)

_BY_SERVER: Final = f'{BY_BROKER}, instance=~"$instance"'
_SEEN: Final = f'{BY_CLUSTER}, instance=~"$instance"'
_AGE_SHARE: Final = (0.5, 0.8)
_TOP: Final = 10
#: How many ready NameServers have each broker in their routes.
_KNOWING: Final = over(
    "count",
    f"rocketmq_namesrv_broker_info{{{BY_BROKER}}} and on (job, instance) rocketmq_namesrv_ready{{{BY_PLANE}}} == 1",
    "cluster, broker, broker_id",
)

_READY: Final = f"count(rocketmq_namesrv_ready{{{BY_PLANE}}} == 1)"

_STATES: Final = row(
    "Who lives",
    states(
        "Living brokers of each set, by the controller",
        "Share of the set's brokers that live. Red: none does.",
        most("rocketmq_controller_active_brokers", BY_BROKER, by="cluster, broker").then(
            f"/ {most('rocketmq_controller_replicas', BY_BROKER, by='cluster, broker')}"
        ),
        unit="percentunit",
        limits=((None, "red"), (0.01, "orange"), (1.0, "green")),
        width=12,
    ),
    states(
        "NameServers that know each broker",
        "Share of the ready NameServers that have it in their routes. Below 1 clients find it or not, depending on "
        "whom they ask. A broker that all have lost shows a gap.",
        _KNOWING.then(f"/ on () group_left () {_READY}"),
        unit="percentunit",
        limits=((None, "orange"), (1.0, "green")),
        width=12,
    ),
    lines(
        "Silence, as a share of what is allowed",
        "Time since the last sign of life, by the timeout in force, at the NameServer where it is the longest. At 1 "
        "the broker leaves the routes. A saw that never reaches 0.5 is well.",
        over(
            "max",
            f"({age_at_scrape('rocketmq_namesrv_broker_last_heartbeat_timestamp_seconds', _BY_SERVER)})"
            f" / rocketmq_namesrv_broker_heartbeat_timeout_seconds{{{_BY_SERVER}}}",
            "cluster, broker, broker_id",
        ),
        unit="percentunit",
        limits=worse_above(*_AGE_SHARE),
        width=12,
    ),
    lines(
        "Silence at the controller",
        "Time since the last heartbeat; brokers send one each second. After 3 s a broker is asked.",
        over(
            "max",
            age_at_scrape("rocketmq_controller_broker_last_heartbeat_timestamp_seconds", BY_BROKER),
            "cluster, broker, broker_id",
        ),
        limits=worse_above(2, 3),
        width=12,
    ),
)

_HEARTBEATS: Final = row(
    "Heartbeats",
    lines(
        "Most late beats",
        "Signs of life more than one and a half periods after the last, of the worst sets. One set: its host or its "
        "garbage collection. All of them: the network, or this NameServer.",
        increase("rocketmq_namesrv_heartbeats_late_total", _BY_SERVER, by="cluster, broker").top(_TOP),
        limits=worse_above(1, 5),
        links=(Link("Only this set", "rmq-brokers", "broker"),),
    ),
    lines(
        "Signs of life",
        "By kind. Brokers register each 30 s; those with enableSlaveActingMaster also ask for the data version each "
        "second.",
        rate("rocketmq_namesrv_heartbeats_total", _SEEN, by="cluster, kind"),
    ),
    lines(
        "Time between two beats",
        "p50 and p99 of each cluster.",
        *quantiles("rocketmq_namesrv_heartbeat_interval_seconds", _SEEN, 0.5, 0.99, by="cluster"),
    ),
)

_COMING: Final = row(
    "Coming and going",
    lines(
        "Registrations",
        "By effect. conflict: two processes use one brokerName and brokerId. first again and again: a broker flaps.",
        increase("rocketmq_namesrv_registrations_total", _SEEN, by="cluster, result"),
    ),
    lines(
        "Removals",
        "Brokers that left, and why, on each NameServer.",
        increase("rocketmq_namesrv_unregistrations_total", _SEEN, by="instance, cluster, reason"),
    ),
    lines(
        "How long a loss went unnoticed",
        "From the last sign of life until the broker left the routes, p95 of the last hour. A closed connection shows "
        "at once, silence after the timeout.",
        quantile(0.95, "rocketmq_namesrv_detection_delay_seconds", BY_INSTANCE, by="reason", window="1h"),
        limits=worse_above(130, 180),
    ),
    stat(
        "Brokers that NameServers disagree on",
        "Brokers that some ready NameServers have and others lack. For seconds after a start or a loss that is usual; "
        "for minutes, a broker cannot reach one of them.",
        Query(f"count({_KNOWING} < on () group_left () {_READY}) or vector(0)"),
        limits=worse_above(1, 2),
    ),
    table(
        "Brokers",
        "What is registered at the NameServers chosen. Addresses are in the HTTP API, /v1/brokers.",
        over("count", f"rocketmq_namesrv_broker_info{{{_BY_SERVER}}}", "cluster, broker, broker_id, version"),
        columns=(
            TableColumn("cluster", "Cluster"),
            TableColumn("broker", "Broker set"),
            TableColumn("broker_id", "Broker id"),
            TableColumn("version", "Version"),
            TableColumn("Value", "NameServers", limits=good_from(1)),
        ),
        links=(Link("Only this set", "rmq-brokers", "broker"),),
        width=16,
    ),
)

BOARD: Final = Board(
    uid="rmq-brokers",
    title="RocketMQ / Brokers",
    question="Which broker is ill?",
    when_red="A broker that is silent everywhere: its host, or its garbage collection. Silent at one NameServer only: "
    "the network between the two. Many at once: what they share. Pages: `BrokerMissing`, `BrokerHeartbeatStale`, "
    "`BrokerFlapping`, `NameServersDisagree`.",
    variables=(PLANE, CLUSTER, BROKER, NAMESRV),
    annotations=(FAILOVERS, NAMESRV_STARTS),
    rows=(_STATES, _HEARTBEATS, _COMING),
)
