"""Sections about what went wrong: failovers, restart storms, anomalies, correlated failures."""

from collections.abc import Iterable, Mapping
from typing import Final

from analytics.reporting.figures import Axis, Bar, Mark, bars, duration_axis, lanes, nothing, stacks
from analytics.reporting.page import Columns, Section, Table, alike
from analytics.reporting.results import JobResult
from analytics.reporting.wording import (
    TOO_LITTLE,
    Row,
    between,
    broker,
    broker_set,
    counted,
    duration,
    duration_ms,
    in_cluster,
    number,
    share,
    time_text,
)

_PHASES: Final = ("detect", "start", "elect", "register", "spread")
_PHASE_NAMES: Final = ("until found dead", "until the election", "election", "until first shown", "until shown by all")

#: What brokers usually do is known from so many days on.
USUAL_FROM_DAYS: Final = 2

#: So many failovers show what one usually takes.
_USUAL_FROM: Final = 5

#: Pairs that are so alike belong together.
TOGETHER: Final = 0.5
#: So many times at least: once may be chance.
OFTEN: Final = 2


def failovers(result: JobResult) -> Section:
    """How long failovers took."""
    title = "Failovers by phase"
    rows = sorted(result.of_kind("failover"), key=lambda row: -(row["total_s"] or 0))
    if not rows:
        answer = "No controller recorded that a master changed."
        return Section(answer, [nothing(title, "no master changed")])
    # Of fewer there is no median, and no rare case.
    phases = {row["phase"]: row for row in result.of_kind("phase") if row["n"] >= _USUAL_FROM}
    lengths = [Bar(_name(row), tuple(row[f"{phase}_s"] for phase in _PHASES)) for row in rows]
    figures = [stacks(title, _PHASE_NAMES, lengths, duration_axis("time"))]
    if phases:
        usual = [Bar(name, (phases[name]["p50_s"], phases[name]["p95_s"])) for name in _ALL_PHASES if name in phases]
        figures.append(bars("What a phase takes", ("median", "95 %"), usual, duration_axis("time")))
    return Section(_failover_answer(rows), figures, [Table.of("Failovers, the slowest first", rows, _FAILOVERS)])


_ALL_PHASES: Final = (
    "detect",
    "start",
    "elect",
    "notify",
    "serve",
    "lead",
    "address_total",
    "register",
    "spread",
    "total",
)


def _name(row: Row) -> str:
    return in_cluster(row, str(row["failover_id"]).partition("/")[2])


def _failover_answer(rows: list[Row]) -> str:
    whole = [row for row in rows if row["total_s"] is not None]
    answer = f"{counted(len(rows), 'failover')}"
    if whole:
        slowest = whole[0]
        last = slowest["slowest_namesrv"]
        answer += f"; the slowest, of {broker_set(slowest)}, took {duration(slowest['total_s'])} until {last} showed it"
    missing = [row for row in rows if row["missing"]]
    if missing:
        answer += f"; {counted(len(missing), 'lacks', 'lack')} a moment that no server recorded"
    lost = [row for row in rows if row["new_master"] is None]
    return f"{answer}; {len(lost)} ended without a master." if lost else f"{answer}."


def _id(broker_id: int | None) -> str:
    return "nobody" if broker_id is None else str(broker_id)


_FAILOVERS: Final[Columns] = {
    "failover": _name,
    "master": lambda row: f"{_id(row['old_master'])} to {_id(row['new_master'])}",
    "elected": lambda row: time_text(row["elected"]),
    "cause": lambda row: str(row["cause"] or "not recorded"),
    **alike(duration, "#until found dead: detect_s, #until shown by all: total_s"),
    # Results of releases before have no such column.
    "#until its role addresses lead there": lambda row: duration(row.get("address_total_s")),
    "slowest": lambda row: str(row["slowest_namesrv"] or "nobody"),
    "missing": lambda row: ", ".join(row["missing"] or ()) or "nothing",
}


def storms(result: JobResult) -> Section:
    """When many brokers registered at once."""
    title = "Registrations at once"
    rows = sorted(result.rows, key=lambda row: -row["brokers"])
    if not rows:
        answer = "No NameServer recorded that brokers registered in great numbers at once."
        return Section(answer, [nothing(title, "no storm")])
    real = [row for row in rows if row["cause"] == "brokers"]
    worst = rows[0]
    answer = (
        f"{counted(len(real), 'storm')} of restarted brokers and {len(rows) - len(real)} of NameServers that started "
        f"or had lost their network; the largest had {counted(worst['brokers'], 'broker')} "
        f"within {duration(worst['seconds'])} on {time_text(worst['start'])}."
    )
    held = [row["loop_lag_max_ms"] for row in rows if row["loop_lag_max_ms"] is not None]
    if held:
        answer += f" Event loops were held for {duration_ms(max(held))} at most."
    when = ((str(row["cluster"]), _storm_mark(row)) for row in rows)
    sizes = [Bar(f"{time_text(row['start'])} {row['cluster']}", (row["brokers"],)) for row in rows]
    figures = [
        lanes(title, ("brokers restarted", "a NameServer started or had lost its network"), when, result.window),
        bars("Brokers in each storm", (), sizes, Axis("brokers")),
    ]
    return Section(answer, figures, [Table.of("Storms, the largest first", rows, _STORMS)])


