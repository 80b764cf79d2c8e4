"""Sections about routes and queues: divergence, churn, balance, scaling."""

from collections import defaultdict
from typing import Final

from analytics.reporting.figures import Axis, Bar, Figure, Lane, Mark, bars, lanes, nothing
from analytics.reporting.page import Section, Table
from analytics.reporting.results import Result
from analytics.reporting.wording import Row, brief, broker, counted, duration, number, share, told, unix_s

SHOWN: Final = 12

_KINDS: Final = ("presence", "address", "version")


def divergence(result: Result) -> Section:
    """When NameServers disagreed."""
    title = "When NameServers disagreed"
    rows = sorted(result.rows, key=lambda row: -(row["seconds"] or 0))
    if not rows:
        return result.section("Divergence", "All NameServers agreed.", [nothing(title, "all NameServers agreed")])
    longest = rows[0]
    answer = (
        f"NameServers gave different answers {counted(len(rows), 'time')}, "
        f"{duration(sum(row['seconds'] or 0 for row in rows))} in all; the longest was about {broker(longest)}, "
        f"{duration(longest['seconds'])} from {told(longest['start_time'])} on."
    )
    marks: defaultdict[str, list[Mark]] = defaultdict(list)
    for row in rows:
        words = f"{row['kind']} {duration(row['seconds'])} from {told(row['start_time'])}"
        marks[broker(row)].append(_mark(row, "start_time", "end_time", _KINDS.index(row["kind"]), words))
    worst = [Lane(name, tuple(each)) for name, each in list(marks.items())[:SHOWN]]
    table = Table(
        "Divergences, the longest first",
        ("broker", "about", "from", "to", "#seconds", "answers"),
        [
            (
                broker(row),
                str(row["kind"]),
                told(row["start_time"]),
                told(row["end_time"]),
                number(row["seconds"], 1),
                ", ".join(row["states"] or ()),
            )
            for row in rows
        ],
    )
    return result.section("Divergence", answer, [lanes(title, _KINDS, worst, result.window)], table)


def _mark(row: Row, start: str, end: str, series: int, words: str) -> Mark:
    start_s = unix_s(row[start]) or 0.0
    return Mark(start_s, unix_s(row[end]) or start_s, series, words)


def _altered(row: Row) -> int:
    """Return how often somebody set a topic otherwise; it comes and goes with its brokers too."""
    return int(row["changes"] - row["added"] - row["removed"])


def churn(result: Result) -> Section:
    """Which topics are altered again and again."""
    title = "Changes of topics"
    rows = sorted(
        (row for row in result.rows if row["topic"] is not None), key=lambda row: (-_altered(row), -row["changes"])
    )
    if not rows:
        return result.section("Route changes", "No topic was altered.", [nothing(title, "no topic was altered")])
    flipped = [row for row in rows if row["flips"] and _altered(row)]
    answer = f"{counted(len(rows), 'topic')} changed, {rows[0]['topic']} most: {counted(rows[0]['changes'], 'time')}."
    if flipped:
        answer += f" {counted(len(flipped), 'topic')} went to and fro, as automation does that disagrees with itself."
    most = [Bar(str(row["topic"]), (row["changes"], row["flips"])) for row in rows[:SHOWN]]
    table = Table(
        "Topics that changed most",
        ("topic", "#changes", "#to and fro", "#sets", "busiest hour", "#changes in it", "#route queries at most"),
        [
            (
                str(row["topic"]),
                number(row["changes"]),
                number(row["flips"]),
                number(row["brokers"]),
                told(row["busiest_hour"]),
                number(row["busiest_hour_changes"]),
                brief(row["fetches_max"]),
            )
            for row in rows
        ],
    )
    return result.section(
        "Route changes", answer, [bars(title, ("changes", "back to before"), most, Axis("changes"))], table
    )


