"""A15 resizes: what became of operations, and what was sampled before, during and after them."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from plain.spans import Span
from plain.watching import Row, Rows

Answer = dict[str, Any]

#: So long before and after an operation counts.
AROUND_US = 30 * 60_000_000
MINUTE_US = 60_000_000
ENDS = {"verified": "done", "rolled_back": "aborted", "rejected": "rejected"}


def resizes(rows: Rows, window: Span) -> list[Answer]:
    """A15: operations with their phases and groups, and decisions of the autoscaler."""
    operations: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in _within(rows["scaling"], window):
        for cluster in set(row["set_clusters"]):
            operations[cluster, row["operation_id"]].append(row)
    found: list[Answer] = []
    for (cluster, _), events in operations.items():
        events.sort(key=lambda row: row["event_time"])
        samples = [
            row
            for row in _within(rows["offset_sample"], window)
            if row["topic"] == events[0]["topic"] and row["cluster"] == cluster
        ]
        found += _told(cluster, events, samples, window[1])
    return found + _decisions(_within(rows["scaling_decision"], window))


def _within(rows: Iterable[Row], window: Span) -> list[Row]:
    return [row for row in rows if window[0] <= row["event_time"] < window[1]]


def _told(cluster: str, events: list[Row], samples: list[Row], end_us: int) -> list[Answer]:
    first, last = events[0], events[-1]
    ended_us = last["event_time"] if last["event_type"] in ENDS else None
    who = {"cluster": cluster, "operation_id": first["operation_id"], "topic": first["topic"]}
    about = {"resize": first["kind"], "result": ENDS.get(last["event_type"], "running")}
    stays = [
        (row["former_step"], row["duration_ms"] / 1e3, row["event_time"], row.get("evidence"))
        for row in events
        if "former_step" in row
    ]
    if ended_us is None:
        problem = [last["problem"]] if "problem" in last else None
        stays.append((last["step"], (end_us - last["event_time"]) / 1e6, end_us, problem))
    windows = _windows(first["created_time"], ended_us, end_us)
    minutes = {name: _minutes(samples, span) for name, span in windows.items()}
    operation = who | about | _operation(cluster, events, ended_us, end_us) | _longest(stays) | _rates(minutes)
    queues = operation["write_to" if about["result"] == "done" else "write_from"]
    operation["queue_tps_before"] = _each(operation["tps_before"], operation["write_from"])
    operation["queue_tps_after"] = _each(operation["tps_after"], queues)
    return [operation, *(who | about | each for each in _phases(stays)), *_groups(who | about, minutes)]


def _operation(cluster: str, events: list[Row], ended_us: int | None, end_us: int) -> Answer:
    first, last = events[0], events[-1]
    mine = [number for number, name in enumerate(first["set_clusters"]) if name == cluster]
    until_us = end_us if ended_us is None else ended_us
    return {
        "kind": "operation",
        "phase": last["step"],
        "requested_by": last.get("requested_by"),
        "problem": last.get("problem"),
        "sets": len(mine),
        "write_from": sum(first["set_writes"][number] for number in mine),
        "write_to": sum(first["set_targets"][number] for number in mine),
        "created": first["created_time"],
        "ended": ended_us,
        "seconds": (until_us - first["created_time"]) / 1e6,
        "reopened": max(row["reopened"] for row in events),
    }


def _longest(stays: list[tuple[str, float, int, Any]]) -> Answer:
    phase, seconds, _, evidence = max(stays, key=lambda stay: (stay[1], stay[2]), default=(None, None, None, None))
    return {"longest_phase": phase, "longest_s": seconds, "evidence": evidence}


def _phases(stays: list[tuple[str, float, int, Any]]) -> list[Answer]:
    spent: dict[str, list[float]] = defaultdict(list)
    for phase, seconds, _, _ in stays:
        spent[phase].append(seconds)
    return [
        {"kind": "phase", "phase": phase, "entries": len(each), "seconds": sum(each)} for phase, each in spent.items()
    ]


def _windows(created_us: int, ended_us: int | None, end_us: int) -> dict[str, Span]:
    found = {
        "before": (created_us - AROUND_US, created_us),
        "during": (created_us, end_us if ended_us is None else ended_us),
        "after": (end_us, end_us),
    }
    return found if ended_us is None else found | {"after": (ended_us, ended_us + AROUND_US)}


def _minutes(samples: list[Row], span: Span) -> dict[str | None, dict[int, list[Row]]]:
    """Return the samples of each minute that count, by group: a minute is where its last sample is."""
    by_minute: dict[tuple[str | None, int], list[Row]] = defaultdict(list)
    for row in samples:
        by_minute[row.get("group"), row["event_time"] // MINUTE_US].append(row)
    found: dict[str | None, dict[int, list[Row]]] = defaultdict(dict)
    for (group, minute), own in by_minute.items():
        if span[0] <= max(row["event_time"] for row in own) < span[1]:
            found[group][minute] = own
    return found


def _rates(windows: dict[str, dict[str | None, dict[int, list[Row]]]]) -> Answer:
    found: Answer = {}
    for name, groups in windows.items():
        rates = {}
        for minute in {minute for each in groups.values() for minute in each}:
            own = [row["tps"] for row in groups.get(None, {}).get(minute, ()) if "tps" in row]
            every = [row["tps"] for each in groups.values() for row in each.get(minute, ()) if "tps" in row]
            rates[minute] = max(own or every, default=None)
        known = [rate for rate in rates.values() if rate is not None]
        found |= {f"samples_{name}": len(known), f"tps_{name}": fmean(known) if known else None}
    return found


def _groups(who: Answer, windows: dict[str, dict[str | None, dict[int, list[Row]]]]) -> list[Answer]:
    names = {group for groups in windows.values() for group in groups if group is not None}
    found = []
    for group in names:
        answer = who | {"kind": "group", "group": group}
        for window, groups in windows.items():
            minutes = groups.get(group, {}).values()
            lags = [
                lag
                for own in minutes
                if (lag := max((_lag(row) for row in own if _has_lag(row)), default=None)) is not None
            ]
            members = [row["consumers"] for own in minutes for row in own if "consumers" in row]
            answer |= {
                f"lag_{window}": fmean(lags) if lags else None,
                f"lag_max_{window}": max(lags, default=None),
                f"consumers_{window}": max(members, default=None),
            }
        found.append(answer)
    return found


def _has_lag(row: Row) -> bool:
    return "max_offset" in row and "consumer_offset" in row


def _lag(row: Row) -> int:
    return max(row["max_offset"] - row["consumer_offset"], 0)


def _each(tps: float | None, queues: int) -> float | None:
    return tps / queues if tps is not None and queues else None


def _decisions(rows: list[Row]) -> list[Answer]:
    times: dict[tuple[str, str, str | None], list[int]] = defaultdict(list)
    for row in rows:
        times[row["topic"], row["event_type"], row.get("finding")].append(row["event_time"])
    return [
        {
            "cluster": None,
            "kind": "decision",
            "topic": topic,
            "verdict": verdict,
            "finding": finding,
            "decisions": len(each),
            "first": min(each),
            "last": max(each),
        }
        for (topic, verdict, finding), each in times.items()
    ]
