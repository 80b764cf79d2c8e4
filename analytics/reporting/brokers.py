"""Sections about brokers: availability, heartbeats, flapping, detection, timeouts."""

from typing import Final

from analytics.reporting.figures import Axis, Bar, bars, duration_axis, nothing
from analytics.reporting.page import Columns, Section, Table, alike
from analytics.reporting.results import JobResult
from analytics.reporting.wording import (
    NOTHING,
    TOO_LITTLE,
    Row,
    bounds,
    broker,
    counted,
    duration,
    duration_ms,
    number,
    share,
    time_text,
)

#: A shorter time gets no percentage: a share of minutes is no availability.
SHARE_FROM_S: Final = 86_400.0
#: A quantile needs so many values.
P99_FROM: Final = 100
#: How late timers are.
_TIMER_MS: Final = 1_000


def availability(result: JobResult) -> Section:
    """Who was down, for how long."""
    rows = sorted(result.rows, key=lambda row: (row["availability"] is None, row["availability"] or 0))
    failed = [row for row in rows if _was_down(row)]
    if not rows:
        return Section("No broker was seen.", [nothing("Time down", "no broker was seen")])
    answer = f"None of {counted(len(rows), 'broker')} was down."
    if failed:
        failures = counted(sum(row["failures"] for row in rows), "unplanned failure")
        worst = max(failed, key=_down_s)
        answer = (
            f"{len(failed)} of {counted(len(rows), 'broker')} were down at some time, with {failures}; "
            f"{broker(worst)} for longest: {_down(worst)}{_of_the_time(worst)}{_since(worst)}."
        )
    down_bars = [Bar(broker(row), (row["unplanned_s"], row["planned_s"])) for row in failed]
    figure = (
        bars("Time down by broker", ("unplanned", "planned"), down_bars, duration_axis("time down, at most"))
        if down_bars
        else nothing("Time down by broker", "no broker was down")
    )
    return Section(answer, [figure], [Table.of("Brokers, the least available first", failed or rows, _AVAILABILITY)])


def _was_down(row: Row) -> bool:
    return bool(row["failures"] or row["planned_s"] or row["unplanned_least_s"])


def _since(row: Row) -> str:
    """Return the note that no failure was observed: a failure counts in the window that it began in."""
    return ", down since before the window" if row["unplanned_least_s"] and not row["failures"] else ""


def _down_s(row: Row) -> float:
    return (row["unplanned_s"] or 0.0) + (row["planned_s"] or 0.0)


def _down(row: Row) -> str:
    planned_s = row["planned_s"] or 0.0
    least_s = row["unplanned_least_s"]
    return bounds(None if least_s is None else planned_s + least_s, _down_s(row))


def _of_the_time(row: Row) -> str:
    """Return what part of its time that was, where there is enough of it."""
    if (row["observed_s"] or 0) < SHARE_FROM_S:
        return f" in {duration(row['observed_s'])}"
    return f", available {share(row['availability'], 3)} of the time"


def _mtbf(row: Row) -> str:
    """Return between which bounds it is with 95 % on each side: the mean of few failures is uncertain."""
    if row["mtbf_upper_s"] is None:
        return f"over {duration(row['mtbf_lower_s'])}"
    return f"{duration(row['mtbf_lower_s'])} to {duration(row['mtbf_upper_s'])}"


_AVAILABILITY: Final[Columns] = {
    "broker": broker,
    "#availability": lambda row: (
        share(row["availability"], 3) if (row["observed_s"] or 0) >= SHARE_FROM_S else TOO_LITTLE
    ),
    "#failures": lambda row: f"{number(row['failures'])}{_since(row)}",
    "#mean time between": _mtbf,
    **alike(duration, "#mean time to repair: mttr_s, #planned: planned_s"),
    "#down": _down,
}


def heartbeats(result: JobResult) -> Section:
    """Brokers with irregular heartbeats."""
    title = "Missed heartbeats"
    rows = sorted(result.rows, key=_most_missed_first)
    if not rows:
        return Section("No heartbeat was recorded.", [nothing(title, "no heartbeat was recorded")])
    sure = [row for row in rows if _is_sure(row)]
    ratios = [Bar(_to(row), (100 * (row["miss_ratio"] or 0),)) for row in sure]
    intervals = [Bar(_to(row), (row["p50_ms"] / 1e3, row["p99_ms"] / 1e3, row["max_ms"] / 1e3)) for row in rows]
    figures = [
        bars(title, (), ratios, Axis("heartbeats that did not come, %", lambda value: f"{value:.2f}"))
        if ratios
        else nothing(title, TOO_LITTLE),
        bars("Intervals between heartbeats", ("median", "99 %", "longest"), intervals, duration_axis("interval")),
    ]
    return Section(
        _heartbeat_answer(rows), figures, [Table.of("Brokers, those that missed most first", rows, _HEARTBEATS)]
    )


