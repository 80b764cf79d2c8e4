"""For operators: whether a NameServer is slow or full."""

from typing import Final

from dashboards.boards import history_row, server_rows
from dashboards.boards.shared import (
    NAMESRV,
    NAMESRV_STARTS,
    PLANE,
    grown_of_each,
    now_of_each,
    of_each,
    quantile_of_each,
)
from dashboards.panels import Board, Kind, Panel, Query, Row, bad_above, worse_above
from dashboards.promql import BY_INSTANCE, mean, quantile, rate

_PREFIX: Final = "rocketmq_namesrv_"
_SLOW_S: Final = (0.01, 0.05)

_ROUTES: Final = Row(
    "Routes",
    (
        Panel(
            kind=Kind.LINES,
            title="Route queries",
            description="By how they ended.",
            unit="reqps",
            queries=(of_each(f"{_PREFIX}route_queries_total", "result"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Answers from memory",
            description="Share of route queries that were answered with a route that was encoded before. It falls "
            "while brokers come and go.",
            unit="percentunit",
            queries=(
                Query(
                    rate(f"{_PREFIX}route_cache_events_total", f'{BY_INSTANCE}, result="hit"', by="instance")
                    + " / ("
                    + rate(f"{_PREFIX}route_cache_events_total", f'{BY_INSTANCE}, result=~"hit|miss"', by="instance")
                    + " > 0)",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Encoded routes dropped",
            description="Because something of them changed; each is encoded again when it is asked for.",
            unit="ops",
            queries=(
                Query(
                    rate(f"{_PREFIX}route_cache_events_total", f'{BY_INSTANCE}, result="invalidated"', by="instance"),
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Size of route answers",
            description="Mean and p99 of what was sent. It grows with the number of brokers that hold a topic.",
            unit="bytes",
            limits=worse_above(256 << 10, 1 << 20),
            queries=(
                Query(mean(f"{_PREFIX}route_response_bytes", BY_INSTANCE, by="instance"), "{{instance}} mean"),
                Query(quantile(0.99, f"{_PREFIX}route_response_bytes", BY_INSTANCE, by="instance"), "{{instance}} p99"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Watched routes",
            description="Topics of which it is noted who fetches their routes, while a controller takes queues away. "
            "Each query for one of them takes twice as long; 64 is the limit.",
            queries=(now_of_each(f"{_PREFIX}watched_routes"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Watchers",
            description="Programs that watch routes or brokers; routeWatchersMax is the limit of both together.",
            queries=(now_of_each(f"{_PREFIX}watchers", "watch"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Watchers that missed changes",
            description="Gaps, by reason, and watchers that were refused or read nothing. unknown_id: they came from "
            "another NameServer, or this one was restarted. slow_reader and stalled: look at the client.",
            queries=(
                grown_of_each(f"{_PREFIX}watch_gaps_total", "reason"),
                grown_of_each(f"{_PREFIX}watchers_dropped_total", "reason"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Look for silent brokers",
            description="How long one look takes, p99. It is made on the loop.",
            unit="s",
            limits=worse_above(0.05, 0.2),
            queries=(quantile_of_each(0.99, f"{_PREFIX}expiry_scan_duration_seconds"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Brokers told of a smaller id",
            description="Members of a set are told which of them has the smallest broker id now. Failed: this host "
            "cannot connect to the broker's address, which finds out by its own poll.",
            limits=bad_above(10),
            queries=(grown_of_each(f"{_PREFIX}min_broker_id_notifications_total", "result"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="KV entries",
            description="Of all namespaces. NameServers do not copy them from each other: a difference means that one "
            "of them missed a command.",
            queries=(now_of_each(f"{_PREFIX}kv_entries"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Changes of the KV table",
            description="Failed ones could not be written to disk, and nothing changed.",
            queries=(grown_of_each(f"{_PREFIX}kv_changes_total", "result"),),
        ),
    ),
)

_ROLE_ADDRESSES: Final = Row(
    "Role addresses",
    (
        Panel(
            kind=Kind.LINES,
            title="Versions of the rules",
            description="How many NameServers have each digest of the rules. More than one line for longer than it "
            "takes to distribute a file: clients get different addresses from different NameServers.",
            queries=(Query(f"count by (digest) ({_PREFIX}role_addresses_info{{{BY_INSTANCE}}})", "{{digest}}"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Rules in force",
            description="None without roleAddressFile.",
            queries=(now_of_each(f"{_PREFIX}role_address_rules"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Problems of role addresses",
            description="waiting: no broker is registered for which the address stands. file, loop, refused: clients "
            "do not get it. failing: they have it, and it has led nowhere for 15 s.",
            limits=bad_above(1),
            queries=(now_of_each(f"{_PREFIX}role_address_problems", "kind"),),
        ),
    ),
)

BOARD: Final = Board(
    uid="rmq-namesrv",
    title="RocketMQ / NameServers",
    question="Is a NameServer slow or full?",
    when_red="Slow requests and a late event loop at the same time: the process lacks a processor, or answers are "
    "large. Slow requests alone: look at the code that is slow. Turned away: a limit was reached; the reason names it. "
    "Pages: `RouteLatencyHigh`, `EventLoopBlocked`, `RequestsRejected`, `RoleAddressFailing`.",
    variables=(PLANE, NAMESRV),
    annotations=(NAMESRV_STARTS,),
    rows=(
        server_rows.requests(_PREFIX, slow_s=_SLOW_S),
        _ROUTES,
        _ROLE_ADDRESSES,
        server_rows.connections(_PREFIX),
        server_rows.process(_PREFIX),
        history_row.history(),
    ),
)
