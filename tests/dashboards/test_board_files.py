"""What can be said about boards without Grafana: their files, their layout, and what their expressions ask for."""

import itertools
import json
import re

import pytest
from board_expressions import (
    BOARDS,
    LEGEND_LABEL,
    everything,
    filled,
    needs,
    of_annotations,
    of_panels,
    panels_of,
    rules,
    variables,
)
from board_expressions import boards as read_boards
from exposed_metrics import DELIBERATELY_UNUSED, exposed, own_families

from dashboards.boards import BOARDS as WRITTEN
from dashboards.grafana import as_json

EXPOSED = exposed()
READ = {board["uid"]: board for board in read_boards()}

#: Panels of a row, and panels that hold text.
WITHOUT_NUMBERS = {"row", "text"}
UNITS = {"s", "d", "bytes", "binBps", "reqps", "ops", "percentunit", "short"}
GRID_WIDTH = 24


def with_numbers(board):
    return [panel for panel in panels_of(board) if panel["type"] not in WITHOUT_NUMBERS]


EACH_BOARD = pytest.mark.parametrize("board", READ.values(), ids=READ)
EACH_EXPRESSION = pytest.mark.parametrize("expression", everything(), ids=lambda expression: expression.where)


def test_the_files_are_what_the_generator_writes():
    written = {f"{board.uid}.json": as_json(board) for board in WRITTEN}
    found = {path.name: path.read_text() for path in BOARDS}
    assert found == written, "python -m dashboards.generate"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@EACH_BOARD
def test_grafanas_own_sdk_knows_all_that_is_in_a_board(board):
    from grafana_foundation_sdk.cog.encoder import JSONEncoder  # noqa: PLC0415 - it warns of the classic model
    from grafana_foundation_sdk.cog.plugins import register_default_plugins  # noqa: PLC0415
    from grafana_foundation_sdk.models.dashboard import Dashboard  # noqa: PLC0415

    def without_placement(read):
        # The SDK would hide links and annotations in a menu.
        return {name: value for name, value in read.items() if name != "placement"}

    register_default_plugins()
    known = json.dumps(Dashboard.from_json(board), cls=JSONEncoder)
    assert json.loads(known, object_hook=without_placement) == json.loads(
        json.dumps(board), object_hook=without_placement
    )


@EACH_BOARD
def test_panels_lie_on_the_grid_and_not_on_each_other(board):
    for row in (board["panels"], *(panel.get("panels", []) for panel in board["panels"])):
        places = [panel["gridPos"] for panel in row]
        assert all(place["x"] >= 0 and place["x"] + place["w"] <= GRID_WIDTH for place in places)
        for one, other in itertools.combinations(places, 2):
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
            assert beside or above, (one, other)


@EACH_BOARD
def test_every_number_has_a_title_a_description_and_a_unit(board):
    for panel in with_numbers(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]


@EACH_BOARD
def test_no_board_names_a_data_source_of_its_own(board):
    asking = [*(t for panel in panels_of(board) for t in panel.get("targets", ())), *with_numbers(board)]
    asking += [*board["annotations"].get("list", ()), *(v for v in board["templating"]["list"] if "definition" in v)]
    assert {each["datasource"]["uid"] for each in asking} == {"${datasource}"}


@EACH_BOARD
def test_every_variable_is_used_and_no_unknown_one_is(board):
    names = {variable["name"] for variable in board["templating"]["list"]}
    text = " ".join(
        [
            *(target["expr"] for panel in panels_of(board) for target in panel.get("targets", ())),
            *(v["definition"] for v in board["templating"]["list"] if "definition" in v),
        ]
    )
    used = {name for name in re.findall(r"\$(\w+)", text) if not name.startswith("__")}
    assert used == names - {"datasource"}
    for variable in board["templating"]["list"]:
        if variable["name"] != "datasource":
            several = (True, True, ".*") if variable["name"] != "plane" else (False, False, None)
            assert (variable["multi"], variable["includeAll"], variable.get("allValue")) == several


@EACH_BOARD
def test_links_lead_to_boards_that_there_are_and_carry_the_time(board):
    links = [link for panel in with_numbers(board) for link in panel["fieldConfig"]["defaults"].get("links", ())]
    for link in links:
        uid, _, parameters = link["url"].removeprefix("/d/").partition("?")
        assert uid in READ, link
        assert "${__url_time_range}" in parameters
        assert "${datasource:queryparam}" in parameters
        chosen = {variable["name"] for variable in READ[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", parameters)) <= chosen, link


@EACH_BOARD
def test_no_board_mentions_a_page_that_there_is_not(board):
    alerts = {rule["alert"] for _, rule in rules() if "alert" in rule}
    pages = re.search(r"Pages?: (.*)\.", board["panels"][1]["options"]["content"])
    if pages:
        assert set(re.findall(r"`(\w+)`", pages[1])) <= alerts


@pytest.mark.parametrize(
    ("where", "expr"),
    [
        *((expression.where, expression.plain) for expression in (*of_panels(), *of_annotations())),
        *((where, filled(series)) for where, series, label in variables() if label != "plane"),
    ],
    ids=lambda value: value,
)
def test_a_board_is_about_one_plane(where, expr):
    assert all("plane" in labels for _, labels in needs(expr).selectors), where


@EACH_EXPRESSION
def test_expression_queries_exposed_metrics(expression):
    wanted = needs(expression.plain)
    assert wanted.selectors or expression.where.endswith(" / RocketMQWatchdog")
    there = {label for name in wanted.metrics for label in EXPOSED.get(name, ())}
    for name, labels in wanted.selectors:
        assert name in EXPOSED, f"nobody exposes {name}"
        assert labels <= EXPOSED[name], f"{name} has only {EXPOSED[name]}"
    assert wanted.grouped_by <= there | wanted.made


@pytest.mark.parametrize("expression", of_panels(), ids=lambda expression: expression.where)
def test_rate_has_the_window_that_grafana_chooses(expression):
    windows = set(re.findall(r"\[([^\]]+)\]", expression.expr))
    assert windows <= {"$__rate_interval", "1h"}


@pytest.mark.parametrize("expression", [*of_panels(), *of_annotations()], ids=lambda expression: expression.where)
def test_a_legend_names_labels_that_the_series_have(expression):
    wanted = needs(expression.plain)
    there = {label for name in wanted.metrics for label in EXPOSED[name]}
    assert set(LEGEND_LABEL.findall(expression.legend)) <= there


@pytest.mark.parametrize(("where", "series", "label"), variables(), ids=lambda value: value)
def test_variable_queries_an_exposed_label(where, series, label):
    ((name, labels),) = needs(re.sub(r"\$\w+", ".*", series)).selectors
    assert labels | {label} <= EXPOSED[name]


def test_every_exposed_metric_is_used_or_left_out_for_a_reason():
    expression = {name for each in everything() for name in needs(each.plain).metrics}
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in expression} | expression
    unused = own_families() - used
    assert unused == DELIBERATELY_UNUSED.keys()
    assert all(reason.endswith(".") for reason in DELIBERATELY_UNUSED.values())
