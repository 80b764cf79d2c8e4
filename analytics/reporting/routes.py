"""Sections about routes and queues: divergence, churn, balance, scaling."""

from typing import Final

from analytics.reporting.figures import Axis, Bar, Figure, Mark, bars, lanes, nothing
from analytics.reporting.page import Columns, Section, Table, alike
from analytics.reporting.results import JobResult
from analytics.reporting.wording import (
    Row,
    between,
    brief,
    broker,
    broker_set,
    counted,
    duration,
    number,
    share,
    time_text,
)

_KINDS: Final = ("cold", "presence", "address", "version")

#: That NameServers agreed is worth a statement if they were compared for so long: twice the usual timeout.
COMPARED_MIN_S: Final = 240


def divergence(result: JobResult) -> Section:
    """When NameServers disagreed, or had just started and knew nothing yet."""
    title = "When NameServers disagreed"
    rows = sorted((row for row in result.rows if row["kind"] in _KINDS), key=lambda row: -(row["seconds"] or 0))
    cold = [row for row in rows if row["kind"] == "cold"]
    differing = [row for row in rows if row["kind"] != "cold"]
    sentences = [_cold_answer(cold)] if cold else []
    sentences.append(_differing_answer(differing) if differing else _agreed(result, "Otherwise the" if cold else "The"))
    answer = " ".join(sentences)
    if not rows:
        return Section(answer, [nothing(title, "no difference was recorded")])
    worst = ((_subject(row), _mark(row)) for row in (*cold, *differing))
    tables = [
        Table.of("NameServers that had just started, the longest first", cold, _COLD),
        Table.of("Divergences, the longest first", differing, _DIFFERING),
    ]
    return Section(answer, [lanes(title, _KINDS, worst, result.window)], tables)


def _subject(row: Row) -> str:
    return str(row["ns_id"]) if row["kind"] == "cold" else broker(row)


def _agreed(result: JobResult, the: str) -> str:
    """Return that no NameServer differed, and how long they were compared."""
    compared = result.of_kind("compared")
    names = {name for row in compared for name in row["states"] or ()}
    # What holds of all clusters holds for the shortest of their times.
    together = [row for row in compared if row["compared_s"]]
    compared_s = min((row["compared_s"] for row in together), default=0)
    if not compared_s:
        who = f"only {min(names)}" if len(names) == 1 else "no two NameServers at the same time"
        return f"There is nothing to compare: {who} recorded its routes." if names else "Too little history to compare."
    if compared_s < COMPARED_MIN_S:
        return (
            f"Too little history to say that NameServers agree: two of them were watching for {duration(compared_s)}, "
            "and recorded no difference."
        )
    agreed = {name for row in together for name in row["states"]}
    of = f" about {counted(len(together), 'cluster')}" if len(compared) > 1 else ""
    alone = sorted(str(row["cluster"]) for row in compared if row not in together)
    rest = f" Of {', '.join(alone)} no two were observed at the same time." if alone else ""
    time = f"{'at least ' if len(together) > 1 else 'all the '}{duration(compared_s)}"
    return f"{the} {len(agreed)} NameServers agreed{of} in {time} in which two were watching.{rest}"


def _cold_answer(cold: list[Row]) -> str:
    """Return which NameServer had just started and did not know what was there."""
    worst = cold[0]
    # One start has a row for each cluster; it answers from the same moment on.
    starts = {(row["ns_id"], row["start_time"]) for row in cold}
    times = (
        ""
        if len(starts) == 1
        else f"{len(starts)} times a NameServer had just started and lacked brokers; the longest: "
    )
    rows = [row for row in cold if (row["ns_id"], row["start_time"]) == (worst["ns_id"], worst["start_time"])]
    return (
        f"{times}{worst['ns_id']} had just started on {time_text(worst['start_time'])} "
        f"and lacked {_missing_brokers(rows, worst)}; "
        f"{_not_found_text(worst)}."
    )


def _missing_brokers(rows: list[Row], worst: Row) -> str:
    """Return how many brokers it lacked, and who knows that they were there."""
    count = sum(len(row["lacked"] or ()) for row in rows)
    seen = sum(row["lacked_seen"] or 0 for row in rows)
    brokers, long = counted(count, "broker"), duration(worst["seconds"])
    if seen == count:
        return f"{brokers} that were there, for {long}"
    if not seen:
        return f"{brokers} that it had before, for at most {long}; no other NameServer observed whether they were up"
    return f"{brokers}, {seen} of which were up, for at most {long}; no other NameServer observed the rest"


