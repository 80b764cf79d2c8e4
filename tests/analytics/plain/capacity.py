"""A12 capacity: what servers use, how fast that grows, and how long it lasts."""

from collections import defaultdict
from itertools import combinations
from math import floor
from statistics import median
from typing import Any

from plain.spans import Span
from plain.watching import Rows

Answer = dict[str, Any]

RESOURCES = ("brokers", "topics", "queues", "resident_memory_bytes", "connections", "etcd_db_bytes")
#: Where resources end by default.
LIMITS = {"resident_memory_bytes": 1 << 30, "connections": 16_384, "etcd_db_bytes": 2 << 30}
DAY_US = 86_400_000_000
#: A trend needs so many days.
DAYS_LEAST = 4
#: A day of a server counts if it has so much of the ticks of the fullest one.
WATCHED_LEAST = 0.5


def capacity(rows: Rows, window: Span) -> list[Answer]:
    """A12: one row for each resource of NameServers and of controllers, of days that are whole."""
    used: dict[tuple[str, str], dict[int, dict[str, list[int]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in rows["ns_tick"]:
        for resource in RESOURCES:
            if resource in row and window[0] <= row["event_time"] < window[1]:
                used[row["source"], resource][row["event_time"] // DAY_US][row["ns_id"]].append(row[resource])
    return [_answer(source, resource, days) for (source, resource), days in used.items()]


def _answer(source: str, resource: str, days: dict[int, dict[str, list[int]]]) -> Answer:
    fullest = max(len(values) for servers in days.values() for values in servers.values())
    whole = {
        day: [_but_for_its_busiest(values) for values in servers.values() if len(values) >= WATCHED_LEAST * fullest]
        for day, servers in sorted(days.items())
    }
    by_day = {day: max(medians) for day, medians in whole.items() if medians}
    now = by_day[max(by_day)]
    slope = None
    if len(by_day) >= DAYS_LEAST:
        slope = median((by_day[b] - by_day[a]) / (b - a) for a, b in combinations(by_day, 2))
    return {
        "source": source,
        "resource": resource,
        "days": len(by_day),
        "now": now,
        "slope_day": slope,
        "in_30d": None if slope is None else now + 30 * slope,
        "limit": LIMITS.get(resource),
        "history_days": sorted(by_day),
        "history": [floor(by_day[day] + 0.5) for day in sorted(by_day)],
    }


def _but_for_its_busiest(values: list[int]) -> float:
    """Return what 95 % of the ticks did not exceed, in proportion between two of them."""
    ordered = sorted(values)
    place = 0.95 * (len(ordered) - 1)
    low = floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def faults(reported: list[Answer]) -> list[str]:
    """A12: return what is wrong with forecasts, a sentence each."""
    found = []
    for row in reported:
        name = f"{row['source']} {row['resource']}"
        if row["slope_day"] is None:
            continue
        if not row["slope_p10"] <= row["slope_day"] <= row["slope_p90"]:
            found.append(f"{name}: slope {row['slope_day']} is outside {row['slope_p10']} to {row['slope_p90']}")
        if not row["p10"] <= row["in_30d"] <= row["p90"]:
            found.append(f"{name}: {row['in_30d']} is outside {row['p10']} to {row['p90']}")
        grows = row["limit"] is not None and row["slope_p10"] > 0
        days = (row["limit"] - row["now"]) / row["slope_day"] if grows else None
        if (row["days_left"] is None) != (days is None) or (days is not None and abs(days - row["days_left"]) > 1):
            found.append(f"{name}: {row['days_left']} days left, by its own figures {days}")
    return found
