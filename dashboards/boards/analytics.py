"""For those who plan: what should be changed."""

from typing import Final

from dashboards.boards.shared import BROKER, CLUSTER, PLANE
from dashboards.grafana import Board, Link, TableColumn, better_above, good_from, lines, row, stat, table, worse_above
from dashboards.promql import BY_BROKER, BY_CLUSTER, BY_PLANE, Query, most, over, total

_HOUR_S: Final = 3600
#: The jobs run each day; two hours late is late.
_STALE_S: Final = (25 * _HOUR_S, 26 * _HOUR_S)
#: Prometheus calls the scrape `job`, so the metrics' own label of that name comes with a prefix.
_ANALYSIS: Final = "exported_job"
_LAST_SUCCESS: Final = most("rocketmq_analytics_last_success_timestamp_seconds", by=_ANALYSIS)
_AVAILABILITY: Final = (0.999, 0.9999)
_FLAPPING: Final = (1.5, 3)
_DAYS: Final = (30, 90)
_TOP: Final = 10


def _of_sets(result: str) -> Query:
    """Return the last result of an analysis for each broker set, from whichever controller reads it."""
    return most(f"rocketmq_analytics_{result}", BY_BROKER, by="cluster, broker")


_FRESH: Final = row(
    "Are the analyses up to date?",
    stat(
        "Age of the last result",
        "Of each analysis. Older than 26 hours: a run failed or did not begin.",
        Query(f"time() - {_LAST_SUCCESS}", _LAST_SUCCESS.legend),
        unit="s",
        limits=worse_above(*_STALE_S),
        width=12,
    ),
    lines(
        "Duration of the last run",
        "By analysis. It grows with brokers times days.",
        most("rocketmq_analytics_run_duration_seconds", by=_ANALYSIS),
        limits=worse_above(600, 3600),
        width=6,
    ),
    lines(
        "Rows read",
        "By the last run of each analysis. A fall to nothing: recording or ingest stopped.",
        most("rocketmq_analytics_input_rows", by=_ANALYSIS),
        limits=good_from(1),
        width=6,
    ),
)

_BROKERS: Final = row(
    "Brokers",
    table(
        "Availability",
        "Share of the observed time that each set was up for a majority of NameServers (A1), lowest first, with its "
        "score of flapping (A3) and the share of heartbeats that did not come (A2).",
        *map(_of_sets, ("broker_availability_ratio", "flapping_score", "missed_heartbeat_ratio")),
        columns=(
            TableColumn("cluster", "Cluster"),
            TableColumn("broker", "Broker set"),
            TableColumn("Value #A", "Availability", "percentunit", better_above(*_AVAILABILITY)),
            TableColumn("Value #B", "Flapping", limits=worse_above(*_FLAPPING)),
            TableColumn("Value #C", "Missed heartbeats", "percentunit", worse_above(0.001, 0.01)),
        ),
        links=(Link("Its brokers", "rmq-brokers", "broker"),),
        width=12,
    ),
    table(
        "Heartbeat timeouts",
        "What is in force, and what the history recommends (A5): as short as false alarms allow. Where they differ "
        "much, change brokerHeartbeatTimeout of that broker.",
        most("rocketmq_namesrv_broker_heartbeat_timeout_seconds", BY_BROKER, by="cluster, broker"),
        _of_sets("recommended_timeout_seconds"),
        unit="short",
        columns=(
            TableColumn("cluster", "Cluster"),
            TableColumn("broker", "Broker set"),
            TableColumn("Value #A", "In force", "s"),
            TableColumn("Value #B", "Recommended", "s"),
        ),
        links=(Link("Its brokers", "rmq-brokers", "broker"),),
        width=12,
    ),
    lines(
        "Flapping",
        "The sets with the highest scores (A3). Above 3 it flaps, until it is below 1.5 again.",
        _of_sets("flapping_score").top(_TOP),
        limits=worse_above(*_FLAPPING),
        links=(Link("Its brokers", "rmq-brokers", "broker"),),
        width=12,
    ),
    lines(
        "Missed heartbeats",
        "The sets that missed the largest share (A2): network, garbage collection or overload.",
        _of_sets("missed_heartbeat_ratio").top(_TOP),
        unit="percentunit",
        limits=worse_above(0.001, 0.01),
        links=(Link("Its brokers", "rmq-brokers", "broker"),),
        width=12,
    ),
)

_WHOLE: Final = row(
    "The whole",
    lines(
        "NameServers that disagreed",
        "Seconds of the last window in which two NameServers had different routes (A6), for each pair. Minutes: "
        "brokers could not reach one of them.",
        Query(f"rocketmq_analytics_divergence_seconds{{{BY_PLANE}}}").top(_TOP),
        unit="s",
        limits=worse_above(60, 600),
    ),
    lines(
        "Phases of failovers, p95",
        "Of the last window (A10), by cluster. address_total: from the last heartbeat of a master until every role "
        "address of its set led to the next one; serve and lead are its last parts. total: until all NameServers "
        "showed the next one, for clients without a role address.",
        most("rocketmq_analytics_failover_phase_seconds", BY_CLUSTER, by="cluster, phase"),
        limits=worse_above(5, 30),
    ),
    stat(
        "Days left",
        "Until each resource reaches its limit, by its trend (A12). Nothing is shown for what does not grow.",
        over("min", f"rocketmq_analytics_capacity_days_left{{{BY_PLANE}}}", "resource"),
        unit="d",
        limits=better_above(*_DAYS),
    ),
    stat(
        "Proposed changes of queues",
        "By kind (A8, A9). The report has the topics and the plan.",
        total("rocketmq_analytics_queue_recommendations", by="kind"),
        limits=worse_above(1, 50),
        links=(Link("Topics and queues", "rmq-topics"),),
    ),
)

BOARD: Final = Board(
    uid="rmq-analytics",
    title="RocketMQ / Analyses",
    question="What should I change?",
    when_red="These are results of batch jobs, of the window that their last run looked at. `rmq-analytics report` "
    "writes one page with all of them, anomalies and correlated failures included. Pages: `AnalyticsStale`, "
    "`HistoryStopped`.",
    variables=(PLANE, CLUSTER, BROKER),
    rows=(_FRESH, _BROKERS, _WHOLE),
)