def _not_found_text(row: Row) -> str:
    """Return how many questions were answered wrongly, as far as that was recorded."""
    least, most = row["not_found_min"], row["not_found_max"]
    if least is None:
        return 'how many questions it answered with "no such topic" was not recorded'
    many = f"{number(least)} or more" if most is None else f"{number(least)} to {number(most)}"
    times = number(least) if least == most else many
    return f'it answered "no such topic" {times} times; that includes topics that exist nowhere'


#: So many brokers are named in a row.
_LACKED_SHOWN: Final = 12


def _bounds(row: Row) -> str:
    most = row["not_found_max"]
    return f"{number(row['not_found_min'])} to {'?' if most is None else number(most)}"


def _differing_answer(differing: list[Row]) -> str:
    longest = differing[0]
    return (
        f"NameServers gave different answers {counted(len(differing), 'time')}, "
        f"{duration(sum(row['seconds'] or 0 for row in differing))} in all; the longest was about {broker(longest)}, "
        f"{duration(longest['seconds'])} from {time_text(longest['start_time'])} on."
    )


_COLD: Final[Columns] = {
    "NameServer": "ns_id",
    "cluster": "cluster",
    **alike(time_text, "from: start_time, to: end_time"),
    "#seconds": lambda row: number(row["seconds"], 1),
    '#"no such topic"': lambda row: "not recorded" if row["not_found_min"] is None else _bounds(row),
    "#brokers lacked": lambda row: number(len(row["lacked"] or ())),
    "which": lambda row: ", ".join((row["lacked"] or ())[:_LACKED_SHOWN]),
}

_DIFFERING: Final[Columns] = {
    "broker": broker,
    "about": "kind",
    **alike(time_text, "from: start_time, to: end_time"),
    "#seconds": lambda row: number(row["seconds"], 1),
    "answers": lambda row: ", ".join(row["states"] or ()),
}


def _mark(row: Row) -> Mark:
    words = f"{row['kind']} {duration(row['seconds'])} from {time_text(row['start_time'])}"
    return Mark(*between(row, "start_time", "end_time"), _KINDS.index(row["kind"]), words)


def _altered(row: Row) -> int:
    """Return how often somebody set a topic otherwise; it comes and goes with its brokers too."""
    return int(row["changes"] - row["added"] - row["removed"])


def churn(result: JobResult) -> Section:
    """Which topics are altered again and again."""
    title = "Changes of topics"
    rows = sorted(
        (row for row in result.rows if row["topic"] is not None), key=lambda row: (-_altered(row), -row["changes"])
    )
    if not rows:
        return Section("No topic was altered.", [nothing(title, "no topic was altered")])
    flipped = [row for row in rows if row["flips"] and _altered(row)]
    answer = f"{counted(len(rows), 'topic')} changed, {rows[0]['topic']} most: {counted(rows[0]['changes'], 'time')}."
    if flipped:
        answer += f" {counted(len(flipped), 'topic')} went to and fro, as automation does that disagrees with itself."
    most = [Bar(str(row["topic"]), (row["changes"], row["flips"])) for row in rows]
    table = Table.of("Topics that changed most", rows, _CHURN)
    return Section(answer, [bars(title, ("changes", "back to before"), most, Axis("changes"))], [table])


_CHURN: Final[Columns] = {
    "topic": "topic",
    **alike(number, "#changes, #to and fro: flips, #sets: brokers"),
    "busiest hour": lambda row: time_text(row["busiest_hour"]),
    "#changes in it": lambda row: number(row["busiest_hour_changes"]),
    "#route queries at most": lambda row: brief(row["fetches_max"]),
}


