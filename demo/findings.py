"""Compares what was done with what the analyses have found: pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

#: A NameServer gives a silent broker up after 10 s, and looks each second; the brokers send heartbeats each second.
SILENCE: Final = (timedelta(seconds=9), timedelta(seconds=14))
#: Times of the script and of the servers are of one machine; what happens between a signal and its effect is in it.
ERROR: Final = timedelta(seconds=1.5)
#: A broker is back with its next heartbeat over a new connection.
BACK: Final = timedelta(seconds=35)
CLOSED_MS_MAX: Final = 2_500
BROKERS: Final = 7


class Finding(NamedTuple):
    """Whether an analysis has found an incident."""

    is_found: bool
    sentence: str


def findings(
    incidents: Sequence[Any], resized: Sequence[Any], left_alone: str, results: dict[str, Any]
) -> Iterator[Finding]:
    """Yield a finding for each incident and resize, and each analysis that has to know of it.

    `left_alone` is the topic with slow listeners, which nobody resized.
    """
    rows = {name: result["rows"] for name, result in results.items()}
    for incident in incidents:
        if incident.kind in ("killed", "frozen"):
            yield _failover(incident, rows["failover_timeline"])
        elif incident.kind == "cut":
            yield _divergence(incident, rows["divergence"])
        elif incident.kind == "all restarted":
            yield _storm(incident, rows["restart_storms"])
    for each in resized:
        yield _resize(each, rows["resizes"])
    yield _left_alone(left_alone, rows["resizes"])
    yield from _delays(rows["detection_delay"])
    yield _churn(rows["route_churn"])
    yield _flapping(rows["flapping"], sum(each.kind == "flapped" for each in incidents))


def _failover(incident: Any, rows: list[dict[str, Any]]) -> Finding:
    mine = [row for row in rows if row["kind"] == "failover" and row["broker_name"] == incident.broker]
    times = [_time(row["elected"]) for row in mine if row["elected"] is not None]
    near = [each for each in times if incident.began - ERROR <= each <= incident.ended + ERROR]
    late = f"{(near[0] - incident.began).total_seconds():.2f} s after" if near else "no election near"
    return Finding(bool(near), f"A10: {incident.broker} was {incident.kind} at {incident.began:%H:%M:%S}; {late}")


def _divergence(incident: Any, rows: list[dict[str, Any]]) -> Finding:
    mine = [row for row in rows if row["broker_name"] == incident.broker and row["kind"] == "presence"]
    for row in mine:
        start, end = _time(row["start_time"]), _time(row["end_time"])
        begins = SILENCE[0] - ERROR <= start - incident.began <= SILENCE[1] + ERROR
        if begins and incident.ended - ERROR <= end <= incident.ended + BACK:
            differed = f"NameServers differed from {start:%H:%M:%S} to {end:%H:%M:%S}"
            return Finding(True, f"A6: {incident.broker} was cut off at {incident.began:%H:%M:%S}; {differed}")
    return Finding(False, f"A6: {incident.broker} was cut off at {incident.began:%H:%M:%S}; {mine}")


def _storm(incident: Any, rows: list[dict[str, Any]]) -> Finding:
    near = [
        row
        for row in rows
        if row["cause"] == "brokers"
        and _time(row["start"]) <= incident.ended + ERROR
        and _time(row["end"]) >= incident.began - ERROR
    ]
    brokers = max((row["brokers"] for row in near), default=0)
    return Finding(
        brokers == BROKERS, f"A11: all were restarted at {incident.began:%H:%M:%S}; {brokers} registered anew"
    )


def _resize(resized: Any, rows: list[dict[str, Any]]) -> Finding:
    """Compare a resize with its row, and say what it did to rate and lag."""
    mine = [row for row in rows if row["operation_id"] == resized.operation_id]
    row = next((row for row in mine if row["kind"] == "operation"), None)
    if row is None:
        return Finding(False, f"A15: {resized.topic} was resized by {resized.by}; no resize is known")
    is_found = row["result"] == "done" and row["requested_by"] == resized.by
    lags = [
        f"{group['group']} had {_window(group, 'lag_max')} messages left at most"
        for group in mine
        if group["kind"] == "group"
    ]
    did = f"{row['write_from']} to {row['write_to']} queues by {row['requested_by']}"
    ended = f"{row['result']} in {row['seconds']:.0f} s"
    longest = f"longest in {row['longest_phase']} ({row['longest_s']:.0f} s)"
    rates = f"{_window(row, 'tps')} messages/s"
    return Finding(
        is_found, f"A15: {resized.topic} {did}, {ended}, {longest}; {'; '.join([rates, *lags])} before, during, after"
    )


def _window(row: dict[str, Any], name: str) -> str:
    """Return the values before, during and after a resize; what was not sampled is unknown."""
    values = [row[f"{name}_{window}"] for window in ("before", "during", "after")]
    return " / ".join("unknown" if each is None else f"{each:.0f}" for each in values)


def _left_alone(topic: str, rows: list[dict[str, Any]]) -> Finding:
    mine = [row for row in rows if row["topic"] == topic]
    resizes = sum(row["kind"] == "operation" for row in mine)
    verdicts = {row["verdict"] for row in mine if row["finding"] == "slow_listener"}
    shown = ", ".join(sorted(verdicts)) or "not found"
    return Finding(
        verdicts == {"kept"} and resizes == 0, f"A15: {topic} has slow listeners: {shown}, {resizes} resizes"
    )


def _delays(rows: list[dict[str, Any]]) -> Iterator[Finding]:
    of = {row["reason"]: row for row in rows if row["source"] == "namesrv"}
    expired, closed = of.get("expired"), of.get("channel_closed")
    in_time = expired is not None and SILENCE[0] <= timedelta(milliseconds=expired["p50_ms"]) <= SILENCE[1]
    yield Finding(
        in_time, f"A4: silent brokers were given up after {expired and expired['p50_ms']} ms, 10 s are allowed"
    )
    at_once = closed is not None and closed["p95_ms"] <= CLOSED_MS_MAX
    yield Finding(at_once, f"A4: killed brokers were gone {closed and closed['p95_ms']} ms after their last heartbeat")


def _churn(rows: list[dict[str, Any]]) -> Finding:
    top = max(rows, key=lambda row: row["flips"] or 0, default=None)
    return Finding(
        top is not None and top["topic"] == "churning", f"A7: the topic that flips most is {top and top['topic']}"
    )


def _flapping(rows: list[dict[str, Any]], flaps: int) -> Finding:
    top = max(rows, key=lambda row: row["peak"] or 0, default=None)
    is_found = top is not None and top["broker_name"] == "flappy" and top["transitions"] >= flaps
    return Finding(is_found, f"A3: flaps most: {top and top['broker_name']}, {top and top['transitions']} times down")


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
