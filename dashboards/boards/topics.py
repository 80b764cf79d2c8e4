"""For operators: whether routes or queues changed."""

from typing import Final

from dashboards.boards.shared import CLUSTER, FAILOVERS, NAMESRV, NAMESRV_STARTS, PLANE
from dashboards.panels import Board, Kind, Link, Panel, Query, Row, bad_above, worse_above
from dashboards.promql import BY_CLUSTER, BY_INSTANCE, BY_PLANE, increase, mean, quantile

_SEEN: Final = f'{BY_CLUSTER}, instance=~"$instance"'

_ROUTES: Final = Row(
    "What there is",
    (
        Panel(
            kind=Kind.LINES,
            title="Topics",
            description="By kind, each counted once per cluster, on the NameServer that has most.",
            queries=(Query(f"max by (cluster, kind) (rocketmq_namesrv_topics{{{_SEEN}}})", "{{cluster}} {{kind}}"),),
        ),
        Panel(
            kind=Kind.LINES,
            title="Queues",
            description="Over all topics and broker sets. More read than write queues: a topic is being made smaller.",
            queries=(
                Query(f"max by (cluster, access) (rocketmq_namesrv_queues{{{_SEEN}}})", "{{cluster}} {{access}}"),
            ),
        ),
        Panel(
            kind=Kind.LINES,
            title="Topics that NameServers disagree on",
            description="The most that one has, less the fewest. For half a minute after a change that is usual.",
            limits=bad_above(1),
            queries=(
                Query(
                    f"max by (cluster, kind) (rocketmq_namesrv_topics{{{_SEEN}}})"
                    f" - min by (cluster, kind) (rocketmq_namesrv_topics{{{_SEEN}}})",
                    "{{cluster}} {{kind}}",
                ),
            ),
        ),
    ),
)

_CHANGES: Final = Row(
    "What changed",
    (
        Panel(
            kind=Kind.LINES,
            title="Changes of routes",
            description="By kind, on the NameServer that saw most. Topics that come and go all day are made by a "
            "program: the analyses of route churn name them.",
            queries=(
                Query(
                    "max by (cluster, kind) ("
                    + increase("rocketmq_namesrv_route_changes_total", _SEEN, by="cluster, kind, instance")
                    + ")",
                    "{{cluster}} {{kind}}",
                ),
            ),
            stacked=True,
            links=(Link("Brokers", "rmq-brokers"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Topics changed by one registration",
            description="Mean and p99. Large numbers are brokers that come for the first time.",
            queries=(
                Query(
                    mean("rocketmq_namesrv_registration_changed_topics", BY_INSTANCE, by="instance"),
                    "{{instance}} mean",
                ),
                Query(
                    quantile(0.99, "rocketmq_namesrv_registration_changed_topics", BY_INSTANCE, by="instance"),
                    "{{instance}} p99",
                ),
            ),
            width=6,
        ),
        Panel(
            kind=Kind.LINES,
            title="Size of registrations",
            description="Bodies as they came, p99. Brokers send all of their topics each 30 s.",
            unit="bytes",
            limits=worse_above(1 << 20, 4 << 20),
            queries=(
                Query(
                    quantile(0.99, "rocketmq_namesrv_registration_body_bytes", BY_INSTANCE, by="instance"),
                    "{{instance}}",
                ),
            ),
            width=6,
        ),
    ),
)

_RECOMMENDED: Final = Row(
    "What the analyses propose",
    (
        Panel(
            kind=Kind.STAT,
            title="Proposed changes of queues",
            description="By kind, of the last run: moves for balance (A8), and more or fewer queues by load (A9). The "
            "report has the topics and the plan; nothing is done by itself.",
            limits=worse_above(1, 50),
            queries=(Query(f"sum by (kind) (rocketmq_analytics_queue_recommendations{{{BY_PLANE}}})", "{{kind}}"),),
            links=(Link("Analyses", "rmq-analytics"),),
            width=12,
        ),
        Panel(
            kind=Kind.LINES,
            title="Proposals over time",
            description="A number that stays for weeks is a decision that nobody took.",
            queries=(Query(f"sum by (kind) (rocketmq_analytics_queue_recommendations{{{BY_PLANE}}})", "{{kind}}"),),
            width=12,
        ),
    ),
)

BOARD: Final = Board(
    uid="rmq-topics",
    title="RocketMQ / Topics and queues",
    question="Did routes or queues change?",
    when_red="Counts here hold no topic names, since there are too many. `rmq history route TOPIC --at TIME --diff "
    "TIME2` tells what changed of one. Page: `NameServersDisagree`.",
    variables=(PLANE, CLUSTER, NAMESRV),
    annotations=(FAILOVERS, NAMESRV_STARTS),
    rows=(_ROUTES, _CHANGES, _RECOMMENDED),
)
