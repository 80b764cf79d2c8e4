"""What a board is made of, and the JSON that Grafana reads: the classic model, which every Grafana from 10 on takes."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from dashboards.promql import Query

#: What a panel, a variable or an annotation is in Grafana's JSON.
Json = dict[str, Any]

#: Where a number begins to be of this colour; the first colour needs no bound.
Limits = tuple[tuple[float | None, str], ...]

#: Whatever Prometheus the reader has chosen; no board names one of its own.
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

_GRID_WIDTH: Final = 24
_TAG: Final = "rocketmq"


class Word(NamedTuple):
    """What is shown in place of one value."""

    value: int
    text: str
    color: str


class Link(NamedTuple):
    """From a number to another board; `label` is the label that chooses there, by the variable of the same name."""

    title: str
    uid: str
    label: str | None = None


class TableColumn(NamedTuple):
    """One column of a table; those that are not named are hidden."""

    #: A label; or `Value`, with more than one query `Value #A`, `Value #B` and so on.
    source: str
    title: str
    unit: str = "short"
    limits: Limits = ()


class Row(NamedTuple):
    """Panels under a common heading; `row` makes one."""

    title: str
    panels: tuple[Json, ...]
    collapsed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard: a reader with a question."""

    uid: str
    title: str
    #: What it answers, in a sentence.
    question: str
    #: What to do when something is red: Markdown.
    when_red: str
    rows: tuple[Row, ...]
    variables: tuple[Json, ...] = ()
    annotations: tuple[Json, ...] = ()


def row(title: str, *panels: Json, collapsed: bool = False) -> Row:
    """Return panels under a common heading; those of a collapsed row are asked for only when it is opened."""
    return Row(title, panels, collapsed)


def worse_above(warning: float, bad: float) -> Limits:
    """Return limits of a number that shall stay small."""
    return ((None, "green"), (warning, "orange"), (bad, "red"))


def bad_above(bad: float) -> Limits:
    """Return limits of a number that is good or bad, with nothing between; small is good."""
    return ((None, "green"), (bad, "red"))


def good_from(good: float) -> Limits:
    """Return limits of a number that is bad until it reaches `good`."""
    return ((None, "red"), (good, "green"))


def better_above(fair: float, good: float) -> Limits:
    """Return limits of a number that shall be large."""
    return ((None, "red"), (fair, "orange"), (good, "green"))


# Panels

_LEGEND: Final = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
_BY_LIMITS: Final = {"color": {"mode": "thresholds"}}
_COLORS: Final = {"exponent": 0, "fill": "", "mode": "scheme", "reverse": False, "scheme": "Oranges", "steps": 64}
_LINES: Final[Json] = {"fillOpacity": 5, "showPoints": "never", "spanNulls": False}

#: Grafana's name of a panel -> its options.
_OPTIONS: Final[Mapping[str, Json]] = {
    "stat": {"colorMode": "background", "graphMode": "area", "percentChangeColorMode": "standard", "wideLayout": True}
    | {"justifyMode": "auto", "orientation": "auto", "textMode": "auto"}
    | {"reduceOptions": {"calcs": ["lastNotNull"]}, "showPercentChange": False},
    "timeseries": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "asc"}},
    "state-timeline": {"legend": _LEGEND, "tooltip": {"mode": "single", "sort": "asc"}}
    | {"alignValue": "left", "mergeValues": True, "perPage": 20, "rowHeight": 0.9, "showValue": "auto"},
    "heatmap": {"calculate": False, "cellGap": 1, "color": _COLORS, "exemplars": {"color": "rgba(255,0,255,0.7)"}}
    | {"filterValues": {"le": 1e-09}, "legend": {"show": True}, "selectionMode": "x", "showValue": "auto"}
    | {"tooltip": {"mode": "single"}},
    "table": {"cellHeight": "sm", "footer": {"countRows": False, "reducer": [], "show": False}}
    | {"frameIndex": 0, "showHeader": True, "showTypeIcons": False},
}
#: The same -> what its fields have by default.
_DEFAULTS: Final[Mapping[str, Json]] = {
    "stat": _BY_LIMITS,
    "timeseries": {"color": {"mode": "palette-classic"}, "min": 0, "custom": _LINES},
    "state-timeline": _BY_LIMITS | {"custom": {"fillOpacity": 70, "lineWidth": 0}},
    "heatmap": {"custom": {}},
    "table": {"custom": {"align": "auto", "inspect": False}},
}


