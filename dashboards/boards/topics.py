"""For operators: whether routes or queues changed."""

from typing import Final

from dashboards.boards.shared import CLUSTER, FAILOVERS, NAMESRV, NAMESRV_STARTS, PLANE
from dashboards.grafana import Board, Link, bad_above, lines, row, stat, worse_above
from dashboards.promql import BY_CLUSTER, BY_INSTANCE, increase, mean, most, over, quantile, total

_SEEN: Final = f'{BY_CLUSTER}, instance=~"$instance"'

_ROUTES: Final = row(
    "What there is",
    lines(
        "Topics",
        "By kind, each counted once per cluster, on the NameServer that has most.",
        most("rocketmq_namesrv_topics", _SEEN, by="cluster, kind"),
    ),
    lines(
        "Queues",
        "Over all topics and broker sets. More read than write queues: a topic is being made smaller.",
        most("rocketmq_namesrv_queues", _SEEN, by="cluster, access"),
    ),
    lines(
        "Topics that NameServers disagree on",
        "The most that one has, less the fewest. For half a minute after a change that is usual.",
        most("rocketmq_namesrv_topics", _SEEN, by="cluster, kind").then(
            f"- {over('min', f'rocketmq_namesrv_topics{{{_SEEN}}}', 'cluster, kind')}"
        ),
        limits=bad_above(1),
    ),
)

_CHANGES: Final = row(
    "What changed",
    lines(
        "Changes of routes",
        "By kind, on the NameServer that saw most. Topics that come and go all day are made by a program: the "
        "analyses of route churn name them.",
        over(
            "max",
            increase("rocketmq_namesrv_route_changes_total", _SEEN, by="cluster, kind, instance"),
            "cluster, kind",
        ),
        stacked=True,
        links=(Link("Brokers", "rmq-brokers"),),
        width=12,
    ),
    lines(
        "Topics changed by one registration",
        "Mean and p99. Large numbers are brokers that come for the first time.",
        mean("rocketmq_namesrv_registration_changed_topics", BY_INSTANCE, by="instance").named("mean"),
        quantile(0.99, "rocketmq_namesrv_registration_changed_topics", BY_INSTANCE, by="instance").named("p99"),
        width=6,
    ),
    lines(
        "Size of registrations",
        "Bodies as they came, p99. Brokers send all of their topics each 30 s.",
        quantile(0.99, "rocketmq_namesrv_registration_body_bytes", BY_INSTANCE, by="instance"),
        limits=worse_above(1 << 20, 4 << 20),
        width=6,
    ),
)

_RECOMMENDED: Final = row(
    "What the analyses propose",
    stat(
        "Proposed changes of queues",
        "By kind, of the last run: moves for balance (A8), and more or fewer queues by load (A9). The report has the "
        "topics and the plan; nothing is done by itself.",
        total("rocketmq_analytics_queue_recommendations", by="kind"),
        limits=worse_above(1, 50),
        links=(Link("Analyses", "rmq-analytics"),),
        width=12,
    ),
    lines(
        "Proposals over time",
        "A number that stays for weeks is a decision that nobody took.",
        total("rocketmq_analytics_queue_recommendations", by="kind"),
        width=12,
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
