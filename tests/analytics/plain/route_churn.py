"""A7 route churn: which topics are altered again and again."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from plain.spans import Span
from plain.uptime import TIMEOUT_US
from plain.watching import Row, Rows, number

Answer = dict[str, Any]

HOUR_US = 3_600_000_000
KINDS = ("added", "removed", "queues", "perm")


def route_churn(rows: Rows, window: Span) -> list[Answer]:
    """A7: one row for each topic of a cluster that changed in the window, as the NameServer saw it that saw most."""
    by_place: dict[tuple[str, str | None, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in _changes(rows):
        if window[0] <= row["event_time"] < window[1]:
            by_place[row["cluster"], row.get("topic"), row["broker_name"]][row["ns_id"]].append(row)
    by_topic: dict[tuple[str, str | None], list[list[Row]]] = defaultdict(list)
    for (cluster, topic, _), seen in by_place.items():
        most = max(seen, key=lambda ns_id: (len(seen[ns_id]), ns_id))
        by_topic[cluster, topic].append(seen[most])
    return [_answer(cluster, topic, sets) for (cluster, topic), sets in by_topic.items()]


def _changes(rows: Rows) -> list[Row]:
    """Return changes; what a NameServer that has just started learns of a set at first is none."""
    started = {row["boot_id"]: row["event_time"] for row in rows["ns_lifecycle"] if row["event_type"] == "started"}
    learned: dict[tuple[str, str | None], str | None] = {}
    found = []
    for row in sorted(rows["route_change"], key=number):
        if row["event_type"] != "topic_changed":
            continue
        cause = row.get("cause_event_id")
        is_first = learned.setdefault((row["boot_id"], row.get("broker_name")), cause) == cause
        is_new = row["event_time"] - started.get(row["boot_id"], 0) <= TIMEOUT_US
        if not (is_first and is_new and row["kind"] == "added"):
            found.append(row)
    return found


def _answer(cluster: str, topic: str | None, sets: list[list[Row]]) -> Answer:
    changes = [row for of_set in sets for row in of_set]
    kinds = Counter(row["kind"] if row["kind"] in KINDS else "other" for row in changes)
    hours = Counter(row["event_time"] // HOUR_US * HOUR_US for row in changes)
    busiest_hour = min(hours, key=lambda hour: (-hours[hour], hour))
    return {
        "cluster": cluster,
        "topic": topic,
        "changes": len(changes),
        "flips": sum(_flips(of_set) for of_set in sets),
        **{kind: kinds[kind] for kind in (*KINDS, "other")},
        "brokers": len(sets),
        "busiest_hour": busiest_hour,
        "busiest_hour_changes": hours[busiest_hour],
    }


def _flips(changes: list[Row]) -> int:
    """Count changes back to what was before the last one, within an hour of it."""
    return sum(
        _as_is(after, "new") == _as_is(before, "old") and after["event_time"] - before["event_time"] <= HOUR_US
        for before, after in pairwise(changes)
    )


def _as_is(row: Row, when: str) -> tuple[Any, ...]:
    return tuple(row.get(f"{when}_{what}") for what in ("read", "write", "perm"))
