"""For operators: whether a NameServer is slow or full."""

from typing import Final

from dashboards.boards import server_rows
from dashboards.boards.shared import (
    NAMESRV,
    NAMESRV_STARTS,
    PLANE,
    grown_of_each,
    now_of_each,
    of_each,
    quantile_of_each,
)
from dashboards.grafana import Board, bad_above, lines, row, worse_above
from dashboards.promql import BY_INSTANCE, Query, mean, over, quantile, rate

_PREFIX: Final = "rocketmq_namesrv_"
_SLOW_S: Final = (0.01, 0.05)


def _cache_events(result: str) -> Query:
    return rate(f"{_PREFIX}route_cache_events_total", f"{BY_INSTANCE}, result{result}", by="instance")


_ASKED: Final = _cache_events('=~"hit|miss"')

_ROUTES: Final = row(
    "Routes",
    lines("Route queries", "By how they ended.", of_each(f"{_PREFIX}route_queries_total", "result")),
    lines(
        "Answers from memory",
        "Share of route queries that were answered with a route that was encoded before. It falls while brokers come "
        "and go.",
        _cache_events('="hit"').then(f"/ ({_ASKED} > 0)"),
        unit="percentunit",
    ),
    lines(
        "Encoded routes dropped",
        "Because something of them changed; each is encoded again when it is asked for.",
        _cache_events('="invalidated"'),
    ),
    lines(
        "Size of route answers",
        "Mean and p99 of what was sent. It grows with the number of brokers that hold a topic.",
        mean(f"{_PREFIX}route_response_bytes", BY_INSTANCE, by="instance").named("mean"),
        quantile(0.99, f"{_PREFIX}route_response_bytes", BY_INSTANCE, by="instance").named("p99"),
        limits=worse_above(256 << 10, 1 << 20),
    ),
    lines(
        "Learned answers",
        "Route queries answered with brokers that peers know: after a start, with `peers`, for 120 s at most.",
        of_each(f"{_PREFIX}learned_route_answers_total"),
    ),
    lines(
        "Peers",
        "1: the server has just started and answers with what peers know; a peer is ignored, or knows other brokers or "
        "topics. Page: `NameServerViewsDiffer`.",
        now_of_each(f"{_PREFIX}cold"),
        now_of_each(f"{_PREFIX}peer_ignored", "namesrv").or_zero(),
        now_of_each(f"{_PREFIX}peer_difference", "namesrv", "broker", "kind").or_zero(),
    ),
    lines(
        "Route workers",
        "Workers that serve, with routeWorkers, and those that ended: each cost its clients a reconnect.",
        now_of_each(f"{_PREFIX}route_workers"),
        grown_of_each(f"{_PREFIX}route_workers_ended_total"),
    ),
    lines(
        "Clients at route workers",
        "Connections; those with TLS stay at the server.",
        now_of_each(f"{_PREFIX}route_worker_connections"),
    ),
    lines(
        "Questions of route workers",
        "Requests about which they asked the server: after a change of a route, the first at each worker.",
        of_each(f"{_PREFIX}route_worker_requests_total"),
    ),
    lines(
        "Processor time of route workers",
        "Cores that the workers of a server fill together.",
        of_each(f"{_PREFIX}route_worker_cpu_seconds_total"),
        unit="short",
    ),
    lines(
        "Watched routes",
        "Topics of which it is noted who fetches their routes, while a controller takes queues away. Each query for "
        "one of them takes twice as long; 64 is the limit.",
        now_of_each(f"{_PREFIX}watched_routes"),
    ),
    lines(
        "Watchers",
        "Programs that watch routes or brokers; routeWatchersMax is the limit of both together.",
        now_of_each(f"{_PREFIX}watchers", "watch"),
    ),
    lines(
        "Watchers that missed changes",
        "Gaps, by reason, and watchers that were refused or read nothing. unknown_id: they came from another "
        "NameServer, or this one was restarted. slow_reader and stalled: look at the client.",
        grown_of_each(f"{_PREFIX}watch_gaps_total", "reason"),
        grown_of_each(f"{_PREFIX}watchers_dropped_total", "reason"),
    ),
    lines(
        "Look for silent brokers",
        "How long one look takes, p99. It is made on the loop.",
        quantile_of_each(0.99, f"{_PREFIX}expiry_scan_duration_seconds"),
        limits=worse_above(0.05, 0.2),
    ),
    lines(
        "Brokers told of a smaller id",
        "Members of a set are told which of them has the smallest broker id now. Failed: this host cannot connect to "
        "the broker's address, which finds out by its own poll.",
        grown_of_each(f"{_PREFIX}min_broker_id_notifications_total", "result"),
        limits=bad_above(10),
    ),
    lines(
        "KV entries",
        "Of all namespaces. NameServers do not copy them from each other: a difference means that one of them missed "
        "a command.",
        now_of_each(f"{_PREFIX}kv_entries"),
    ),
    lines(
        "Changes of the KV table",
        "Failed ones could not be written to disk, and nothing changed.",
        grown_of_each(f"{_PREFIX}kv_changes_total", "result"),
    ),
)

_ROLE_ADDRESSES: Final = row(
    "Role addresses",
    lines(
        "Versions of the rules",
        "How many NameServers have each digest of the rules. More than one line for longer than it takes to "
        "distribute a file: clients get different addresses from different NameServers.",
        over("count", f"{_PREFIX}role_addresses_info{{{BY_INSTANCE}}}", "digest"),
    ),
    lines("Rules in force", "None without roleAddressFile.", now_of_each(f"{_PREFIX}role_address_rules")),
    lines(
        "Problems of role addresses",
        "waiting: no broker is registered for which the address stands. file, loop, refused: clients do not get it. "
        "failing: they have it, and it has led nowhere for 15 s.",
        now_of_each(f"{_PREFIX}role_address_problems", "kind"),
        limits=bad_above(1),
    ),
)

BOARD: Final = Board(
    uid="rmq-namesrv",
    title="RocketMQ / NameServers",
    question="Is a NameServer slow or full?",
    when_red="Slow requests and a late event loop at the same time: the process lacks a processor, or answers are "
    "large. Slow requests alone: look at the code that is slow. Turned away: a limit was reached; the reason names "
    "it. Pages: `RouteLatencyHigh`, `EventLoopBlocked`, `RequestsRejected`, `RoleAddressFailing`.",
    variables=(PLANE, NAMESRV),
    annotations=(NAMESRV_STARTS,),
    rows=(
        server_rows.requests(_PREFIX, slow_s=_SLOW_S),
        _ROUTES,
        _ROLE_ADDRESSES,
        server_rows.connections(_PREFIX),
        server_rows.process(_PREFIX),
        server_rows.history(),
    ),
)
