"""Pieces of PromQL that boards share. Only what Prometheus 2.42 knows."""

import re
from typing import Final, NamedTuple

#: Grafana puts a window here that holds several scrapes.
WINDOW: Final = "$__rate_interval"

#: The scrape jobs of our servers, for series that other software has too. Half of Kubernetes is called controller.
NAMESRV_JOBS: Final = 'job=~".*(rocketmq|rmq).*namesrv.*"'
CONTROLLER_JOBS: Final = 'job=~".*(rocketmq|rmq).*controller.*"'
OFFSET_MANAGER_JOBS: Final = 'job=~".*(rocketmq|rmq).*offset.*"'
SERVER_JOBS: Final = 'job=~".*(rocketmq|rmq).*(namesrv|controller).*"'

#: Everything on a board is about one plane. Where targets have no such label the choice is empty, and so is the label.
BY_PLANE: Final = 'plane="$plane"'
BY_INSTANCE: Final = f'{BY_PLANE}, instance=~"$instance"'
BY_CLUSTER: Final = f'{BY_PLANE}, cluster=~"$cluster"'
BY_BROKER: Final = f'{BY_CLUSTER}, broker=~"$broker"'


class Query(NamedTuple):
    """One PromQL expression, which is its text; `legend` names its series, by their labels in double braces."""

    expr: str
    legend: str = ""
    #: One of Grafana's units.
    unit: str = "short"

    def __str__(self) -> str:
        return self.expr

    def named(self, words: str) -> "Query":
        """Return the query with words in its legend, that distinguish it from others in the same panel."""
        return self._replace(legend=f"{self.legend} {words}".strip())

    def then(self, rest: str) -> "Query":
        """Return the query with more of the expression behind it, and the same legend."""
        return self._replace(expr=f"{self.expr} {rest}")

    def or_zero(self) -> "Query":
        """Return the query, 0 where there are no series."""
        return self.then("or on () vector(0)")

    def top(self, count: int) -> "Query":
        """Return the greatest of its series."""
        return self._replace(expr=f"topk({count}, {self.expr})")


def over(how: str, series: object, by: str = "") -> Query:
    """Return series taken together by some labels, which are its legend, or all of them; `how` is `sum`, `max`, ..."""
    unit = unit_of(str(series))
    if not by:
        return Query(f"{how}({series})", unit=unit)
    return Query(f"{how} by ({by}) ({series})", legend_of(*by.split(", ")), unit)


#: What the name of a metric has -> the unit of its values, and that of its rate.
_UNITS: Final = (("_seconds", "s", "ops"), ("_bytes", "bytes", "binBps"), ("request|quer", "short", "reqps"))


def unit_of(series: str) -> str:
    """Return the unit of a series, by the name of its metric, as Prometheus would have them named."""
    is_rate = series.startswith("rate(") and "_bucket{" not in series
    name = series.partition("{")[0]
    return next(
        ((unit, rate_unit)[is_rate] for part, unit, rate_unit in _UNITS if re.search(part, name)),
        "ops" if is_rate else "short",
    )


def legend_of(*labels: str) -> str:
    """Return the legend of series that are named by these labels."""
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def total(metric: str, selector: str = BY_PLANE, *, by: str = "") -> Query:
    """Return the sum of gauges, by some labels or over all."""
    return over("sum", f"{metric}{{{selector}}}", by)


def most(metric: str, selector: str = BY_PLANE, *, by: str) -> Query:
    """Return the greatest of gauges by some labels: where all instances count the same things, or one knows."""
    return over("max", f"{metric}{{{selector}}}", by)


def rate(metric: str, selector: str = BY_PLANE, *, by: str = "") -> Query:
    """Return the sum of per-second rates, by some labels or over all."""
    return over("sum" if by else "sum ", f"rate({metric}{{{selector}}}[{WINDOW}])", by)


def increase(metric: str, selector: str = BY_PLANE, *, by: str = "") -> Query:
    """Return by how much counters grew, summed by some labels or over all."""
    return over("sum" if by else "sum ", f"increase({metric}{{{selector}}}[{WINDOW}])", by)


def most_increase(metric: str, selector: str = BY_PLANE, *, by: str) -> Query:
    """Return by how much counters grew at most at any instance: all of them count the same things."""
    return over("max", f"increase({metric}{{{selector}}}[{WINDOW}])", by)


def quantile(share: float, histogram: str, selector: str = BY_PLANE, *, by: str = "", window: str = WINDOW) -> Query:
    """Return a quantile of a histogram, by some labels or over all.

    Nothing is shown where nothing was observed: a quantile of nothing is no number.
    """
    buckets = over("sum", f"rate({histogram}_bucket{{{selector}}}[{window}])", f"le, {by}" if by else "le")
    legend = legend_of(*by.split(", ")) if by else ""
    return Query(f"histogram_quantile({share}, {buckets}) >= 0", legend, unit_of(histogram))


def quantiles(
    histogram: str, selector: str = BY_PLANE, *shares: float, by: str = "", window: str = WINDOW
) -> tuple[Query, ...]:
    """Return quantiles of a histogram, each with its name behind the labels: `p50`, `p99.9`."""
    return tuple(
        quantile(share, histogram, selector, by=by, window=window).named(f"p{100 * share:g}") for share in shares
    )


def mean(histogram: str, selector: str = BY_PLANE, *, by: str = "") -> Query:
    """Return the mean of what a histogram observed; nothing where nothing was."""
    count = rate(f"{histogram}_count", selector, by=by)
    return rate(f"{histogram}_sum", selector, by=by).then(f"/ ({count} > 0)")._replace(unit=unit_of(histogram))


def age_at_scrape(metric: str, selector: str = BY_PLANE) -> str:
    """Return how old a timestamp was when it was scraped, in seconds.

    `time()` would add the age of the scrape itself, which is much more than the second between two heartbeats.
    """
    return f"timestamp({metric}{{{selector}}}) - {metric}{{{selector}}}"
