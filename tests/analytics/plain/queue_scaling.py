"""A9 queue scaling, what it is decided by: how busy a topic is, and how many queues it has."""

from collections import defaultdict
from typing import Any

from plain.detection_delay import between
from plain.queue_balance import WRITABLE, routes_at
from plain.spans import Span
from plain.watching import Row, Rows

Answer = dict[str, Any]

DAY_US = 86_400_000_000
MINUTE_US = 60_000_000
#: So many of the newest days are looked at, each with at least so many sampled minutes.
DAYS = 7
SAMPLED_MINUTES = 720


def queue_scaling(rows: Rows, window: Span) -> list[Answer]:
    """A9: one row for each topic of which at least one day was sampled, without verdicts and proposals."""
    routes, clusters = routes_at(rows, window[1])
    samples: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows["offset_sample"]:
        if window[1] - DAYS * DAY_US <= row["event_time"] < window[1]:
            samples[row["cluster"], row["topic"]][row["event_time"] // DAY_US].append(row)
    found = []
    for (cluster, topic), days in samples.items():
        writes = [
            table[topic].write
            for name, table in routes.items()
            if clusters[name] == cluster and topic in table and table[topic].perm & WRITABLE
        ]
        sampled = {day: reported for day, reported in days.items() if _minutes(reported) >= SAMPLED_MINUTES}
        if sampled and writes:
            found.append(_answer(cluster, topic, writes, sampled))
    return found


def _minutes(reported: list[Row]) -> int:
    return len({row["event_time"] // MINUTE_US for row in reported})


def _answer(cluster: str, topic: str, writes: list[int], days: dict[int, list[Row]]) -> Answer:
    rates = [
        sorted(row["tps"] for row in reported if "group" not in row and "tps" in row) for reported in days.values()
    ]
    members = [row["consumers"] for reported in days.values() for row in reported if "group" in row]
    return {
        "cluster": cluster,
        "topic": topic,
        "sets": len(writes),
        "queues_now": sum(writes),
        "days": len(days),
        "p95_tps": (max(between(each, 0.95)[0] for each in rates), max(between(each, 0.95)[1] for each in rates)),
        "consumers": max(members, default=None),
        "lag": _lag(days[max(days)]),
    }


def _lag(reported: list[Row]) -> int | None:
    """Return what the group that is farthest behind had left at the end of a day."""
    last = {row["group"]: row["max_offset"] - row["consumer_offset"] for row in reported if "group" in row}
    return max(last.values(), default=None)
