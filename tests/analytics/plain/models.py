"""The questions that are asked twice: which model answers each, by what its rows are told apart, what may differ."""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from synthetic.plan import Plan

from plain.anomalies import anomalies
from plain.availability import availability, correlated_failures, flapping
from plain.capacity import capacity
from plain.comparing import Tolerances
from plain.detection_delay import detection_delay
from plain.divergence import divergence
from plain.failover_timeline import failover_timeline
from plain.heartbeat_gaps import heartbeat_gaps
from plain.queue_balance import queue_balance
from plain.queue_scaling import queue_scaling
from plain.read_again import read_again
from plain.resizes import resizes
from plain.restart_storms import restart_storms
from plain.route_churn import route_churn
from plain.spans import Span
from plain.uptime import Key
from plain.watching import Rows

Answer = dict[str, Any]

BROKER = ("cluster", "broker_name", "broker_id")


class Question(NamedTuple):
    """How one analysis is compared."""

    model: Callable[[Plan, Rows, Span], list[Answer]]
    keys: Sequence[str]
    tolerances: Tolerances = MappingProxyType({})
    #: Rows of other kinds are left out.
    kinds: Sequence[str] = ()


def is_configured(plan: Plan) -> bool:
    """Tell whether analyses are told how brokers of a plan are configured to beat: of every second history."""
    return plan.seed % 2 == 0


def _configured(plan: Plan) -> Callable[[Key, str], int | None]:
    periods = {broker.key: broker.period_ms for broker in plan.brokers}
    return lambda key, kind: periods.get((key.broker_name, key.broker_id)) if kind == "register" else None  # type: ignore[call-overload]


def _of_rows(model: Callable[[Rows, Span], list[Answer]]) -> Callable[[Plan, Rows, Span], list[Answer]]:
    return lambda plan, rows, window: model(rows, window)


def _gaps(plan: Plan, rows: Rows, window: Span) -> list[Answer]:
    return heartbeat_gaps(rows, window, _configured(plan) if is_configured(plan) else lambda key, kind: None)


def _divergence(plan: Plan, rows: Rows, window: Span) -> list[Answer]:
    return divergence(rows, window, _configured(plan))


#: Quantiles are told with four digits.
_FOUR_DIGITS = "0.1%"

QUESTIONS: dict[str, Question] = {
    # Silences are told in ms, in two ways.
    "A1": Question(_of_rows(availability), BROKER, {"mttr_s": 0.001, "unplanned_s": 0.01, "unplanned_least_s": 0.01}),
    "A2": Question(
        _gaps,
        ("source", *BROKER),
        dict.fromkeys(("period_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms"), _FOUR_DIGITS) | {"mad_ms": 10.0},
    ),
    "A3": Question(_of_rows(flapping), BROKER, {"peak": 1e-3, "peak_time": 1_500, "time_flagged_s": 0.01}),
    "A4": Question(_of_rows(detection_delay), ("cluster", "source", "reason", "timeout_ms")),
    "A6": Question(
        _divergence,
        (*BROKER, "ns_id", "kind", "start_time"),
        {"compared_s": 0.001},
        kinds=("presence", "address", "version", "cold", "compared"),
    ),
    "A7": Question(_of_rows(route_churn), ("cluster", "topic")),
    "A8": Question(_of_rows(queue_balance), ("cluster", "kind", "topic", "broker_name"), kinds=("broker", "topic")),
    "A9": Question(_of_rows(queue_scaling), ("cluster", "topic"), {"p95_tps": "1%"}, kinds=("topic",)),
    "A10": Question(_of_rows(failover_timeline), ("cluster", "kind", "failover_id", "phase")),
    "A11": Question(_of_rows(restart_storms), ("cluster", "cause", "start")),
    "A12": Question(_of_rows(capacity), ("source", "resource"), {"in_30d": 60.0}),
    "A13": Question(_of_rows(anomalies), (*BROKER, "metric", "start")),
    "A14": Question(_of_rows(correlated_failures), ("cluster", "broker_a", "broker_b", "cluster_b")),
    "A15": Question(
        _of_rows(resizes), ("cluster", "kind", "topic", "operation_id", "phase", "group", "verdict", "finding")
    ),
    "A16": Question(
        _of_rows(read_again),
        ("cluster", "kind", "group", "topic", "broker_name", "cause", "operation", "target", "writer"),
    ),
}
#: These look at many days; the others at some hours.
LONG = ("A9", "A12")