def _storm_mark(row: Row) -> Mark:
    words = f"{counted(row['brokers'], 'broker')} from {time_text(row['start'])} to {time_text(row['end'])}"
    return Mark(*between(row, "start", "end"), ("brokers", "namesrv").index(row["cause"]), words)


_STORMS: Final[Columns] = {
    "from": lambda row: time_text(row["start"]),
    "cluster": "cluster",
    "cause": "cause",
    "#brokers": lambda row: number(row["brokers"]),
    "#of the cluster": lambda row: share(row["share"], 0),
    "#lasted": lambda row: duration(row["seconds"]),
    "#loop held": lambda row: duration_ms(row["loop_lag_max_ms"]),
    "#rejected": lambda row: number(row["rejected"]),
}

_METRICS: Final = {
    "interval_mean_ms": "mean interval",
    "interval_max_ms": "longest interval",
    "missed": "missed heartbeats",
    "topic_changes": "topic changes",
}


def anomalies(result: JobResult) -> Section:
    """When brokers behaved unlike themselves."""
    title = "Brokers unlike themselves"
    rows = sorted((row for row in result.rows if row["metric"] in _METRICS), key=lambda row: -abs(row["z"]))
    judged = sum(row["brokers"] or 0 for row in result.rows if row["metric"] == "judged")
    if not rows:
        if not judged or result.days < USUAL_FROM_DAYS:
            words = "Too little history to know how brokers usually behave."
            return Section(words, [nothing(title, TOO_LITTLE)])
        return Section(_as_usual(judged), [nothing(title, "no anomaly")])
    brokers = {broker(row) for row in rows}
    worst = rows[0]
    answer = (
        f"{counted(len(rows), 'anomaly', 'anomalies')} of {counted(len(brokers), 'broker')}; the strongest: "
        f"{_METRICS[worst['metric']]} of {broker(worst)} on {time_text(worst['start'])}."
    )
    when = ((broker(row), _anomaly_mark(row)) for row in rows)
    table = Table.of("Anomalies, the strongest first", rows, _ANOMALIES)
    return Section(answer, [lanes(title, tuple(_METRICS.values()), when, result.window)], [table])


def _anomaly_mark(row: Row) -> Mark:
    words = f"{_METRICS[row['metric']]} {number(row['value'], 1)}, usually {number(row['baseline'], 1)}"
    return Mark(*between(row, "start", "end"), list(_METRICS).index(row["metric"]), words)


_ANOMALIES: Final[Columns] = {
    "broker": broker,
    "what": lambda row: _METRICS[row["metric"]],
    **alike(time_text, "from: start, to: end"),
    "#value": lambda row: number(row["value"], 1),
    "#usually": lambda row: number(row["baseline"], 1),
    "#deviations": lambda row: number(row["z"], 1),
}


def _as_usual(judged: int) -> str:
    """Return that no broker of known usual behaviour differed."""
    if judged == 1:
        return "The 1 broker with enough history behaved as it always does."
    return f"Each of the {counted(judged, 'broker')} with enough history behaved as it always does."


def correlated_failures(result: JobResult) -> Section:
    """Who fails together."""
    title = "Brokers that are down in the same minutes"
    rows = sorted(result.rows, key=lambda row: (-row["jaccard"], -row["joint_minutes"]))
    if not rows:
        return Section("No brokers failed together.", [nothing(title, "no brokers failed together")])
    alike = [row for row in rows if row["jaccard"] >= TOGETHER]
    groups = together(_pair(row) for row in alike if row["joint_outages"] >= OFTEN)
    answer = f"{counted(len(rows), 'pair')} of brokers failed in part at the same time, none of them mostly."
    if alike:
        answer = (
            f"{counted(len(alike), 'pair')} of brokers failed together once: too little history to tell a shared cause "
            "from chance."
        )
    if groups:
        answer = "These fail together, as if they shared a rack, a switch or a power line: " + "; ".join(
            ", ".join(group) for group in groups[:5]
        )
    pairs = [Bar(" and ".join(_pair(row)), (100 * row["jaccard"],)) for row in rows]
    axis = Axis("of their minutes down they were down together, %", lambda value: f"{value:.0f}")
    table = Table.of("Pairs, the most alike first", rows, _PAIRS)
    return Section(f"{answer.rstrip('.')}.", [bars(title, (), pairs, axis)], [table])


def _pair(row: Row) -> tuple[str, str]:
    return in_cluster(row, str(row["broker_a"])), in_cluster(row, str(row["broker_b"]), "cluster_b")


_PAIRS: Final[Columns] = {
    "broker": lambda row: _pair(row)[0],
    "and": lambda row: _pair(row)[1],
    "#alike": lambda row: share(row["jaccard"], 0),
    **alike(number, "#minutes together: joint_minutes, #times: joint_outages, #minutes of the one: minutes_a"),
    **alike(number, "#of the other: minutes_b"),
}


def together(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the groups that pairs hold together, the largest first."""
    group_of: dict[str, set[str]] = {}
    for a, b in pairs:
        merged = group_of.get(a, {a}) | group_of.get(b, {b})
        group_of.update(dict.fromkeys(merged, merged))
    groups: Mapping[frozenset[str], None] = dict.fromkeys(frozenset(group) for group in group_of.values())
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group))