def _heartbeat_answer(rows: list[Row]) -> str:
    """Return who missed heartbeats; of brokers whose period is not known only that."""
    known = [row for row in rows if row["missed"] is not None]
    missing = [row for row in known if row["missed"]]
    # What it sends to NameServers and to controllers are two rows of a broker.
    brokers = counted(len(_brokers_in(known)), "broker")
    sentences = []
    if missing:
        sentences.append(
            f"{len(_brokers_in(missing))} of {brokers} missed heartbeats, {_to(missing[0])} most: "
            f"{_missed_of(missing[0])}, with {duration_ms(missing[0]['max_ms'])} as the longest gap."
        )
    elif known:
        sentences.append(f"No heartbeat of {brokers} was missed.")
    if known and not any(map(_is_sure, known)):
        sentences.append("That is too little history to say how regularly they send heartbeats.")
    unknown = _brokers_in([row for row in rows if row["missed"] is None])
    if unknown:
        sentences.append(
            f"Of {counted(len(unknown), 'broker')} there is too little history to know the period, "
            "and which of the heartbeats were missed."
        )
    return " ".join(sentences)


def _brokers_in(rows: list[Row]) -> set[str]:
    return {broker(row) for row in rows}


def _most_missed_first(row: Row) -> tuple[bool, float]:
    """Order brokers by the total time of missed heartbeats: one of 30 s counts as thirty of a second."""
    return row["missed"] is None, -(row["missed"] or 0) * (row["period_ms"] or 0)


def _is_sure(row: Row) -> bool:
    return bool(row["confidence"] == "high")


def _missed_of(row: Row) -> str:
    due = row["n"] + row["missed"]
    if _is_sure(row):
        return f"{_missed_share(row)} of them"
    return f"{number(row['missed'])} of {number(due)} that were due, {TOO_LITTLE} for a share"


def _missed_share(row: Row) -> str:
    """Return the part of heartbeats that did not come: however small, it is more than none."""
    shown_share = share(row["miss_ratio"], 2)
    return "under 0.01 %" if row["missed"] and shown_share == share(0, 2) else shown_share


def _missed_cell(row: Row) -> str:
    if row["missed"] is None:
        return TOO_LITTLE
    return f"{number(row['missed'])} ({_missed_share(row) if _is_sure(row) else TOO_LITTLE})"


def _to(row: Row) -> str:
    return broker(row) if row["source"] == "namesrv" else f"{broker(row)} to {row['source']}"


_HEARTBEATS: Final[Columns] = {
    "broker": broker,
    "to": "source",
    "#heartbeats": lambda row: number(row["n"]),
    "#period": lambda row: TOO_LITTLE if row["period_ms"] is None else duration_ms(row["period_ms"]),
    "#median": lambda row: duration_ms(row["p50_ms"]),
    "#99 %": lambda row: duration_ms(row["p99_ms"]) if row["n"] >= P99_FROM else TOO_LITTLE,
    "#longest": lambda row: duration_ms(row["max_ms"]),
    "#missed": _missed_cell,
}


def flapping(result: JobResult) -> Section:
    """Who comes and goes."""
    title = "Flapping scores"
    rows = sorted(result.rows, key=lambda row: -(row["peak"] or 0))
    flagged = [row for row in rows if (row["time_flagged_s"] or 0) > 0]
    answer = "No broker came and went so often that it was flagged."
    if flagged:
        names = ", ".join(map(broker, flagged[:5]))
        answer = f"{counted(len(flagged), 'broker')} came and went so often that it did harm: {names}."
    scores = [Bar(broker(row), (row["peak"],)) for row in rows if row["peak"]]
    axis = Axis("highest score; above the dashed line a broker is flagged", lambda value: f"{value:.1f}", 3)
    figure = bars(title, (), scores, axis) if scores else nothing(title, "no broker went down")
    table = Table.of("Brokers by their highest score", [row for row in rows if row["transitions"]], _FLAPPING)
    return Section(answer, [figure], [table])


_FLAPPING: Final[Columns] = {
    "broker": broker,
    "#times down": lambda row: number(row["transitions"]),
    "#highest score": lambda row: number(row["peak"], 2),
    "at": lambda row: time_text(row["peak_time"]),
    "#flagged for": lambda row: duration(row["time_flagged_s"]),
    "at the end": lambda row: "flagged" if row["flagged_at_end"] else "not flagged",
}