def balance(result: Result) -> Section:
    """How evenly queues are spread."""
    title = "Write queues by broker set"
    sets = sorted(result.of_kind("broker"), key=lambda row: -(row["ratio"] or 0))
    if not sets:
        return result.section("Queue balance", "No snapshot of routes was there.", [nothing(title, "no snapshot")])
    clusters = {row["cluster"]: row for row in sets}
    uneven = [row for row in clusters.values() if (row["max_mean"] or 0) > _RATIO_MAX]
    answer = f"Queues are spread evenly over the {counted(len(sets), 'broker set')}."
    if uneven:
        names = ", ".join(f"{row['cluster']} (Gini {row['gini']:.2f})" for row in uneven)
        fullest = f"{sets[0]['broker_name']} has {sets[0]['ratio']:.1f} times the mean"
        answer = f"Queues are spread unevenly in {names}: {fullest}."
    figures = [
        bars(title, (), [Bar(str(row["broker_name"]), (row["queues"],)) for row in sets[:SHOWN]], Axis("queues"))
    ]
    sampled = [row for row in sets if row["tps_share"] is not None]
    if sampled:
        figures.append(_shares(sampled))
    return result.section("Queue balance", answer, figures, _set_table(sets), _spread_table(result.of_kind("topic")))


#: As the analysis has it.
_RATIO_MAX: Final = 1.2


def _shares(sets: list[Row]) -> Figure:
    shares = [Bar(str(row["broker_name"]), (100 * (row["share"] or 0), 100 * row["tps_share"])) for row in sets[:SHOWN]]
    axis = Axis("part of the cluster, %", lambda value: f"{value:.0f}")
    return bars("Queues and messages by broker set", ("queues", "messages"), shares, axis)


def _set_table(sets: list[Row]) -> Table:
    return Table(
        "Broker sets, the fullest first",
        ("broker set", "cluster", "#queues", "#of the mean", "#share", "#messages a second", "#Gini of the cluster"),
        [
            (
                str(row["broker_name"]),
                str(row["cluster"]),
                number(row["queues"]),
                number(row["ratio"], 2),
                share(row["share"]),
                brief(row["tps"]),
                number(row["gini"], 2),
            )
            for row in sets
        ],
    )


def _spread_table(topics: list[Row]) -> Table:
    worst = sorted(topics, key=lambda row: (-row["spread"], str(row["topic"])))
    return Table(
        "Topics that are spread most unevenly",
        ("topic", "cluster", "#queues", "#most minus fewest on a set"),
        [(str(row["topic"]), str(row["cluster"]), number(row["queues"]), number(row["spread"])) for row in worst],
    )


_VERDICTS: Final = {
    "grow": "should have more queues",
    "shrink": "should have fewer",
    "wait": "should have fewer once consumers have caught up",
}


def scaling(result: Result) -> Section:
    """Which topics need other numbers of queues."""
    title = "Queues now and proposed"
    rows = sorted(result.of_kind("topic"), key=lambda row: (row["verdict"] == "keep", -(row["p95_tps"] or 0)))
    if not rows:
        answer = "No topic was sampled for long enough."
        return result.section("Queue scaling", answer, [nothing(title, "no topic was sampled for long enough")])
    verdicts = [row["verdict"] for row in rows]
    changes = [f"{verdicts.count(verdict)} {words}" for verdict, words in _VERDICTS.items() if verdict in verdicts]
    answer = f"Of {counted(len(rows), 'sampled topic')} {', '.join(changes) or 'none needs other numbers of queues'}."
    now = [Bar(str(row["topic"]), (row["queues_now"], row["queues_proposed"])) for row in rows[:SHOWN]]
    table = Table(
        "Topics, those to change first",
        ("topic", "cluster", "verdict", "#queues", "#proposed", "#messages a second", "#consumers", "#days"),
        [
            (
                str(row["topic"]),
                str(row["cluster"]),
                str(row["verdict"]),
                number(row["queues_now"]),
                number(row["queues_proposed"]),
                brief(row["p95_tps"]),
                number(row["consumers"]),
                f"{row['days_differing']} of {row['days']}",
            )
            for row in rows
        ],
    )
    return result.section("Queue scaling", answer, [bars(title, ("now", "proposed"), now, Axis("write queues"))], table)
