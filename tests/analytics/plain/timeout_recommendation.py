"""A5 best timeout: what must hold of any recommendation, as the choice itself weighs costs that no definition names."""

from collections import Counter
from math import log
from typing import Any

from plain.spans import Span
from plain.uptime import Key, key_of
from plain.watching import Rows

Answer = dict[str, Any]

GRID_S = (3, 180)
PERIODS_LEAST = 3
LOOK_MS = 100
REMOVALS = ("expired", "channel_closed")


def timeouts_in_force(rows: Rows, window: Span) -> dict[Key, float]:
    """Return the timeout that NameServers gave each broker last, seconds."""
    found: dict[Key, tuple[int, float]] = {}
    for row in [*rows["heartbeat"], *rows["heartbeat_summary"]]:
        if row["source"] == "namesrv" and window[0] <= row["event_time"] < window[1]:
            key = key_of(row)
            found[key] = max(found.get(key, (0, 0.0)), (row["event_time"], row["timeout_ms"] / 1000))
    return {key: timeout_s for key, (_, timeout_s) in found.items()}


def faults(rows: Rows, window: Span, reported: list[Answer]) -> list[str]:
    """A5: return what is wrong with recommendations, a sentence each."""
    in_force = timeouts_in_force(rows, window)
    removals = Counter(key_of(row) for row in rows["broker_state"] if row["event_type"] in REMOVALS)
    # A server may look a tenth of a second after the deadline: it has not noticed these.
    nearly = {key_of(row) for row in rows["heartbeat"] if 0 < row.get("interval_ms", 0) - row["timeout_ms"] <= LOOK_MS}
    rows_of = {Key(row["cluster"], row["broker_name"], row["broker_id"]): row for row in reported}
    found = [f"{key} has no row" for key in in_force.keys() - rows_of.keys()]
    for key, row in rows_of.items():
        faulty = _evidence(row) | _choice(row)
        faulty[f"timeout in force {in_force.get(key)}"] = row["current_timeout_s"] != in_force.get(key)
        alive = not removals[key] and key not in nearly
        faulty[f"given up {removals[key]} times"] = row["failures"] > removals[key] or bool(
            alive and row["current_fp_day"]
        )
        found += [f"{key}: {fault}: {_short(row)}" for fault, is_so in faulty.items() if is_so]
    return found


def _evidence(row: Answer) -> dict[str, bool]:
    """Return what may be wrong with how sure a recommendation is."""
    upper, days = row["fp_day_upper"], row["evidence_days"]
    return {
        "more false alarms than their bound": row["fp_day"] is not None and not 0 <= row["fp_day"] <= upper,
        "the bound of no false alarms": row["fp_day"] == 0 and abs(upper * days - log(1 / 0.05)) > 0.01,
        "sure after hours": row["confidence"] == "high" and (upper is None or upper * 30 > 1),
    }


def _choice(row: Answer) -> dict[str, bool]:
    """Return what may be wrong with the timeout that is recommended."""
    best_s, period_s = row["recommended_timeout_s"], (row["period_ms"] or 0) / 1000
    if best_s is None:
        return {}
    return {
        f"outside of {GRID_S}": not GRID_S[0] <= best_s <= GRID_S[1],
        f"shorter than {PERIODS_LEAST} periods": best_s < min(0.99 * PERIODS_LEAST * period_s, GRID_S[1]),
        f"noticed after {row['delay_s']} s": abs(row["delay_s"] - best_s) > period_s / 2 + 0.001,
    }


def _short(row: Answer) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value is not None)
