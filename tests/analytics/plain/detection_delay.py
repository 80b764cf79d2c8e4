"""A4 detection delay: from the last sign of life of a broker to a server until this server gave it up.

Where its connection ended, that was the last sign: a process that dies, or leaves, ends it then and not before. A
controller asks the broker first, and tells how long that took.
"""

from collections import defaultdict
from math import ceil, floor
from typing import Any

from plain.spans import Span
from plain.uptime import IDLE_MS, ended_by_timeout
from plain.watching import Rows

Answer = dict[str, Any]

#: What servers tell when they give a broker up.
GIVEN_UP = frozenset({"expired", "channel_closed", "failure_detected"})
#: What a controller says of a broker that it gave up for its silence.
TIMED = frozenset({"expired", "timeout", "idle"})


def detection_delay(rows: Rows, window: Span) -> list[Answer]:
    """A4: one row for each cluster, kind of server, reason and timeout."""
    delays: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in [*rows["broker_state"], *rows["controller"]]:
        if row["event_type"] in GIVEN_UP and window[0] <= row["event_time"] < window[1]:
            reason = row.get("cause") if row["source"] == "controller" else row["event_type"]
            closed = reason == "channel_closed" and not ended_by_timeout(row)
            if reason == "channel_closed" and not closed:
                reason = "idle"
            place = (row["cluster"], row["source"], reason, row.get("timeout_ms"))
            delays[place].append(row.get("duration_ms", 0) if closed else row["silent_ms"])
    return [_answer(*place, sorted(found)) for place, found in delays.items()]


def _answer(cluster: str, source: str, reason: str, timeout_ms: int | None, delays: list[int]) -> Answer:
    expected = None
    if reason in TIMED and timeout_ms is not None:
        expected = min(timeout_ms, IDLE_MS) if reason == "idle" else timeout_ms
    return {
        "cluster": cluster,
        "source": source,
        "reason": reason,
        "timeout_ms": timeout_ms,
        "n": len(delays),
        "p50_ms": between(delays, 0.5),
        "p95_ms": between(delays, 0.95),
        "max_ms": delays[-1],
        "mean_ms": sum(delays) / len(delays),
        "expected_ms": expected,
    }


def between(ordered: list[Any], share: float) -> tuple[Any, Any]:
    """Return the two values between which a quantile lies, whichever way it is worked out."""
    place = share * (len(ordered) - 1)
    return ordered[floor(place)], ordered[ceil(place)]
