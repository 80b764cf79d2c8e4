"""Every PromQL expression of the boards and rules, and what it asks for."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import promql_parser
import yaml

ROOT = Path(__file__).parents[2] / "dashboards"
#: The control plane of which boards are asked.
PLANE = "here"
BOARDS = sorted((ROOT / "json").glob("*.json"))
RULES = sorted((ROOT / "prometheus").glob("*.yaml"))
UNIT_TESTS = sorted((ROOT / "prometheus/tests").glob("*.yaml"))
RUNBOOKS = ROOT / "runbooks"

#: label_values(metric{selector}, label), as Grafana asks for the values of a variable.
VARIABLE_QUERY = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
LEGEND_LABEL = re.compile(r"{{(\w+)}}")


@dataclass(frozen=True)
class Expression:
    """One expression with its place."""

    where: str
    expr: str
    legend: str = ""

    @property
    def plain(self):
        """As Grafana would send it, with everything chosen."""
        return filled(self.expr)


def filled(text, *, window_s=60, chosen=".*"):
    """Put something in the place of Grafana's variables; PromQL has no `$`."""
    text = text.replace("$plane", PLANE).replace("$__interval_ms", str(1000 * window_s))
    text = text.replace("$__rate_interval", f"{window_s}s").replace("$__interval", f"{window_s}s")
    return re.sub(r"\$\w+", chosen, text)


def boards():
    """Return the boards as their files have them."""
    return [json.loads(path.read_text()) for path in BOARDS]


def panels_of(board):
    """Return all panels, those of collapsed rows and the rows themselves too."""
    return [each for panel in board["panels"] for each in (panel, *panel.get("panels", ()))]


def of_panels():
    return [
        Expression(
            f"{board['uid']} / {panel['title']} / {target['refId']}", target["expr"], target.get("legendFormat", "")
        )
        for board in boards()
        for panel in panels_of(board)
        for target in panel.get("targets", ())
    ]


def of_annotations():
    return [
        Expression(f"{board['uid']} / mark {annotation['name']}", annotation["expr"], annotation["textFormat"])
        for board in boards()
        for annotation in board["annotations"].get("list", ())
    ]


def variables():
    """Return (place, series selector, label) of every variable that is asked for."""
    return [
        (f"{board['uid']} / ${variable['name']}", found["series"], found["label"])
        for board in boards()
        for variable in board["templating"]["list"]
        if variable["type"] == "query"
        for found in [VARIABLE_QUERY.fullmatch(variable["definition"])]
    ]


@cache
def rules():
    """Return every rule with the name of its file."""
    return [
        (path.name, rule)
        for path in RULES
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    ]


def alerts():
    return [rule for _, rule in rules() if "alert" in rule]


def of_rules():
    return [Expression(f"{file} / {rule.get('alert') or rule['record']}", rule["expr"]) for file, rule in rules()]


def everything():
    return [*of_panels(), *of_annotations(), *of_rules()]


@dataclass(frozen=True)
class Needs:
    """What an expression asks for: (metric, labels that select it), and the labels that it sums or joins by."""

    selectors: tuple
    grouped_by: frozenset
    made: frozenset

    @property
    def metrics(self):
        return {name for name, _ in self.selectors}


def needs(expr):
    """Return what an expression asks for, by its syntax tree."""
    selectors, grouped_by, made = [], set(), set()

    def visit(node):
        match node:
            case promql_parser.VectorSelector():
                selectors.append((node.name, frozenset(matcher.name for matcher in node.matchers.matchers)))
            case promql_parser.AggregateExpr() if node.modifier is not None:
                grouped_by.update(node.modifier.labels)
            case promql_parser.BinaryExpr() if node.modifier is not None:
                grouped_by.update(getattr(node.modifier.matching, "labels", ()), node.modifier.group_labels or ())
            case promql_parser.Call() if node.func.name == "label_replace":
                made.add(node.args[1].val)
        return True

    promql_parser.walk(promql_parser.parse(expr), visit)
    return Needs(tuple(selectors), frozenset(grouped_by), frozenset(made))


def aggregates(expr):
    """Return the labels by which each aggregation of an expression counts: none, if over everything."""
    found = []

    def visit(node):
        if isinstance(node, promql_parser.AggregateExpr):
            found.append(set(node.modifier.labels) if node.modifier is not None else set())
        return True

    promql_parser.walk(promql_parser.parse(expr), visit)
    return found


def joins(expr):
    """Return the labels of each join of an expression that names them."""
    found = []

    def visit(node):
        if isinstance(node, promql_parser.BinaryExpr) and node.modifier is not None and node.modifier.matching:
            found.append(set(node.modifier.matching.labels))
        return True

    promql_parser.walk(promql_parser.parse(expr), visit)
    return found
