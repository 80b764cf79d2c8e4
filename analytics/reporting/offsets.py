"""The section about offsets that jumped, and what repairs, operators and lock replays did."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from analytics.reporting.figures import Axis, Bar, Figure, nothing, stacks
from analytics.reporting.page import Columns, Section, Table, alike
from analytics.reporting.results import JobResult
from analytics.reporting.wording import NOTHING, Row, brief, broker_set, counted, duration_ms, in_cluster, time_text

#: Causes in the order of the colours.
_CAUSES: Final = ("failover", "restart", "lost", "reset", "deleted")


def read_again(result: JobResult) -> Section:
    """Which groups read again or skipped, why, and what was done about it."""
    groups = sorted(result.of_kind("group"), key=lambda row: (row["is_wanted"], -row["messages_again"]))
    changes = sorted(result.of_kind("change"), key=lambda row: str(row["last"]), reverse=True)
    runs = sorted(result.of_kind("run"), key=lambda row: (-row["would_change"], str(row["broker_name"])))
    left = [row for row in result.of_kind("repaired") if row["would_change"] or row["not_proved"] or row["failed"]]
    locks = sorted(result.of_kind("locks"), key=lambda row: (-row["overlaps"], -row["queues"]))
    tables = [
        Table.of("Groups whose offsets jumped, those that nobody has wanted first", groups, _GROUPS),
        Table.of("Repairs after masters changed", runs, _RUNS),
        Table.of("Groups that repairs left to an operator", left, _LEFT),
        Table.of("Changes of operators, the newest first", changes, _CHANGES),
        Table.of("Locks of orderly groups", locks, _LOCKS),
    ]
    answer = " ".join(filter(None, (_groups_answer(groups), _repairs_answer(runs), _locks_answer(locks))))
    return Section(answer, [_figure(groups)], tables)


def _figure(groups: list[Row]) -> Figure:
    title = "Messages read again, at most, by cause"
    if not any(row["messages_again"] for row in groups):
        return nothing(title, "no offset went back")
    amounts: dict[str, Counter[str]] = {}
    for row in groups:
        amounts.setdefault(_name(row), Counter())[str(row["cause"])] += row["messages_again"]
    most = sorted(amounts.items(), key=lambda item: (-item[1].total(), item[0]))
    shown = [Bar(name, tuple(of_causes[cause] for cause in _CAUSES)) for name, of_causes in most]
    return stacks(title, tuple(_words(cause) for cause in _CAUSES), shown, Axis("messages"))


def _groups_answer(groups: list[Row]) -> str:
    unwanted = [row for row in groups if not row["is_wanted"]]
    if not unwanted:
        wanted = sum(row["messages_again"] for row in groups)
        put_back = f" Resets put back {brief(wanted)} messages." if wanted else ""
        return f"No offset went back that nobody has wanted.{put_back}"
    names = {_name(row) for row in unwanted}
    causes: Counter[str] = Counter()
    for row in unwanted:
        causes[_words(str(row["cause"]))] += row["messages_again"]
    parts = ", ".join(f"{brief(count)} by {cause}" for cause, count in causes.most_common())
    return (
        f"{counted(len(names), 'group in a topic', 'groups in topics')} went back unwanted: {parts} messages at most."
    )


def _repairs_answer(runs: list[Row]) -> str:
    if not runs:
        return ""
    spared, waiting = (sum(row[name] for row in runs) for name in ("messages_spared", "would_change"))
    problems = sum(row["problems"] for row in runs)
    failed = f" {counted(problems, 'run')} did not come to an end." if problems else ""
    reported = f" and only reported {counted(waiting, 'queue')}" if waiting else ""
    return f"Repairs spared {brief(spared)} messages{reported}.{failed}"


def _locks_answer(locks: Iterable[Row]) -> str:
    overlaps = sum(row["overlaps"] for row in locks)
    return f"Two clients held one queue {counted(overlaps, 'time')}." if overlaps else ""


def _name(row: Row) -> str:
    return f"{in_cluster(row, str(row['group']))} in {row['topic']}"


def _words(cause: str) -> str:
    return cause.replace("_", " ")


def _sets(row: Row) -> str:
    return ", ".join(row["sets"] or ()) or NOTHING


_GROUPS: Final[Columns] = {
    "group": lambda row: in_cluster(row, str(row["group"])),
    "topic": "topic",
    "cause": lambda row: _words(str(row["cause"])),
    **alike(brief, "#times: events, #queues, #without an offset: removed, #messages at most: messages_again"),
    **alike(brief, "#skipped: messages_skipped"),
    "sets": _sets,
    "last": lambda row: time_text(row["last"]),
}

_RUNS: Final[Columns] = {
    "broker set": broker_set,
    **alike(brief, "#runs: events, #with a problem: problems"),
    "#longest": lambda row: duration_ms(row["longest_ms"]),
    **alike(brief, "#queues, #pushed, #set_back, #reported: would_change, #not_proved, #failed, #messages_spared"),
}

_LEFT: Final[Columns] = {
    "group": lambda row: in_cluster(row, str(row["group"])),
    "topic": "topic",
    **alike(brief, "#reported: would_change, #not_proved, #failed, #read again: messages_again"),
    **alike(brief, "#may be skipped: messages_skipped"),
    "sets": _sets,
}

_CHANGES: Final[Columns] = {
    "what": "operation",
    "at": "target",
    "by": lambda row: str(row["writer"] or NOTHING),
    "group": lambda row: in_cluster(row, str(row["group"])),
    "topic": "topic",
    **alike(brief, "#queues, #failed, #messages_again, #messages_skipped"),
    "last": lambda row: time_text(row["last"]),
}

_LOCKS: Final[Columns] = {
    "group": lambda row: in_cluster(row, str(row["group"])),
    "topic": "topic",
    **alike(brief, "#replays, #queues, #granted"),
    "#slowest": lambda row: duration_ms(row["longest_ms"]),
    "#two holders": lambda row: brief(row["overlaps"]),
    "#longest": lambda row: duration_ms(row["overlap_longest_ms"]),
}
