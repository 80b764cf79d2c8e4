"""A5 best timeout: what must hold of any recommendation, as the choice itself weighs costs that no definition names."""

from typing import Any

from plain.lives import Key, key_of
from plain.spans import Span
from plain.watching import Rows

Answer = dict[str, Any]

GRID_S = (3, 180)
HALF_SCAN_S = 2.5
PERIODS_LEAST = 3


def timeouts_in_force(rows: Rows, window: Span) -> dict[Key, float]:
    """Return the timeout that NameServers gave each broker last, seconds."""
    found: dict[Key, tuple[int, float]] = {}
    for row in [*rows["heartbeat"], *rows["heartbeat_summary"]]:
        if row["source"] == "namesrv" and window[0] <= row["event_time"] < window[1]:
            key = key_of(row)
            found[key] = max(found.get(key, (0, 0.0)), (row["event_time"], row["timeout_ms"] / 1000))
    return {key: timeout_s for key, (_, timeout_s) in found.items()}


def faults(rows: Rows, window: Span, told: list[Answer]) -> list[str]:
    """A5: return what is wrong with recommendations, a sentence each."""
    in_force = timeouts_in_force(rows, window)
    keys = {Key(row["cluster"], row["broker_name"], row["broker_id"]) for row in told}
    found = [f"{key} has no row" for key in in_force.keys() - keys]
    for row in told:
        key = Key(row["cluster"], row["broker_name"], row["broker_id"])
        best_s, period_s = row["best_timeout_s"], (row["period_ms"] or 0) / 1000
        if row["current_timeout_s"] != in_force.get(key):
            found.append(f"{key}: timeout in force {in_force.get(key)}, told {row['current_timeout_s']}")
        if row["fp_day"] is not None and not 0 <= row["fp_day"] <= row["fp_day_upper"]:
            found.append(f"{key}: {row['fp_day']} false alarms a day are not below their bound {row['fp_day_upper']}")
        if best_s is None:
            continue
        if not GRID_S[0] <= best_s <= GRID_S[1]:
            found.append(f"{key}: {best_s} s is outside of {GRID_S}")
        if best_s < PERIODS_LEAST * period_s and best_s < GRID_S[1]:
            found.append(f"{key}: {best_s} s is shorter than {PERIODS_LEAST} periods of {period_s} s")
        if abs(row["delay_s"] - best_s - HALF_SCAN_S) > period_s / 2 + 0.001:
            found.append(f"{key}: with {best_s} s a failure is noticed after {row['delay_s']} s")
    return found