def _panel(
    kind: str,
    title: str,
    description: str,
    *queries: Query,
    unit: str = "",
    limits: Limits = (),
    words: Sequence[Word] = (),
    links: Iterable[Link] = (),
    columns: Sequence[TableColumn] = (),
    stacked: bool = False,
    width: int = 8,
    height: int = 8,
) -> Json:
    """Return one question and the numbers that answer it; `description` also says when to worry.

    `unit` is one of Grafana's, where it is not that of the first query; `columns` are those of a table.
    """
    unit = unit or queries[0].unit
    options, defaults = _OPTIONS[kind], _DEFAULTS[kind]
    if kind == "heatmap":
        options = options | {"yAxis": {"unit": unit}}
    if stacked:
        defaults = defaults | {"custom": _LINES | {"fillOpacity": 25, "stacking": {"mode": "normal"}}}
    if kind == "timeseries" and limits:
        defaults = defaults | {"custom": defaults["custom"] | {"thresholdsStyle": {"mode": "dashed"}}}
    if words:
        shown = {str(word.value): {"text": word.text, "color": word.color, "index": n} for n, word in enumerate(words)}
        defaults = defaults | {"mappings": [{"type": "value", "options": shown}]}
    defaults = defaults | {"links": [_data_link(link, kind) for link in links]}
    built = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": _SOURCE,
        "options": options,
        "fieldConfig": {
            "defaults": defaults | {"thresholds": _thresholds(limits), "unit": unit},
            "overrides": [_override(column) for column in columns],
        },
        "targets": [_target(query, kind, chr(ord("A") + place)) for place, query in enumerate(queries)],
    }
    if columns:
        built["transformations"] = _arranged(columns)
    return built | _sized(width, height)


def _sized(width: int, height: int) -> Json:
    return {"gridPos": {"w": width, "h": height}, "repeatDirection": "h", "transparent": False}


stat = partial(_panel, "stat")
lines = partial(_panel, "timeseries")
states = partial(_panel, "state-timeline")
table = partial(_panel, "table")
heatmap = partial(_panel, "heatmap")


def _target(query: Query, kind: str, ref_id: str) -> Json:
    target: Json = {"datasource": _SOURCE, "expr": query.expr, "refId": ref_id}
    if kind == "table":
        return target | {"format": "table", "instant": True, "range": False}
    target |= {"instant": False, "range": True, "legendFormat": query.legend or "__auto"}
    return target | {"format": "heatmap"} if kind == "heatmap" else target


def _thresholds(limits: Limits) -> Json:
    steps = [{"value": bound, "color": color} for bound, color in limits or ((None, "blue"),)]
    return {"mode": "absolute", "steps": steps}


def _override(column: TableColumn) -> Json:
    properties: Json = {"unit": column.unit}
    if column.limits:
        properties["thresholds"] = _thresholds(column.limits)
        properties["custom.cellOptions"] = {"type": "color-background"}
    changed = [{"id": name, "value": value} for name, value in properties.items()]
    return {"matcher": {"id": "byName", "options": column.title}, "properties": changed}


def _arranged(columns: Sequence[TableColumn]) -> list[Json]:
    names = [column.source for column in columns]
    arranged = {
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": {column.source: column.title for column in columns},
    }
    return [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": names}}},
        {"id": "organize", "options": arranged},
    ]


# Links, variables, annotations


#: A link as Grafana has it, of one panel or of all boards.
_LINK: Final[Json] = {"asDropdown": False, "icon": "", "tags": [], "targetBlank": False, "tooltip": ""}
_LINK_TO_ALL: Final = _LINK | {"asDropdown": True, "includeVars": True, "keepTime": True, "tags": [_TAG]}


