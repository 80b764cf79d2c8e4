"""The section about what is left of what the servers live on."""

from typing import Final

from analytics.reporting.figures import BYTES, Axis, Figure, Line, lines, nothing
from analytics.reporting.page import Columns, Section, Table
from analytics.reporting.results import JobResult
from analytics.reporting.wording import Row, amount, brief, duration

_DAY_S: Final = 86_400
_AHEAD: Final = 30

_NAMES: Final = {"resident_memory_bytes": "memory", "etcd_db_bytes": "etcd's database"}


def capacity(result: JobResult) -> Section:
    """How long the servers can go on."""
    rows = sorted(result.rows, key=lambda row: (row["days_left"] is None, row["days_left"] or 0, _name(row)))
    if not rows:
        return Section("No server recorded its usage.", [nothing("Use by day", "no server recorded it")])
    ending = [row for row in rows if row["days_left"] is not None]
    answer = "No resource reaches its limit, as far as known."
    if ending:
        left = duration(ending[0]["days_left"] * _DAY_S)
        answer = f"If it goes on so, the first limit is reached in {left}, by the {_name(ending[0])}."
    if all(row["slope_day"] is None for row in rows):
        answer = "Too little history: a trend needs four days."
    figures = [_figure(row) for row in sorted(rows, key=_importance)[:_FIGURES]]
    return Section(answer, figures, [Table.of("What is used, and where it ends", rows, _USE)])


_FIGURES: Final = 6


def _importance(row: Row) -> tuple[bool, float, bool, str]:
    return row["days_left"] is None, row["days_left"] or 0, row["limit"] is None, _name(row)


def _name(row: Row) -> str:
    servers = "NameServers" if row["source"] == "namesrv" else "controllers"
    return f"{_NAMES.get(row['resource'], row['resource'])} of the {servers}"


def _in_bytes(row: Row) -> bool:
    return str(row["resource"]).endswith("bytes")


def _axis(row: Row, limit: float | None) -> Axis:
    title = "bytes" if _in_bytes(row) else str(row["resource"])
    label = title if limit is None else f"{title}; dashed: the limit"
    return Axis(label, amount, limit, BYTES) if _in_bytes(row) else Axis(label, brief, limit)


def _figure(row: Row) -> Figure:
    days = [day * _DAY_S for day in row["history_days"]]
    used = Line(0, tuple(zip(days, row["history"], strict=True)))
    shown = [used]
    legend: tuple[str, ...] = ("used",)
    if row["slope_day"] is not None:
        last, ahead = days[-1], days[-1] + _AHEAD * _DAY_S
        # From the trend of today on: wild days do not bend it.
        now = row["in_30d"] - _AHEAD * row["slope_day"]
        shown.append(
            Line(1, ((last, now), (ahead, row["in_30d"])), ((last, now, now), (ahead, row["p10"], row["p90"])))
        )
        legend = ("used", "if it goes on so; shaded: with a probability of 80 %")
    highest = max((*row["history"], row["in_30d"] or 0, 1))
    # A limit that is far away would press everything else to the ground.
    limit = row["limit"] if row["limit"] is not None and row["limit"] < 5 * highest else None
    name = _name(row)
    return lines(f"{name[0].upper()}{name[1:]} by day", legend, shown, _axis(row, limit))


def _amount(row: Row, name: str) -> str:
    return amount(row[name]) if _in_bytes(row) else brief(row[name])


_USE: Final[Columns] = {
    "what": _name,
    "#now": lambda row: _amount(row, "now"),
    "#more each day": lambda row: _amount(row, "slope_day"),
    "#in 30 days": lambda row: _amount(row, "in_30d"),
    "#at least": lambda row: _amount(row, "p10"),
    "#at most": lambda row: _amount(row, "p90"),
    "#limit": lambda row: _amount(row, "limit"),
    "#days left": lambda row: brief(row["days_left"]),
}
