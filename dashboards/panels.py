"""What a board is made of, as plain values: panels in rows, variables, annotations.

No Grafana here: `grafana.py` turns these into its JSON. So a board reads as what it asks, and tests read it too.
"""

from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import partial
from typing import Final

#: Grafana's grid is this wide.
GRID_WIDTH: Final = 24

#: Where a number begins to be of this colour; the first colour needs no bound.
Limits = tuple[tuple[float | None, str], ...]

NO_LIMIT: Final[Limits] = ()


class Kind(Enum):
    """How a panel shows its numbers; the values are Grafana's names of its panels."""

    STAT = "stat"
    LINES = "timeseries"
    STATES = "state-timeline"
    TABLE = "table"
    HEATMAP = "heatmap"
    NOTE = "text"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression; `legend` names its series, by their labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """What is shown in place of one value."""

    value: int
    text: str
    color: str


@dataclass(frozen=True, slots=True)
class Link:
    """From a number to another board; `label` is the label that chooses there, by the variable of the same name."""

    title: str
    uid: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table; those that are not named are hidden."""

    #: A label; or `Value`, with more than one query `Value #A`, `Value #B` and so on.
    source: str
    title: str
    unit: str = "short"
    limits: Limits = NO_LIMIT
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One question and the numbers that answer it; `stat`, `lines` and so on make one of that kind."""

    kind: Kind
    title: str
    #: What it shows, and when to worry. Of a note: all of its text.
    description: str
    queries: tuple[Query, ...] = ()
    _: KW_ONLY
    #: One of Grafana's units.
    unit: str = "short"
    limits: Limits = NO_LIMIT
    words: tuple[Word, ...] = ()
    links: tuple[Link, ...] = ()
    #: Of a table.
    columns: tuple[TableColumn, ...] = ()
    stacked: bool = False
    width: int = 8
    height: int = 8


stat = partial(Panel, Kind.STAT)
lines = partial(Panel, Kind.LINES)
states = partial(Panel, Kind.STATES)
table = partial(Panel, Kind.TABLE)
heatmap = partial(Panel, Kind.HEATMAP)


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a common heading; those of a collapsed row are asked for only when it is opened."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of a board: all values of one label of one metric."""

    name: str
    title: str
    metric: str
    label: str
    #: Selectors that narrow the choice by another one, as `cluster=~"$cluster"`.
    within: str = ""
    #: Whether exactly one is chosen; else several may be, or all.
    single: bool = False

    @property
    def query(self) -> str:
        """How Grafana asks for the values."""
        selector = f"{self.metric}{{{self.within}}}" if self.within else self.metric
        return f"label_values({selector}, {self.label})"


@dataclass(frozen=True, slots=True)
class Annotation:
    """Moments that are marked in every panel of a board: whenever the expression has a value."""

    name: str
    expr: str
    #: What stands at the mark, with labels in double braces.
    text: str
    color: str


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
    variables: tuple[Variable, ...] = ()
    annotations: tuple[Annotation, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels, in order."""
        return tuple(panel for row in self.rows for panel in row.panels)


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
