"""A11 restart storms: when many brokers registered at once."""

from collections import defaultdict
from typing import Any

from plain.spans import Span
from plain.uptime import HAVE, TIMEOUT_US, Key, Piece, key_of, pieces
from plain.watching import Row, Rows, boots

Answer = dict[str, Any]

#: Registrations that are not farther apart than this belong together.
PAUSE_US = 60_000_000
#: So many brokers, and this share of those of the cluster, are a storm.
BROKERS_LEAST = 5
SHARE_LEAST = 0.1


def restart_storms(rows: Rows, window: Span) -> list[Answer]:
    """A11: one row for each storm; those of brokers and those of a NameServer by themselves."""
    # That a controller heard a broker does not tell whether it was restarted meanwhile.
    reported = pieces({**rows, "heartbeat_summary": [], "controller": []}, window[1])
    started = {
        boot.boot_id: boot.start_us for ns in {row["ns_id"] for row in rows["ns_tick"]} for boot in boots(rows, ns)
    }
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows["broker_state"]:
        if row["event_type"] == "registered_first" and window[0] <= row["event_time"] < window[1]:
            groups[row["cluster"], _cause(row, reported, started)].append(row)
    sessions = [(cluster, cause, each) for (cluster, cause), own in groups.items() for each in _sessions(own)]
    found = [_answer(cluster, cause, session, rows) for cluster, cause, session in sessions]
    return [each for each in found if each["brokers"] >= max(BROKERS_LEAST, SHARE_LEAST * each["known"])]


def _cause(row: Row, reported: dict[Key, list[Piece]], started: dict[str, int]) -> str:
    """Tell whether a broker was started, or its NameServer: then it knew nobody, or another one had it all the time."""
    at_us = row["event_time"]
    if at_us - started.get(row["boot_id"], 0) < TIMEOUT_US:
        return "namesrv"
    others = [piece for piece in reported[key_of(row)] if piece.ns_id != row["ns_id"] and piece.state == HAVE]
    same = [piece for piece in others if piece.address == row["broker_addr"]]
    had = any(piece.from_us < at_us - PAUSE_US and at_us < piece.to_us for piece in same)
    return "namesrv" if had else "brokers"


def _sessions(rows: list[Row]) -> list[list[Row]]:
    found: list[list[Row]] = []
    for row in sorted(rows, key=lambda each: each["event_time"]):
        if found and row["event_time"] - found[-1][-1]["event_time"] < PAUSE_US:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _answer(cluster: str, cause: str, session: list[Row], rows: Rows) -> Answer:
    start_us, end_us = session[0]["event_time"], session[-1]["event_time"]
    brokers = _brokers(session)
    before = [row for row in rows["broker_state"] if row["cluster"] == cluster and row["event_time"] <= end_us]
    ids = {key_of(row) for row in before if row.get("broker_id") is not None and row["broker_id"] >= 0}
    known = max(len(ids), brokers)
    return {
        "cluster": cluster,
        "cause": cause,
        "start": start_us,
        "end": end_us,
        "seconds": (end_us - start_us) / 1e6,
        "brokers": brokers,
        "registrations": len(session),
        "known": known,
        "share": brokers / known,
        "namesrvs": sorted({row["ns_id"] for row in session}),
    }


def _brokers(session: list[Row]) -> int:
    """Count brokers by their addresses: the id of one changes with its role, and is negative before it has one."""
    return len({(row["broker_name"], row["broker_addr"] or row["broker_id"]) for row in session})
