"""Pieces of PromQL that boards share. Only what Prometheus 2.42 knows."""

from typing import Final

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


def rate(metric: str, selector: str = BY_PLANE, *, by: str = "", window: str = WINDOW) -> str:
    """Return the sum of per-second rates, by some labels or over all."""
    return f"{_sum(by)} (rate({metric}{_braces(selector)}[{window}]))"


def increase(metric: str, selector: str = BY_PLANE, *, by: str = "", window: str = WINDOW) -> str:
    """Return by how much counters grew, summed by some labels or over all."""
    return f"{_sum(by)} (increase({metric}{_braces(selector)}[{window}]))"


def most_increase(metric: str, selector: str = BY_PLANE, *, by: str, window: str = WINDOW) -> str:
    """Return by how much counters grew at most at any instance: all of them count the same things."""
    return f"max by ({by}) (increase({metric}{_braces(selector)}[{window}]))"


def quantile(share: float, histogram: str, selector: str = BY_PLANE, *, by: str = "", window: str = WINDOW) -> str:
    """Return a quantile of a histogram, by some labels or over all.

    Nothing is shown where nothing was observed: a quantile of nothing is no number.
    """
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) (rate({histogram}_bucket{_braces(selector)}[{window}]))"
    return f"histogram_quantile({share}, {buckets}) >= 0"


def mean(histogram: str, selector: str = BY_PLANE, *, by: str = "", window: str = WINDOW) -> str:
    """Return the mean of what a histogram observed; nothing where nothing was."""
    total = rate(f"{histogram}_sum", selector, by=by, window=window)
    count = rate(f"{histogram}_count", selector, by=by, window=window)
    return f"{total} / ({count} > 0)"


def age_at_scrape(metric: str, selector: str = BY_PLANE) -> str:
    """Return how old a timestamp was when it was scraped, in seconds.

    `time()` would add the age of the scrape itself, which is much more than the second between two heartbeats.
    """
    return f"timestamp({metric}{_braces(selector)}) - {metric}{_braces(selector)}"


def buckets(histogram: str, selector: str = BY_PLANE) -> str:
    """Return how fast each bucket of a histogram grows, for a heatmap."""
    return f"sum by (le) (increase({histogram}_bucket{_braces(selector)}[{WINDOW}]))"


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"


def _braces(selector: str) -> str:
    return f"{{{selector}}}" if selector else ""