def _data_link(link: Link, kind: str) -> Json:
    """Lead to another board with the same time, the same Prometheus, and what was clicked on."""
    url = f"/d/{link.uid}?${{__url_time_range}}&${{datasource:queryparam}}"
    if link.label:
        # In a table the labels of a series are fields of its row.
        value = f"__data.fields.{link.label}" if kind == "table" else f"__field.labels.{link.label}"
        url += f"&var-{link.label}=${{{value}}}"
    own = {"includeVars": False, "keepTime": False, "placement": "inControlsMenu"}
    return _LINK | own | {"title": link.title, "type": "link", "url": url}


#: A choice as Grafana has it: of one thing.
_CHOICE: Final[Json] = {
    "allowCustomValue": True,
    "auto": False,
    "auto_count": 30,
    "auto_min": "10s",
    "skipUrlSync": False,
}
_ONE: Final = _CHOICE | {"includeAll": False, "multi": False}
_SOURCE_CHOICE: Final = _ONE | {
    "name": "datasource",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
}
_ALL_CHOSEN: Final = {"selected": True, "text": "All", "value": "$__all"}
_SEVERAL: Final = _CHOICE | {"includeAll": True, "multi": True, "allValue": ".*", "current": _ALL_CHOSEN}


def variable(name: str, title: str, metric: str, label: str, *, within: str = "", single: bool = False) -> Json:
    """Return a choice at the top of a board: the values of one label of one metric, several or all of them.

    `within` are selectors that narrow the choice by another one, as `cluster=~"$cluster"`; `single`: exactly one.
    """
    query = f"label_values({metric}{{{within}}}, {label})" if within else f"label_values({metric}, {label})"
    return (_ONE if single else _SEVERAL) | {
        "name": name,
        "label": title,
        "type": "query",
        "datasource": _SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery", "qryType": 1},
        "refresh": 2,
        "sort": 7,
    }


def annotation(name: str, expr: str, text: str, color: str) -> Json:
    """Return moments that are marked in every panel of a board: whenever the expression has a value.

    `text` stands at the mark, with labels in double braces.
    """
    marked = {"name": name, "titleFormat": name, "expr": expr, "textFormat": text, "iconColor": color}
    return marked | {"datasource": _SOURCE, "enable": True, "hide": False, "builtIn": 0}


# Boards


def as_json(board: Board) -> str:
    """Return a board as Grafana's JSON, ending with a line break."""
    whole = {
        "uid": board.uid,
        "title": board.title,
        "description": board.question,
        "tags": [_TAG],
        "links": [_LINK_TO_ALL | {"title": "RocketMQ", "type": "dashboards"}],
        "templating": {"list": [_SOURCE_CHOICE, *board.variables]},
        "annotations": {"list": board.annotations},
        "panels": _panels(board),
    }
    shown = {"timezone": "browser", "refresh": "30s", "time": {"from": "now-3h", "to": "now"}, "graphTooltip": 1}
    model = {"schemaVersion": 42, "editable": False, "fiscalYearStartMonth": 0}
    return json.dumps(whole | shown | model, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _panels(board: Board) -> list[Json]:
    """Return headings and panels, each with its number and its place on the grid: from left to right, line by line."""
    numbers = itertools.count(1)
    panels: list[Json] = []
    top = 0
    for row in (_explained(board), *board.rows):
        heading = {"type": "row", "title": row.title, "collapsed": row.collapsed, "id": next(numbers)}
        heading["gridPos"] = {"x": 0, "y": top, "w": _GRID_WIDTH, "h": 1}
        placed: list[Json] = []
        left, line, below = 0, top + 1, top + 1
        for panel in row.panels:
            size = panel["gridPos"]
            if left + size["w"] > _GRID_WIDTH:
                left, line = 0, below
            placed.append(panel | {"id": next(numbers), "gridPos": size | {"x": left, "y": line}})
            left, below = left + size["w"], max(below, line + size["h"])
        # What follows a collapsed row stands below its heading; its panels take room only when it is opened.
        heading["panels"] = placed if row.collapsed else []
        panels += [heading] if row.collapsed else [heading, *placed]
        top = top + 1 if row.collapsed else below
    return panels


def _explained(board: Board) -> Row:
    """Return the first row of every board: what it answers, and what to do when something is red."""
    words = f"**{board.question}**\n\n{board.when_red}"
    note = {"type": "text", "title": "", "options": {"mode": "markdown", "content": words}}
    return row("What this board answers", note | _sized(_GRID_WIDTH, 4))
