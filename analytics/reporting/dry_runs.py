"""The section about what policies of queue scaling would have done: the result of `rmq scaling dry-run`."""

from collections import defaultdict
from typing import Final

from analytics.reporting.figures import Axis, Figure, Line, lines, nothing
from analytics.reporting.page import Columns, Section, Table
from analytics.reporting.results import JobResult
from analytics.reporting.wording import NOTHING, Row, brief, counted, in_cluster, number, time_text, unix_s

#: As many topics as there are colours.
_LINES: Final = 7


def dry_run(result: JobResult) -> Section:
    """When policies would have resized topics, how far, and why."""
    topics = sorted(result.of_kind("topic"), key=lambda row: (-row["changes"], str(row["topic"])))
    changes = sorted(result.of_kind("change"), key=lambda row: str(row["time"]))
    kept = sorted(result.of_kind("kept"), key=lambda row: -row["times"])
    tables = [
        Table.of("Topics", topics, _TOPICS),
        Table.of("Resizes that would have been", changes, _CHANGES),
        Table.of("Why there were no others, the most frequent first", kept, _KEPT),
    ]
    samples = counted(sum(row["samples"] for row in topics), "sample")
    begin = f"In {samples} of {counted(len(topics), 'topic')} the policies would have"
    answer = f"{begin} changed nothing."
    if changes:
        alone = sum(row["mode"] == "auto" for row in changes)
        answer = f"{begin} made {counted(len(changes), 'resize')}, {alone or 'none'} without an operator."
    return Section(answer, _figures(result, topics), tables)


def _figures(result: JobResult, topics: list[Row]) -> list[Figure]:
    hours: defaultdict[str, list[Row]] = defaultdict(list)
    for row in result.of_kind("hour"):
        hours[_name(row)].append(row)
    names = tuple(name for row in topics if (name := _name(row)) in hours)[:_LINES]
    title = "Queues that topics would have had on each set"
    if not names:
        return [nothing(title, "no rate was sampled")]
    queues = [Line(n, tuple((_at(row), float(row["queues"])) for row in hours[name])) for n, name in enumerate(names)]
    rates = [Line(n, tuple((_at(row), row["tps"]) for row in hours[name])) for n, name in enumerate(names)]
    return [
        lines(title, names, queues, Axis("queues on each set")),
        lines("Messages that came in, the most of each hour", names, rates, Axis("messages a second")),
    ]


def _at(row: Row) -> float:
    return unix_s(row["time"]) or 0.0


def _name(row: Row) -> str:
    return in_cluster(row, str(row["topic"]))


_TOPICS: Final[Columns] = {
    "topic": _name,
    "policy": "policy",
    "mode": "mode",
    "#sets": lambda row: number(row["sets"]),
    "#queues on each": lambda row: f"{number(row['queues_before'])} to {number(row['queues_after'])}",
    "#resizes": lambda row: number(row["changes"]),
    "#samples": lambda row: brief(row["samples"]),
}

_CHANGES: Final[Columns] = {
    "topic": _name,
    "when": lambda row: time_text(row["time"]),
    "#queues on each set": lambda row: f"{number(row['queues_before'])} to {number(row['queues_after'])}",
    "who decides": lambda row: "the policy" if row["mode"] == "auto" else f"an operator ({row['mode']})",
    "why": lambda row: str(row["reason"] or NOTHING),
}

_KEPT: Final[Columns] = {
    "topic": _name,
    "finding": lambda row: str(row["finding"] or "nothing").replace("_", " "),
    "#times": lambda row: number(row["times"]),
    "the last reason": lambda row: str(row["reason"] or NOTHING),
}
