"""Turns boards into the JSON that Grafana reads, by its own SDK; nothing else knows the SDK.

The classic model of dashboards, which every Grafana from 10 on takes and which files are provisioned in. The SDK would
rather be asked for the next model, and says so when it is imported.
"""

import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from dashboards.panels import (
    GRID_WIDTH,
    Annotation,
    Board,
    Kind,
    Limits,
    Link,
    Panel,
    Query,
    Row,
    TableColumn,
    Variable,
    Word,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import common as common_builders
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.builders import heatmap, prometheus, stat, statetimeline, table, text, timeseries
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common, dashboard
    from grafana_foundation_sdk.models import heatmap as heatmap_models
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat
    from grafana_foundation_sdk.models.text import TextMode

#: Whatever Prometheus the reader has chosen; no board names one of its own.
_SOURCE: Final = common.DataSourceRef("prometheus", "${datasource}")

_TAG: Final = "rocketmq"
_ROW_HEIGHT: Final = 1
_NOTE_HEIGHT: Final = 4
_REFRESH: Final = "30s"
_SINCE: Final = "now-3h"

#: The SDK's builders of panels have the same setters and no common type.
Shown = TypeVar("Shown", stat.Panel, timeseries.Panel, statetimeline.Panel, table.Panel, heatmap.Panel)


def as_json(board: Board) -> str:
    """Return a board as Grafana's JSON, ending with a line break."""
    return json.dumps(_dashboard(board), cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _dashboard(board: Board) -> dashboard.Dashboard:
    built = (
        builders.Dashboard(board.title)
        .uid(board.uid)
        .description(board.question)
        .tags([_TAG])
        .timezone("browser")
        .refresh(_REFRESH)
        .time(_SINCE, "now")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .variables([_source_variable(), *map(_variable, board.variables)])
        .annotations(list(map(_annotation, board.annotations)))
        .link(_links_to_all())
        .build()
    )
    built.panels = list(_panels(board))
    for shown in (*(built.links or ()), *(built.annotations.list_val or ())):
        # Else the SDK hides them in a menu.
        shown.placement = None
    return built


def _panels(board: Board) -> Iterator[dashboard.Panel | dashboard.RowPanel]:
    """Yield headings and panels, each with its number and its place on the grid."""
    numbers = itertools.count(1)
    top = 0
    for row in (_explained(board), *board.rows):
        heading = builders.Row(row.title).id(next(numbers)).collapsed(row.collapsed).build()
        heading.grid_pos = dashboard.GridPos(x=0, y=top, w=GRID_WIDTH, h=_ROW_HEIGHT)
        top += _ROW_HEIGHT
        placed, below = _placed(row, top, numbers)
        heading.panels = placed if row.collapsed else []
        yield heading
        if row.collapsed:
            # What follows stands below the heading; its panels take room only when it is opened.
            continue
        yield from placed
        top = below


def _explained(board: Board) -> Row:
    """Return the first row of every board: what it answers, and what to do when something is red."""
    words = f"**{board.question}**\n\n{board.when_red}"
    note = Panel(kind=Kind.NOTE, title="", description=words, width=GRID_WIDTH, height=_NOTE_HEIGHT)
    return Row("What this board answers", (note,))


def _placed(row: Row, top: int, numbers: Iterator[int]) -> tuple[list[dashboard.Panel], int]:
    """Return the panels of a row from left to right, line by line, and where the next row begins."""
    panels: list[dashboard.Panel] = []
    left, below = 0, top
    for panel in row.panels:
        if left + panel.width > GRID_WIDTH:
            left, top = 0, below
        built = _BUILD[panel.kind](panel)
        built.id_val = next(numbers)
        built.grid_pos = dashboard.GridPos(x=left, y=top, w=panel.width, h=panel.height)
        panels.append(built)
        left, below = left + panel.width, max(below, top + panel.height)
    return panels, below


# Panels


def _note(panel: Panel) -> dashboard.Panel:
    return text.Panel().title(panel.title).mode(TextMode.MARKDOWN).content(panel.description).build()


def _stat(panel: Panel) -> dashboard.Panel:
    shown = stat.Panel().color_mode(common.BigValueColorMode.BACKGROUND).graph_mode(common.BigValueGraphMode.AREA)
    last = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
    return _common(shown.reduce_options(last), panel).color_scheme(_by_limits()).build()


def _lines(panel: Panel) -> dashboard.Panel:
    shown = (
        timeseries.Panel()
        .fill_opacity(25 if panel.stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(False)
        .legend(_legend())
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if panel.stacked:
        shown = shown.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if panel.limits:
        dashed = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        shown = shown.thresholds_style(dashed)
    palette = builders.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC)
    return _common(shown, panel).min(0).color_scheme(palette).build()


def _states(panel: Panel) -> dashboard.Panel:
    shown = statetimeline.Panel().show_value(common.VisibilityMode.AUTO).merge_values(True).legend(_legend())
    return _common(shown, panel).color_scheme(_by_limits()).build()


def _heatmap(panel: Panel) -> dashboard.Panel:
    color = heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    axis = heatmap.YAxisConfig().unit(panel.unit)
    shown = heatmap.Panel().calculate(False).color(color).y_axis(axis)
    return _common(shown, panel).build()


def _table(panel: Panel) -> dashboard.Panel:
    names = [column.source for column in panel.columns]
    arranged = {
        "indexByName": {name: place for place, name in enumerate(names)},
        "renameByName": {column.source: column.title for column in panel.columns},
    }
    shown = (
        _common(table.Panel(), panel)
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            dashboard.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": names}})
        )
        .with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=arranged))
    )
    for column in panel.columns:
        shown = shown.override_by_name(column.title, _column(column))
    return shown.build()


