"""The section about resizes of topics: how long they took, what they did, and what the autoscaler decided."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from analytics.reporting.figures import Axis, Bar, Figure, bars, duration_axis, nothing, stacks
from analytics.reporting.page import Columns, Section, Table, alike
from analytics.reporting.results import JobResult
from analytics.reporting.wording import NOTHING, Row, brief, counted, duration, in_cluster, number, time_text

#: What phases are for, in the order of the colours; those that are not named here are new queues coming up.
_PURPOSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "planned and checked": ("PLANNED", "PRECHECK"),
        "new queues": (),
        "waiting for producers": ("WRITE_DOWN", "QUIESCE", "PAUSE", "GATE", "LATE"),
        "waiting for consumers": ("DRAIN", "CONFIRM"),
        "dropped and watched": ("READ_DOWN", "WATCH"),
        "blocked or in conflict": ("BLOCKED", "CONFLICT"),
        "opened again or undone": ("REOPEN", "ROLLBACK"),
    }
)
_PURPOSE_OF: Final = {phase: purpose for purpose, phases in _PURPOSES.items() for phase in phases}
_NEW_QUEUES: Final = "new queues"

_RESULTS: Final = ("done", "running", "aborted", "rejected")
_VERDICTS: Final = {
    "proposed": "proposed {}",
    "approved": "was approved {}",
    "dismissed": "was dismissed {}",
    "resized": "resized {}",
    "refused": "was refused {}",
}
_WINDOWS: Final = ("before", "while it ran", "after")


def resizes(result: JobResult) -> Section:
    """Which resizes there were, how long they took, and what they did."""
    rows = sorted(result.of_kind("operation"), key=lambda row: (row["result"] != "running", -row["seconds"]))
    decisions = sorted(result.of_kind("decision"), key=lambda row: (str(row["topic"]), str(row["verdict"])))
    tables = [
        Table.of("Resizes, those that run first, then the longest", rows, _OPERATIONS),
        Table.of("What they did", rows, _EFFECTS),
        Table.of("Consumer groups, the most behind first", _by_lag(result.of_kind("group")), _GROUPS),
        Table.of("Decisions of the autoscaler", decisions, _DECISIONS),
    ]
    answer = f"{_operation_answer(rows)}{_decision_answer(decisions)}"
    return Section(answer, _figures(result, rows), tables)


def _figures(result: JobResult, rows: list[Row]) -> list[Figure]:
    title = "Resizes by what they waited for"
    if not rows:
        return [nothing(title, "no topic was resized")]
    phases: defaultdict[tuple[object, object], Counter[str]] = defaultdict(Counter)
    for row in result.of_kind("phase"):
        phases[row["cluster"], row["operation_id"]][_PURPOSE_OF.get(row["phase"], _NEW_QUEUES)] += row["seconds"]
    spent = [
        Bar(_name(row), tuple(phases[row["cluster"], row["operation_id"]][purpose] for purpose in _PURPOSES))
        for row in rows
    ]
    figures = [stacks(title, tuple(_PURPOSES), spent, duration_axis("time"))]
    sampled = [row for row in rows if row["queue_tps_before"] is not None or row["queue_tps_after"] is not None]
    if sampled:
        rates = [Bar(_name(row), (row["queue_tps_before"], row["queue_tps_after"])) for row in sampled]
        figures.append(bars("Messages for each queue", ("before", "after"), rates, Axis("messages a second")))
    if lags := _lags(result.of_kind("group"), rows):
        figures.append(bars("The group most behind", _WINDOWS, lags, Axis("messages not consumed, at most")))
    return figures


def _lags(groups: Iterable[Row], rows: list[Row]) -> list[Bar]:
    """Return, for each operation, the most that any group had left before, during and after it."""
    names = {(row["cluster"], row["operation_id"]): _name(row) for row in rows}
    most: dict[str, list[int | None]] = {}
    for row in groups:
        found = most.setdefault(names.get((row["cluster"], row["operation_id"]), NOTHING), [None] * len(_WINDOWS))
        for place, window in enumerate(("before", "during", "after")):
            lag = row[f"lag_max_{window}"]
            if lag is not None:
                found[place] = max(lag, found[place] or 0)
    return [Bar(name, tuple(most[name])) for name in names.values() if name in most]


def _name(row: Row) -> str:
    return f"{in_cluster(row, str(row['topic']))} {time_text(row['created'])}"


def _operation_answer(rows: list[Row]) -> str:
    if not rows:
        return "No topic was resized."
    # One over two clusters has a row for each.
    results = {row["operation_id"]: str(row["result"]) for row in rows}
    counts = Counter(results.values())
    parts = ", ".join(f"{counts[each]} {each}" for each in _RESULTS if counts[each])
    reopened = {row["operation_id"] for row in rows if row["reopened"]}
    again = (
        f" {counted(len(reopened), 'resize')} opened dropped queues again, as messages came late." if reopened else ""
    )
    return f"{counted(len(results), 'resize')}: {parts}. {_longest(rows)}{again}"


def _longest(rows: list[Row]) -> str:
    known = [row for row in rows if row["longest_s"] is not None]
    if not known:
        return ""
    row = max(known, key=lambda each: each["longest_s"])
    why = f": {row['evidence'][0]}" if row["evidence"] else ""
    return f"The longest wait was that of {_name(row)} in {row['longest_phase']}, {duration(row['longest_s'])}{why}."


def _decision_answer(decisions: list[Row]) -> str:
    counts: Counter[str] = Counter()
    for row in decisions:
        counts[str(row["verdict"])] += row["decisions"]
    parts = [words.format(counted(counts[verdict], "time")) for verdict, words in _VERDICTS.items() if counts[verdict]]
    return f" The autoscaler {', '.join(parts)}." if parts else ""


def _by_lag(groups: list[Row]) -> list[Row]:
    def most(row: Row) -> int:
        return max((row[f"lag_max_{window}"] or 0 for window in ("before", "during", "after")), default=0)

    return sorted(groups, key=lambda row: (-most(row), str(row["group"])))


def _known(value: float | None) -> str:
    return "not sampled" if value is None else brief(value)


_OPERATIONS: Final[Columns] = {
    "topic": lambda row: in_cluster(row, str(row["topic"])),
    "planned": lambda row: time_text(row["created"]),
    "kind": "resize",
    "#queues": lambda row: f"{number(row['write_from'])} to {number(row['write_to'])}",
    "result": lambda row: f"running, in {row['phase']}" if row["result"] == "running" else str(row["result"]),
    "#took": lambda row: duration(row["seconds"]),
    "longest in": lambda row: f"{row['longest_phase'] or NOTHING}, {duration(row['longest_s'])}",
    "#reopened": lambda row: number(row["reopened"]),
    "requested by": lambda row: str(row["requested_by"] or NOTHING),
    "problem": lambda row: str(row["problem"] or NOTHING),
}

_EFFECTS: Final[Columns] = {
    "topic": lambda row: in_cluster(row, str(row["topic"])),
    "planned": lambda row: time_text(row["created"]),
    **alike(_known, "#messages a second before: tps_before, #while it ran: tps_during, #after: tps_after"),
    **alike(_known, "#for each queue before: queue_tps_before, #for each queue after: queue_tps_after"),
}

_GROUPS: Final[Columns] = {
    "group": "group",
    "topic": lambda row: in_cluster(row, str(row["topic"])),
    "result": "result",
    **alike(_known, "#not consumed at most before: lag_max_before, #while it ran: lag_max_during"),
    **alike(_known, "#after: lag_max_after, #members before: consumers_before, #members after: consumers_after"),
}

_DECISIONS: Final[Columns] = {
    "topic": "topic",
    "verdict": "verdict",
    "finding": lambda row: str(row["finding"] or "nothing").replace("_", " "),
    "#times": lambda row: number(row["decisions"]),
    **alike(time_text, "first, last"),
}
