"""A13 anomalies: ten minutes in which a broker was unlike itself at this hour of other weeks."""

from collections import defaultdict
from statistics import mean, median
from typing import Any

from plain.spans import Span
from plain.uptime import Key, key_of
from plain.watching import Rows

Answer = dict[str, Any]

WINDOW_US = 600_000_000
HOUR_US = 3_600_000_000
WEEK_HOURS = 168
#: So many deviations are unlike itself, in so many windows in a row.
FAR = 6.0
WINDOWS_LEAST = 2
#: The deviation of a normal distribution in medians of distances.
NORMAL = 0.6745
#: A broker that is very regular may be off by this share of its median.
FLOOR = 0.005

Values = dict[tuple[Key, str], dict[int, float]]


def values(rows: Rows) -> Values:
    """Return what each broker did in each ten minutes, as all NameServers saw it together."""
    intervals: dict[Key, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    changes: dict[Key, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows["heartbeat"]:
        if row["event_type"] == "heartbeat" and "interval_ms" in row and row["source"] == "namesrv":
            intervals[key_of(row)][row["event_time"] // WINDOW_US].append(row["interval_ms"])
    for row in rows["broker_state"]:
        counted = sum(row.get(f"topics_{what}", 0) for what in ("added", "removed", "changed"))
        if counted and row["event_type"] == "changed":
            changes[key_of(row)][row["event_time"] // WINDOW_US] += counted
    found: Values = {}
    for key, reported in intervals.items():
        found[key, "interval_mean_ms"] = {at: mean(each) for at, each in reported.items()}
        found[key, "interval_max_ms"] = {at: float(max(each)) for at, each in reported.items()}
    for key, counts in changes.items():
        found[key, "topic_changes"] = dict(counts)
    return found


def baseline(of_metric: dict[int, float], at: int) -> tuple[float, float]:
    """Return the median at this hour of the week, and how far values are from it, half of them."""
    alike = [value for other, value in of_metric.items() if _hour(other) == _hour(at)]
    middle = median(alike)
    return middle, median(abs(value - middle) for value in alike)


def _hour(at: int) -> int:
    return at * WINDOW_US // HOUR_US % WEEK_HOURS


def anomalies(rows: Rows, window: Span) -> list[Answer]:
    """A13: one row for each run of windows that are far off."""
    found = []
    for (key, metric), of_metric in values(rows).items():
        far: dict[int, float] = {}
        for at in of_metric:
            middle, spread = baseline(of_metric, at)
            z = NORMAL * (of_metric[at] - middle) / max(spread, FLOOR * middle, 1e-9)
            if abs(z) > FAR and window[0] <= at * WINDOW_US < window[1]:
                far[at] = z
        for run in _runs(sorted(far)):
            if len(run) >= WINDOWS_LEAST:
                worst = max(run, key=lambda at: abs(far[at]))
                found.append(
                    {
                        **key._asdict(),
                        "metric": metric,
                        "start": run[0] * WINDOW_US,
                        "end": (run[-1] + 1) * WINDOW_US,
                        "windows": len(run),
                        "value": of_metric[worst],
                        "baseline": baseline(of_metric, worst)[0],
                    }
                )
    return found


def _runs(numbers: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return found