def detection(result: JobResult) -> Section:
    """How soon the dead were noticed."""
    title = "From the last heartbeat to the removal"
    rows = sorted(result.rows, key=lambda row: (row["source"], row["reason"] or "", row["timeout_ms"] or 0))
    if not rows:
        return Section("No broker was removed.", [nothing(title, "no broker was removed")])
    silent = [row for row in rows if row["expected_ms"] is not None]
    slow = [row for row in silent if row["mean_ms"] > 1.1 * row["expected_ms"] + _TIMER_MS]
    noticed = [row for row in rows if row["expected_ms"] is None]
    sentences = [counted(sum(row["n"] for row in rows), "removal")]
    if noticed:
        longest_ms = max(row["max_ms"] for row in noticed)
        took = "at once" if not longest_ms else f"within {duration_ms(longest_ms)}"
        sentences.append(f"{sum(row['n'] for row in noticed)} at the end of a connection, {took}")
    if silent and not slow:
        sentences.append(f"{sum(row['n'] for row in silent)} after a timeout, as fast as expected")
    answer = "; ".join(sentences) + "."
    if slow:
        reasons = ", ".join(_removal(row) for row in slow)
        answer = f"Brokers were removed later than their timeout explains: {reasons}."
    delays = [Bar(_removal(row), (row["p50_ms"] / 1e3, row["p95_ms"] / 1e3, _s(row["expected_ms"]))) for row in rows]
    figure = bars(title, ("median", "95 %", "mean to expect"), delays, duration_axis("delay"))
    table = Table.of("Removals by server and reason", rows, _REMOVALS)
    return Section(answer, [figure], [table])


_REMOVALS: Final[Columns] = {
    "server": "source",
    "reason": "reason",
    "#timeout": lambda row: duration_ms(row["timeout_ms"]),
    "#removals": lambda row: number(row["n"]),
    **alike(duration_ms, "#median: p50_ms, #95 %: p95_ms, #longest: max_ms, #mean: mean_ms, #expected: expected_ms"),
}


def _s(ms: float | None) -> float | None:
    return None if ms is None else ms / 1e3


def _removal(row: Row) -> str:
    timeout = "" if row["timeout_ms"] is None else f" {duration_ms(row['timeout_ms'])}"
    return f"{row['source']} {row['reason']}{timeout}"


def timeouts(result: JobResult) -> Section:
    """Which timeout fits each broker."""
    title = "Timeouts now and recommended"
    rows = sorted(
        result.rows, key=lambda row: -abs((row["recommended_timeout_s"] or 0) - (row["current_timeout_s"] or 0))
    )
    if not rows:
        return Section("No broker was seen.", [nothing(title, "no broker was seen")])
    judged = [row for row in rows if row["confidence"] != "low"]
    others = [row for row in rows if is_other(row)]
    unjudged = len(rows) - len(judged)
    if not judged:
        answer = f"Too little history to judge the timeouts of {counted(unjudged, 'broker')}."
        return Section(answer, [nothing(title, TOO_LITTLE)], [timeout_table(rows)])
    answer = f"The timeouts of {counted(len(judged), 'broker')} are right."
    if others:
        answer = f"{counted(len(others), 'broker')} of {len(rows)} should have another timeout: see What to change."
    if unjudged:
        answer += f" Of {counted(unjudged, 'broker')} there is too little history."
    now = [Bar(broker(row), (row["current_timeout_s"], row["recommended_timeout_s"])) for row in judged]
    figure = bars(title, ("now", "recommended"), now, duration_axis("timeout"))
    return Section(answer, [figure], [timeout_table(rows)])


def is_other(row: Row) -> bool:
    """Return whether another timeout is recommended with more than low confidence."""
    return (
        row["confidence"] != "low"
        and row["recommended_timeout_s"] is not None
        and row["recommended_timeout_s"] != row["current_timeout_s"]
    )


def timeout_table(rows: list[Row]) -> Table:
    """Return the table of timeouts now and recommended."""
    return Table.of("Timeouts, those that change most first", rows, _TIMEOUTS)


def _unless_low(row: Row, cell: str, otherwise: str = NOTHING) -> str:
    """Return a cell, unless there is too little history to recommend a timeout."""
    return otherwise if row["confidence"] == "low" else cell


_TIMEOUTS: Final[Columns] = {
    "broker": broker,
    "#now": lambda row: duration(row["current_timeout_s"]),
    "#recommended": lambda row: _unless_low(row, duration(row["recommended_timeout_s"]), TOO_LITTLE),
    "#false alarms a day now": lambda row: _unless_low(row, number(row["current_fp_day"], 3)),
    "#then": lambda row: _unless_low(row, number(row["fp_day"], 3)),
    "#delay then": lambda row: _unless_low(row, duration(row["delay_s"])),
    "#days": lambda row: number(row["evidence_days"], 1),
    "confidence": "confidence",
}
