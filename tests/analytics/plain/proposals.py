"""A8 and A9: what must hold of any proposal of queues, whatever it is that is proposed."""

import re
from collections import defaultdict
from typing import Any

from plain.queue_balance import Queues, Routes, routes_at
from plain.spans import Span
from plain.watching import Rows

Answer = dict[str, Any]


def faults(rows: Rows, window: Span, reported: list[Answer]) -> list[str]:
    """Return what is wrong with proposals, a sentence each."""
    routes, _ = routes_at(rows, window[1])
    proposals = [row for row in reported if row["kind"] == "proposal"]
    found = []
    for cluster in {row["cluster"] for row in proposals}:
        positions = sorted(row["position"] for row in proposals if row["cluster"] == cluster)
        if positions != list(range(1, len(positions) + 1)):
            found.append(f"positions in {cluster} are {positions}")
    for row in proposals:
        name = f"{row['topic']} on {row['broker_name']}"
        found += [f"{name}: {fault}" for fault in _faults(row, routes)]
    found += [f"{row['topic']}: {fault}" for row in reported if "verdict" in row for fault in _verdict(row)]
    return found + _totals(reported, proposals)


def _verdict(row: Answer) -> list[str]:
    """Return what is wrong with what A9 says of a topic."""
    if row["kind"] != "topic":
        return []
    more = row["queues_proposed"] - row["queues_now"]
    right = {"grow": more > 0, "shrink": more < 0 and row["lag"] == 0, "keep": more == 0, "wait": more == 0}
    decided = row["verdict"] in ("grow", "shrink")
    faulty = {
        f"{row['verdict']} from {row['queues_now']} to {row['queues_proposed']}": not right[row["verdict"]],
        f"{row['verdict']} after {row['days_differing']} days": decided and row["days_differing"] < 3,
        f"{row['days_differing']} days of {row['days']}": row["days_differing"] > row["days"],
    }
    return [fault for fault, is_so in faulty.items() if is_so]


def _faults(row: Answer, routes: Routes) -> list[str]:
    now = routes.get(row["broker_name"], {}).get(row["topic"], Queues(0, 0, 0))
    steps, wanted = row["steps"], (row["read_proposed"], row["write_proposed"])
    counts = [_counts(step) for step in steps if "read=" in step]
    faulty = {
        f"it has {now}, told are {row['read_now']} and {row['write_now']}": (
            row["read_now"] or 0,
            row["write_now"] or 0,
        )
        != (now.read, now.write),
        "it expects nothing": not steps[0].startswith("expect"),
        f"it is void at once: {now}": now.read > 0 and _counts(steps[0]) != (now.read, now.write),
        f"proposed are {wanted}": counts[-1] != wanted,
        "more queues are written than read": any(read < write for read, write in counts),
        "queues are not read any more before they are drained": wanted[0] < now.read and not _drains(steps, now),
        f"confidence {row['confidence']}": not 0 <= row["confidence"] <= 1,
        f"{len(row['commands'])} commands": len(row["commands"]) != len(steps),
    }
    return [f"{fault}: {steps}" for fault, is_so in faulty.items() if is_so]


def _drains(steps: list[str], now: Queues) -> bool:
    """Tell whether all queues of now are still read when they are drained."""
    return "drain" in steps and _counts(steps[steps.index("drain") - 1])[0] == now.read


def _counts(step: str) -> tuple[int, int]:
    read, write = re.search(r"read=(\d+)", step), re.search(r"write=(\d+)", step)
    return int(read[1]) if read else 0, int(write[1]) if write else 0


def _totals(reported: list[Answer], proposals: list[Answer]) -> list[str]:
    """Return topics whose proposals do not make what is told of the topic, or bring more queues where none are told."""
    more: dict[tuple[str, str], int] = defaultdict(int)
    for row in proposals:
        more[row["cluster"], row["topic"]] += row["write_proposed"] - (row["write_now"] or 0)
    scaled = {
        (row["cluster"], row["topic"]): row for row in reported if "queues_proposed" in row and row["kind"] == "topic"
    }
    found = []
    for place, count in more.items():
        wanted = scaled[place]["queues_proposed"] - scaled[place]["queues_now"] if place in scaled else 0
        if count != wanted:
            found.append(f"{place}: proposals bring {count} queues more, wanted are {wanted}")
    return found