def _column(column: TableColumn) -> list[dashboard.DynamicConfigValue]:
    properties: dict[str, object] = {"unit": column.unit}
    if column.limits:
        properties["thresholds"] = _thresholds(column.limits).build()
    if column.words:
        properties["mappings"] = _mappings(column.words)
    if column.limits or column.words:
        properties["custom.cellOptions"] = common.TableColoredBackgroundCellOptions()
    return [dashboard.DynamicConfigValue(name, value) for name, value in properties.items()]


_BUILD: Final[Mapping[Kind, Callable[[Panel], dashboard.Panel]]] = {
    Kind.NOTE: _note,
    Kind.STAT: _stat,
    Kind.LINES: _lines,
    Kind.STATES: _states,
    Kind.HEATMAP: _heatmap,
    Kind.TABLE: _table,
}


def _common(shown: Shown, panel: Panel) -> Shown:
    shown = (
        shown.title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .targets([_target(panel, place) for place in range(len(panel.queries))])
        .thresholds(_thresholds(panel.limits))
        .data_links([_data_link(link, panel.kind) for link in panel.links])
    )
    return shown.mappings(_mappings(panel.words)) if panel.words else shown


def _target(panel: Panel, place: int) -> Builder[Any]:
    query: Query = panel.queries[place]
    target = prometheus.Dataquery().expr(query.expr).ref_id(chr(ord("A") + place)).datasource(_SOURCE)
    if panel.kind is Kind.TABLE:
        return target.instant().format(PromQueryFormat.TABLE)
    target = target.range().legend_format(query.legend or "__auto")
    return target.format(PromQueryFormat.HEATMAP) if panel.kind is Kind.HEATMAP else target


def _thresholds(limits: Limits) -> builders.ThresholdsConfig:
    steps = [dashboard.Threshold(bound, color) for bound, color in limits or ((None, "blue"),)]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)


def _mappings(words: tuple[Word, ...]) -> list[dashboard.ValueMapping]:
    results = {
        str(word.value): dashboard.ValueMappingResult(text=word.text, color=word.color, index=place)
        for place, word in enumerate(words)
    }
    return [dashboard.ValueMap(results)]


def _by_limits() -> builders.FieldColor:
    return builders.FieldColor().mode(dashboard.FieldColorModeId.THRESHOLDS)


def _legend() -> common_builders.VizLegendOptions:
    return (
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
    )


# Links, variables, annotations


def _data_link(link: Link, kind: Kind) -> builders.DashboardLink:
    """Lead to another board with the same time, the same Prometheus, and what was clicked on."""
    url = f"/d/{link.uid}?${{__url_time_range}}&${{datasource:queryparam}}"
    if link.label:
        # In a table the labels of a series are fields of its row.
        value = f"__data.fields.{link.label}" if kind is Kind.TABLE else f"__field.labels.{link.label}"
        url += f"&var-{link.label}=${{{value}}}"
    return builders.DashboardLink(link.title).url(url)


def _links_to_all() -> builders.DashboardLink:
    return (
        builders.DashboardLink("RocketMQ")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([_TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _source_variable() -> builders.DatasourceVariable:
    return builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _variable(variable: Variable) -> builders.QueryVariable:
    built = (
        builders.QueryVariable(variable.name)
        .label(variable.title)
        .query({"query": variable.query, "refId": "PrometheusVariableQueryEditor-VariableQuery", "qryType": 1})
        .definition(variable.query)
        .datasource(_SOURCE)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
        .multi(not variable.single)
        .include_all(not variable.single)
    )
    if variable.single:
        return built
    return built.all_value(".*").current(dashboard.VariableOption(selected=True, text="All", value="$__all"))


def _annotation(annotation: Annotation) -> builders.AnnotationQuery:
    return (
        builders.AnnotationQuery()
        .name(annotation.name)
        .datasource(_SOURCE)
        .enable(True)
        .icon_color(annotation.color)
        .expr(annotation.expr)
        .title_format(annotation.name)
        .text_format(annotation.text)
    )
