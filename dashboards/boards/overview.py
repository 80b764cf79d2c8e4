"""For anyone: whether it is healthy."""

from functools import partial
from typing import Final

from dashboards.boards.shared import CLUSTER, FAILOVERS, LEADER_CHANGES, NAMESRV_STARTS, PLANE
from dashboards.grafana import Board, Link, TableColumn, bad_above, good_from, lines, row, stat, table, worse_above
from dashboards.promql import (
    BY_CLUSTER,
    BY_PLANE,
    CONTROLLER_JOBS,
    SERVER_JOBS,
    Query,
    increase,
    over,
    quantiles,
    rate,
    total,
)

_stat = partial(stat, width=4, height=5)
_NO_MASTER: Final = f'{BY_CLUSTER}, state="no_master"'
_ONE_LEADER: Final = ((None, "red"), (1.0, "green"), (2.0, "red"))


def _seen_by_most(metric: str, selector: str) -> Query:
    """Return a number of brokers or sets as the NameServer has it that sees most of them."""
    return over("max", total(metric, selector, by="instance"))


_NOW: Final = row(
    "Now",
    _stat(
        "Ready NameServers",
        "That serve brokers and clients. Clients try the next one when theirs is gone; without any, nobody finds a "
        "new route.",
        total("rocketmq_namesrv_ready").then("or vector(0)"),
        limits=good_from(1),
        links=(Link("NameServers", "rmq-namesrv"),),
    ),
    _stat(
        "Servers down",
        "NameServers and controllers that Prometheus cannot scrape.",
        Query(f"count(up{{{BY_PLANE}, {SERVER_JOBS}}} == 0) or vector(0)"),
        limits=bad_above(1),
        links=(Link("NameServers", "rmq-namesrv"), Link("Controllers", "rmq-controller")),
    ),
    _stat(
        "Living brokers",
        "As the NameServer has it that sees most; those that the controller expects and does not hear are missing.",
        _seen_by_most("rocketmq_namesrv_active_brokers", BY_CLUSTER).named("living"),
        total("rocketmq_controller_replicas", BY_CLUSTER)
        .then(f"- {total('rocketmq_controller_active_brokers', BY_CLUSTER)}")
        .named("missing"),
        links=(Link("Brokers", "rmq-brokers"),),
    ),
    _stat(
        "Sets without master",
        "Nobody takes messages for them. For NameServers a set has none when its master left and no slave may act for "
        "it; it is away when all of its brokers left.",
        total("rocketmq_controller_broker_sets", _NO_MASTER).named("controller"),
        _seen_by_most("rocketmq_namesrv_broker_sets", _NO_MASTER).named("NameServers"),
        _seen_by_most("rocketmq_namesrv_away_broker_sets", BY_CLUSTER).named("away"),
        limits=bad_above(1),
        links=(Link("Controllers", "rmq-controller"),),
    ),
    _stat(
        "Leading controllers",
        "One of a group leads. None: no broker gets a new role. Two: they do not share a store.",
        # When none can be scraped there is no role at all; and where none is meant to be, nothing is red.
        Query(f"sum(rocketmq_controller_role{{{BY_PLANE}}} == bool 3) or 0 * sum(up{{{BY_PLANE}, {CONTROLLER_JOBS}}})"),
        limits=_ONE_LEADER,
        links=(Link("Controllers", "rmq-controller"),),
    ),
    _stat(
        "Firing alerts",
        "By the rules in dashboards/prometheus; each has a page under dashboards/runbooks.",
        *(
            Query(f'count(ALERTS{{{BY_PLANE}, alertstate="firing", severity="{each}"}}) or vector(0)', each)
            for each in ("critical", "warning")
        ),
        limits=bad_above(1),
    ),
)

_QUERIES: Final = row(
    "Route queries",
    lines(
        "Rate, by how they ended",
        "Clients and brokers ask each 30 s for each topic. not_found is usual where topics are created on demand.",
        rate("rocketmq_namesrv_route_queries_total", by="result"),
        stacked=True,
        links=(Link("NameServers", "rmq-namesrv"),),
    ),
    lines(
        "Share that failed",
        "Route queries that ended with an error, of all. Should be 0.",
        rate("rocketmq_namesrv_route_queries_total", f'{BY_PLANE}, result="error"')
        .then(f"/ ({rate('rocketmq_namesrv_route_queries_total')} > 0)")
        .named("failed"),
        unit="percentunit",
        limits=bad_above(0.001),
    ),
    lines(
        "Duration",
        "From the whole frame read until the answer was handed to the socket, over all NameServers.",
        *quantiles(
            "rocketmq_namesrv_request_duration_seconds",
            f'{BY_PLANE}, request_code="get_routeinfo_by_topic"',
            *(0.5, 0.99),
        ),
        limits=worse_above(0.01, 0.05),
        links=(Link("NameServers", "rmq-namesrv"),),
    ),
)

_EVENTS: Final = row(
    "What happened",
    lines(
        "Broker sets",
        "By how the controller finds them.",
        total("rocketmq_controller_broker_sets", BY_CLUSTER, by="state"),
        stacked=True,
        links=(Link("Controllers", "rmq-controller"),),
    ),
    lines(
        "Failovers",
        "Elections because a master was lost, by how that showed and how they ended.",
        increase("rocketmq_controller_failovers_total", BY_CLUSTER, by="cluster, cause, outcome"),
        links=(Link("Controllers", "rmq-controller"),),
    ),
    lines(
        "Brokers that left",
        "And why, on the NameServer that saw most. request is a broker that was stopped in order.",
        over(
            "max",
            increase("rocketmq_namesrv_unregistrations_total", BY_CLUSTER, by="cluster, reason, instance"),
            "cluster, reason",
        ),
        links=(Link("Brokers", "rmq-brokers"),),
    ),
    table(
        "What runs",
        "Release and Python of every server.",
        Query(
            f"rocketmq_namesrv_build_info{{{BY_PLANE}}} or rocketmq_controller_build_info{{{BY_PLANE}}} "
            f"or rocketmq_offset_manager_build_info{{{BY_PLANE}}}"
        ),
        columns=(
            TableColumn("job", "Job"),
            TableColumn("instance", "Instance"),
            TableColumn("version", "Version"),
            TableColumn("python", "Python"),
        ),
        width=24,
        height=6,
    ),
)

BOARD: Final = Board(
    uid="rmq-overview",
    title="RocketMQ / Overview",
    question="Is the control plane healthy?",
    when_red="Click on what is red: it leads to the board with the details. Marks in the panels are new masters, "
    "other leading controllers, and starts of NameServers. Another plane is chosen at the top. Every alert has a page "
    "under `dashboards/runbooks`.",
    variables=(PLANE, CLUSTER),
    annotations=(FAILOVERS, LEADER_CHANGES, NAMESRV_STARTS),
    rows=(_NOW, _QUERIES, _EVENTS),
)
