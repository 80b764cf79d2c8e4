"""Newest results of the Spark analyses, as a controller shows them to Prometheus: numbers by label. Pure.

What is read is the `latest/<name>.json` that `rmq-analytics run` publishes (analytics/README.md); a column that it does
not have is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from controller.observability import metric_catalogue as catalogue
from serving.metrics.counters import Labels
from serving.metrics.families import MetricFamily


class AnalysisResult(msgspec.Struct):
    """One result; of its keys, those that are shown."""

    name: str
    finished_at: datetime
    duration_seconds: float
    input_rows: int
    rows: list[dict[str, Any]]
    #: How many rows the result has; `rows` are the first of them.
    row_count: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all rows are there."""
        return self.row_count <= len(self.rows)


class Sample(NamedTuple):
    """One number."""

    family: MetricFamily
    labels: Labels
    value: float


class _Shown(NamedTuple):
    """How a column of a result becomes a metric of each broker set."""

    family: MetricFamily
    column: str
    #: What stands for the brokers of a set.
    combine: Callable[[float, float], float]


_BY_SET: Final[Mapping[str, _Shown]] = {
    "availability": _Shown(catalogue.AVAILABILITY, "availability", min),
    "flapping": _Shown(catalogue.FLAPPING_SCORE, "peak", max),
    "timeout_recommendation": _Shown(catalogue.RECOMMENDED_TIMEOUT, "recommended_timeout_s", max),
    "heartbeat_gaps": _Shown(catalogue.MISSED_HEARTBEATS, "miss_ratio", max),
}


def samples(results: Iterable[AnalysisResult]) -> Iterator[Sample]:
    """Yield what results come to."""
    for latest in results:
        labels = (latest.name,)
        yield Sample(catalogue.ANALYTICS_LAST_SUCCESS, labels, latest.finished_at.timestamp())
        yield Sample(catalogue.ANALYTICS_DURATION, labels, latest.duration_seconds)
        yield Sample(catalogue.ANALYTICS_INPUT_ROWS, labels, latest.input_rows)
        if latest.name in _BY_SET:
            yield from _of_sets(_BY_SET[latest.name], latest.rows)
        elif latest.name in _BY_NAME:
            yield from _BY_NAME[latest.name](latest.rows)
        elif latest.name in _COUNTED and latest.is_whole:
            # The count of a part would pass for that of all: none is better.
            yield from _COUNTED[latest.name](latest.rows)


def _of_sets(shown: _Shown, rows: list[dict[str, Any]]) -> Iterator[Sample]:
    found: dict[Labels, float] = {}
    for row in rows:
        value = row.get(shown.column)
        # A share of few heartbeats, or a timeout after a day, would be taken for more than it is.
        if isinstance(value, int | float) and row.get("confidence") != "low":
            labels = (str(row.get("cluster") or ""), str(row.get("broker_name") or ""))
            found[labels] = shown.combine(found[labels], value) if labels in found else value
    yield from (Sample(shown.family, labels, value) for labels, value in found.items())


def _days_left(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    found: dict[str, float] = {}
    for row in rows:
        value = row.get("days_left")
        if isinstance(value, int | float):
            resource = str(row.get("resource") or "")
            found[resource] = min(found.get(resource, value), value)
    yield from (Sample(catalogue.CAPACITY_DAYS_LEFT, (resource,), value) for resource, value in found.items())


def _diverging(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    # Of very many rows the longest are there: at least so many seconds, which an alert must not miss.
    seconds = (row.get("seconds") for row in rows)
    yield Sample(catalogue.DIVERGENCE, (), sum(each for each in seconds if isinstance(each, int | float)))


def _phases(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    for row in rows:
        value = row.get("p95_s")
        if row.get("kind") == "phase" and isinstance(value, int | float):
            labels = (str(row.get("cluster") or ""), str(row.get("phase") or ""))
            yield Sample(catalogue.FAILOVER_PHASE, labels, value)


def _moves(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    # A queue that moves is one more somewhere and one less elsewhere.
    more = (_more_queues(row) for row in rows if row.get("kind") == "proposal")
    yield Sample(catalogue.QUEUE_RECOMMENDATIONS, ("move",), sum(more))


def _more_queues(row: Mapping[str, Any]) -> int:
    now, proposed = row.get("write_now"), row.get("write_proposed")
    return max(0, proposed - now) if isinstance(now, int) and isinstance(proposed, int) else 0


def _scalings(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    verdicts = [row.get("verdict") for row in rows if row.get("kind") == "topic"]
    for verdict in ("grow", "shrink"):
        yield Sample(catalogue.QUEUE_RECOMMENDATIONS, (verdict,), verdicts.count(verdict))


_BY_NAME: Final[Mapping[str, Callable[[list[dict[str, Any]]], Iterator[Sample]]]] = {
    "divergence": _diverging,
    "failover_timeline": _phases,
    "capacity": _days_left,
}
_COUNTED: Final[Mapping[str, Callable[[list[dict[str, Any]]], Iterator[Sample]]]] = {
    "queue_balance": _moves,
    "queue_scaling": _scalings,
}