def balance(result: JobResult) -> Section:
    """How evenly queues are spread."""
    title = "Write queues by broker set"
    sets = sorted(result.of_kind("broker"), key=lambda row: -(row["ratio"] or 0))
    if not sets:
        return Section("No routes were recorded.", [nothing(title, "no routes were recorded")])
    clusters = {row["cluster"]: row for row in sets}
    uneven = [row for row in clusters.values() if (row["max_mean"] or 0) > _RATIO_MAX]
    answer = f"Queues are spread evenly over the {counted(len(sets), 'broker set')}."
    if len(clusters) == len(sets):
        one = "There is" if len(sets) == 1 else "Each cluster has"
        answer = f"{one} one broker set only: nothing can be spread unevenly."
    elif not any(row["queues"] for row in sets):
        answer = "No topic but those of the system has queues yet."
    if uneven:
        names = ", ".join(f"{row['cluster']} (Gini {row['gini']:.2f})" for row in uneven)
        fullest = f"{broker_set(sets[0])} has {sets[0]['ratio']:.1f} times the mean"
        answer = f"Queues are spread unevenly in {names}: {fullest}."
    figures = [bars(title, (), [Bar(broker_set(row), (row["queues"],)) for row in sets], Axis("queues"))]
    sampled = [row for row in sets if row["tps_share"] is not None]
    if sampled:
        figures.append(_shares(sampled))
    topics = sorted(result.of_kind("topic"), key=lambda row: (-row["spread"], str(row["topic"])))
    tables = [
        Table.of("Broker sets, the fullest first", sets, _SETS),
        Table.of("Topics that are spread most unevenly", topics, _SPREAD),
    ]
    return Section(answer, figures, tables)


#: As the analysis has it.
_RATIO_MAX: Final = 1.2


def _shares(sets: list[Row]) -> Figure:
    shares = [Bar(broker_set(row), (100 * (row["share"] or 0), 100 * row["tps_share"])) for row in sets]
    axis = Axis("part of the cluster, %", lambda value: f"{value:.0f}")
    return bars("Queues and messages by broker set", ("queues", "messages"), shares, axis)


_SETS: Final[Columns] = {
    "broker set": "broker_name",
    "cluster": "cluster",
    "#queues": lambda row: number(row["queues"]),
    "#of the mean": lambda row: number(row["ratio"], 2),
    "#share": lambda row: share(row["share"]),
    "#messages a second": lambda row: brief(row["tps"]),
    "#Gini of the cluster": lambda row: number(row["gini"], 2),
}

_SPREAD: Final[Columns] = {
    "topic": "topic",
    "cluster": "cluster",
    **alike(number, "#queues, #most minus fewest on a set: spread"),
}

_VERDICTS: Final = {
    "grow": "should have more queues",
    "shrink": "should have fewer",
    "wait": "should have fewer once consumers have caught up",
}


#: As the analysis has it: on so many days a topic must have needed more.
_DAYS_TO_JUDGE: Final = 3


def scaling(result: JobResult) -> Section:
    """Which topics need other numbers of queues."""
    title = "Queues now and proposed"
    rows = sorted(result.of_kind("topic"), key=lambda row: (row["verdict"] == "keep", -(row["p95_tps"] or 0)))
    if not rows:
        answer = "Too little history: no topic was sampled for half a day."
        return Section(answer, [nothing(title, "no topic was sampled for long enough")])
    judged = [row for row in rows if row["days"] >= _DAYS_TO_JUDGE]
    verdicts = [row["verdict"] for row in judged]
    changes = [f"{verdicts.count(verdict)} {words}" for verdict, words in _VERDICTS.items() if verdict in verdicts]
    answer = f"Of {counted(len(judged), 'sampled topic')} {', '.join(changes) or 'none needs other numbers of queues'}."
    if len(judged) < len(rows):
        little = f"{counted(len(rows) - len(judged), 'topic')}, sampled on less than {_DAYS_TO_JUDGE} days"
        answer = f"{answer if judged else ''} There is too little history of {little}.".strip()
    now = [Bar(str(row["topic"]), (row["queues_now"], row["queues_proposed"])) for row in rows]
    table = Table.of("Topics, those to change first", rows, _SCALING)
    return Section(answer, [bars(title, ("now", "proposed"), now, Axis("write queues"))], [table])


_SCALING: Final[Columns] = {
    "topic": "topic",
    "cluster": "cluster",
    "verdict": lambda row: str(row["verdict"]) if row["days"] >= _DAYS_TO_JUDGE else "too little history",
    **alike(number, "#queues: queues_now, #proposed: queues_proposed"),
    "#messages a second": lambda row: brief(row["p95_tps"]),
    "#consumers": lambda row: number(row["consumers"]),
    "#days": lambda row: f"{row['days_differing']} of {row['days']}",
}
