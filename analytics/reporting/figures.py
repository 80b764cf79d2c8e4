"""Plots as SVG: drawn for a wide page and again for a narrow one, so that their letters can be read on both.

Colours come from classes, so that one drawing serves light and dark pages. Legends are HTML beside the drawing.
"""

import html
import math
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from analytics.reporting.wording import NOTHING, brief, duration

WIDE: Final = 760
NARROW: Final = 340

#: So many things are in a plot.
SHOWN: Final = 12

#: Letters are about so wide, px.
_LETTER: Final = 6.7
_LINE: Final = 16
_BAR: Final = 14

Format = Callable[[float], str]


class Figure(NamedTuple):
    """A plot before it is drawn."""

    title: str
    #: What it shows in words, for those who cannot see it.
    description: str
    #: Names of the series, in the order of their colours.
    legend: tuple[str, ...]
    #: From a width in px to the drawing and its height.
    draw: Callable[[int], tuple[str, float]]


#: Steps between the marks of an axis: 1, 2 and 5 times the powers of ten; times of day; powers of two.
DECIMAL: Final = tuple(float(f"{factor}e{power}") for power in range(-4, 18) for factor in (1, 2, 5))
DURATION: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3_600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400.0 * days for days in (1, 2, 5, 10, 20, 50, 100, 1000)),
)
BYTES: Final = tuple(2.0**power for power in range(60))

#: So many steps an axis has at most, on a narrow page; twice as many on a wide one.
_STEPS: Final = 3

#: From so many px on a plot is taken to be wide.
_ROOMY: Final = 400


class Axis(NamedTuple):
    """What is measured."""

    #: With its unit.
    title: str
    format: Format = brief
    #: A line across the plot, where something ends or was agreed.
    limit: float | None = None
    steps: Sequence[float] = DECIMAL


def duration_axis(title: str) -> Axis:
    """Return the axis of values in seconds."""
    return Axis(title, duration, steps=DURATION)


class Bar(NamedTuple):
    """One thing and its values, one for each series."""

    label: str
    values: tuple[float | None, ...]


class Mark(NamedTuple):
    """Something that lasted, Unix s, in the colour of a series."""

    start_s: float
    end_s: float
    series: int
    #: Shown when it is pointed at.
    words: str


class Lane(NamedTuple):
    """What happened to one thing."""

    label: str
    marks: tuple[Mark, ...]


class Line(NamedTuple):
    """Values over time: Unix s and value; `low` and `high` bound a shaded band around those values."""

    series: int
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


class _Plot(NamedTuple):
    """Where the values are in the drawing, px."""

    left: float
    right: float
    top: float
    bottom: float


def as_html(figure: Figure, name: str) -> str:
    """Return a figure with its legend, wide and narrow."""
    drawings = "".join(
        f'<div class="{size}">{_svg(figure, width, f"{name}-{size}")}</div>'
        for size, width in (("wide", WIDE), ("narrow", NARROW))
    )
    items = "".join(f'<li><span class="b{n}"></span>{html.escape(each)}</li>' for n, each in enumerate(figure.legend))
    legend = f'<ul class="legend">{items}</ul>' if figure.legend else ""
    return f"<figure><figcaption>{html.escape(figure.title)}</figcaption>{legend}{drawings}</figure>"


def _svg(figure: Figure, width: int, name: str) -> str:
    drawing, height = figure.draw(width)
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}" role="img" '
        f'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">{html.escape(figure.title)}</title>'
        f'<desc id="{name}-d">{html.escape(figure.description)}</desc>{drawing}</svg>'
    )


def nothing(title: str, words: str) -> Figure:
    """Return the plot of an empty result, with that text."""

    def draw(width: int) -> tuple[str, float]:
        box = f'<rect class="none" x="1" y="1" width="{width - 2}" height="58" rx="6"/>'
        return box + _text(width / 2, 35, words, "middle"), 60

    return Figure(title, words, (), draw)


def bars(title: str, legend: tuple[str, ...], rows: Sequence[Bar], axis: Axis) -> Figure:
    """Return bars beside each other, a group for each of the first things."""
    rows = rows[:SHOWN]
    highest = max((value for row in rows for value in row.values if value is not None), default=0)
    return Figure(title, _described(rows, legend, axis), legend, lambda width: _bars(width, rows, axis, highest))


def stacks(title: str, legend: tuple[str, ...], rows: Sequence[Bar], axis: Axis) -> Figure:
    """Return bars behind each other, one row for each of the first things."""
    rows = rows[:SHOWN]
    highest = max((sum(value or 0 for value in row.values) for row in rows), default=0)
    return Figure(title, _described(rows, legend, axis), legend, lambda width: _stacks(width, rows, axis, highest))


def lanes(
    title: str, legend: tuple[str, ...], marks: Iterable[tuple[str, Mark]], window: tuple[float, float]
) -> Figure:
    """Return when things happened, a lane for each of the first labels; of the window the part in which they did."""
    by_label: defaultdict[str, list[Mark]] = defaultdict(list)
    for label, mark in marks:
        by_label[label].append(mark)
    rows = [Lane(label, tuple(found)) for label, found in list(by_label.items())[:SHOWN]]
    description = "; ".join(f"{row.label}: {', '.join(mark.words for mark in row.marks[:5])}" for row in rows[:20])
    shown = _eventful(rows, window)
    return Figure(title, description, legend, lambda width: _lanes(width, rows, shown))


#: So much quiet is shown before and after what happened: of its length, and at least, s.
_QUIET_SHARE: Final = 0.1
_QUIET_MIN_S: Final = 60.0


def _eventful(rows: Sequence[Lane], window: tuple[float, float]) -> tuple[float, float]:
    """Return the part of a window in which something happened: minutes of a month would be a dash on its axis."""
    marks = [mark for row in rows for mark in row.marks]
    start = max(min((mark.start_s for mark in marks), default=window[0]), window[0])
    end = min(max((mark.end_s for mark in marks), default=window[1]), window[1])
    quiet = max((end - start) * _QUIET_SHARE, _QUIET_MIN_S)
    return max(start - quiet, window[0]), min(end + quiet, window[1])


def lines(title: str, legend: tuple[str, ...], rows: Sequence[Line], axis: Axis) -> Figure:
    """Return values over time."""
    last = "; ".join(f"{legend[row.series]}: {axis.format(row.points[-1][1])}" for row in rows if row.points)
    return Figure(title, f"{axis.title}, the newest: {last}", legend, lambda width: _lines(width, rows, axis))


def _described(rows: Sequence[Bar], legend: tuple[str, ...], axis: Axis) -> str:
    def one(row: Bar) -> str:
        values = [NOTHING if value is None else axis.format(value) for value in row.values]
        named = [f"{name} {value}" for name, value in zip(legend, values, strict=True)] if legend else values
        return f"{row.label} {', '.join(named)}"

    return f"{axis.title}. " + "; ".join(one(row) for row in rows)


# Bars


def _rows_of(width: int, labels: Sequence[str], row_height: float) -> tuple[_Plot, float, float]:
    """Return the plot, the height of one row, and how far below its beginning the bars begin.

    On a narrow page labels stand above their bars: beside them they would take half of it.
    """
    above = width < WIDE
    longest = max((len(label) for label in labels), default=0)
    left = 8.0 if above else min(longest * _LETTER + 14, 300)
    step = row_height + (_LINE if above else 0) + 8
    plot = _Plot(left, width - 64, 6, 6 + step * max(len(labels), 1))
    return plot, step, _LINE if above else 0


def _label(plot: _Plot, top: float, inset: float, label: str, room: float) -> str:
    if inset:
        return _text(2, top + 12, _cut(label, room), "start")
    return _text(plot.left - 8, top + 12, _cut(label, plot.left - 14), "end")


def _bars(width: int, rows: Sequence[Bar], axis: Axis, highest: float) -> tuple[str, float]:
    series = max((len(row.values) for row in rows), default=1)
    plot, step, inset = _rows_of(width, [row.label for row in rows], _BAR * series)
    scale = _Scale.upto(highest, axis)
    drawn = [_value_axis(plot, scale, axis)]
    for number, row in enumerate(rows):
        top = plot.top + number * step
        drawn.append(_label(plot, top, inset, row.label, width))
        for place, value in enumerate(row.values):
            if value is not None:
                y, end = top + inset + place * _BAR, scale.x(plot, value)
                drawn.append(_rect(plot.left, y, end - plot.left, _BAR - 2, place))
                drawn.append(_text(end + 4, y + 10, axis.format(value), "start", "value"))
    return "".join(drawn), _below(plot, axis.title)


def _stacks(width: int, rows: Sequence[Bar], axis: Axis, highest: float) -> tuple[str, float]:
    plot, step, inset = _rows_of(width, [row.label for row in rows], _BAR + 2)
    scale = _Scale.upto(highest, axis)
    drawn = [_value_axis(plot, scale, axis)]
    for number, row in enumerate(rows):
        top, end = plot.top + number * step, plot.left
        drawn.append(_label(plot, top, inset, row.label, width))
        for place, value in enumerate(row.values):
            # Clocks of different machines may say that a phase ended before it began.
            size = scale.x(plot, max(value or 0, 0)) - plot.left
            drawn.append(_rect(end, top + inset, size, _BAR, place))
            end += size
        total = sum(max(value or 0, 0) for value in row.values)
        drawn.append(_text(end + 4, top + inset + 11, axis.format(total), "start", "value"))
    return "".join(drawn), _below(plot, axis.title)


class _Scale(NamedTuple):
    """From values to px, from zero to a round number."""

    end: float
    step: float

    @classmethod
    def upto(cls, highest: float, axis: Axis) -> "_Scale":
        wanted = max(highest, axis.limit or 0) or 1
        step = next((step for step in axis.steps if wanted / step <= 2 * _STEPS), axis.steps[-1])
        return cls(math.ceil(wanted / step - 1e-9) * step, step)

    def x(self, plot: _Plot, value: float) -> float:
        return plot.left + (plot.right - plot.left) * min(max(value, 0), self.end) / self.end

    def y(self, plot: _Plot, value: float) -> float:
        return plot.bottom - (plot.bottom - plot.top) * min(max(value, 0), self.end) / self.end

    def ticks(self) -> list[float]:
        return [number * self.step for number in range(round(self.end / self.step) + 1)]


def _value_axis(plot: _Plot, scale: _Scale, axis: Axis) -> str:
    every = 1 if plot.right - plot.left > _ROOMY else 2
    drawn = []
    for tick in scale.ticks()[::every]:
        x = scale.x(plot, tick)
        drawn.append(f'<path class="grid" d="M{x:.1f} {plot.top:.1f}V{plot.bottom:.1f}"/>')
        drawn.append(_text(x, plot.bottom + 15, axis.format(tick), "middle" if tick else "start", "tick"))
    if axis.limit is not None:
        drawn.append(f'<path class="limit" d="M{scale.x(plot, axis.limit):.1f} {plot.top:.1f}V{plot.bottom:.1f}"/>')
    return "".join(drawn) + _axis_title(plot, axis.title)


def _axis_title(plot: _Plot, title: str) -> str:
    """Return the words below an axis, in as many lines as they need; `_below` leaves room for two."""
    middle, room = (plot.left + plot.right) / 2, (plot.right - plot.left) / _LETTER
    rows = textwrap.wrap(title, max(int(room), 10))
    return "".join(_text(middle, plot.bottom + 34 + 15 * n, row, "middle", "axis") for n, row in enumerate(rows))


def _below(plot: _Plot, title: str) -> float:
    """Return where a drawing ends, below the words of its axis."""
    rows = textwrap.wrap(title, max(int((plot.right - plot.left) / _LETTER), 10))
    return plot.bottom + 30 + 15 * len(rows)


# Time

_TIME_STEPS_S: Final = (
    *(1, 5, 15, 60, 300, 900, 1800),
    *(3600 * hours for hours in (1, 3, 6, 12)),
    *(86_400 * days for days in (1, 2, 7, 14, 28, 91, 364, 3640)),
)


def _time_axis(plot: _Plot, window: tuple[float, float]) -> str:
    start, end = window
    most = 7 if plot.right - plot.left > _ROOMY else 3
    step = next((step for step in _TIME_STEPS_S if (end - start) / step <= most), _TIME_STEPS_S[-1])
    style = _time_style(step, end - start)
    drawn = []
    for tick in range(math.ceil(start / step) * step, math.floor(end) + 1, step):
        x = _time_x(plot, window, tick)
        drawn.append(f'<path class="grid" d="M{x:.1f} {plot.top:.1f}V{plot.bottom:.1f}"/>')
        words = f"{datetime.fromtimestamp(tick, UTC):{style}}"
        # A label at the edge stays inside.
        place = min(max(x, len(words) * _LETTER / 2), plot.right + 22 - len(words) * _LETTER / 2)
        drawn.append(_text(place, plot.bottom + 15, words, "middle", "tick"))
    first = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}"
    return "".join(drawn) + _axis_title(plot, f"time, UTC, from {first} on")


_DAY_S: Final = 86_400
_MINUTE_S: Final = 60


def _time_style(step: int, length: float) -> str:
    if step >= _DAY_S:
        return "%m-%d"
    if length > _DAY_S:
        return "%m-%d %H:%M"
    return "%H:%M" if step >= _MINUTE_S else "%H:%M:%S"


def _time_x(plot: _Plot, window: tuple[float, float], at_s: float) -> float:
    start, end = window
    return plot.left + (plot.right - plot.left) * (min(max(at_s, start), end) - start) / max(end - start, 1e-9)


def _lanes(width: int, rows: Sequence[Lane], window: tuple[float, float]) -> tuple[str, float]:
    plot, step, inset = _rows_of(width, [row.label for row in rows], _BAR)
    plot = plot._replace(right=width - 24)
    drawn = [_time_axis(plot, window)]
    for number, row in enumerate(rows):
        top = plot.top + number * step
        drawn.append(_label(plot, top, inset, row.label, width))
        drawn.append(f'<path class="lane" d="M{plot.left:.1f} {top + inset + 7:.1f}H{plot.right:.1f}"/>')
        for mark in row.marks:
            start, end = _time_x(plot, window, mark.start_s), _time_x(plot, window, mark.end_s)
            # What lasted a moment in a month has to be seen too.
            drawn.append(_rect(start - 1.5, top + inset, max(end - start, 0) + 3, _BAR, mark.series, mark.words))
    return "".join(drawn), plot.bottom + 45


def _lines(width: int, rows: Sequence[Line], axis: Axis) -> tuple[str, float]:
    times = [at for row in rows for at, *_ in (*row.points, *row.band)]
    values = [value for row in rows for _, *each in (*row.points, *row.band) for value in each]
    window = (min(times, default=0), max(times, default=1))
    scale = _Scale.upto(max(values, default=0), axis)
    longest = max(len(axis.format(tick)) for tick in scale.ticks())
    plot = _Plot(longest * _LETTER + 8, width - 24, 24, 190)
    drawn = [_time_axis(plot, window), _text(2, 13, axis.title, "start", "axis")]
    for tick in scale.ticks():
        y = scale.y(plot, tick)
        drawn.append(f'<path class="grid" d="M{plot.left:.1f} {y:.1f}H{plot.right:.1f}"/>')
        drawn.append(_text(plot.left - 6, y + 4, axis.format(tick), "end", "tick"))
    if axis.limit is not None:
        drawn.append(f'<path class="limit" d="M{plot.left:.1f} {scale.y(plot, axis.limit):.1f}H{plot.right:.1f}"/>')
    drawn += [_line(plot, scale, window, row) for row in rows]
    return "".join(drawn), plot.bottom + 45


def _line(plot: _Plot, scale: _Scale, window: tuple[float, float], row: Line) -> str:
    def at(at_s: float, value: float) -> str:
        return f"{_time_x(plot, window, at_s):.1f} {scale.y(plot, value):.1f}"

    drawn = ""
    if row.band:
        upper = [at(each, high) for each, _, high in row.band]
        lower = [at(each, low) for each, low, _ in reversed(row.band)]
        drawn += f'<path class="band s{row.series}" d="M{"L".join(upper + lower)}Z"/>'
    if len(row.points) == 1:
        x, y = at(*row.points[0]).split()
        return f'{drawn}<circle class="s{row.series}" cx="{x}" cy="{y}" r="3"/>'
    points = "L".join(at(each, value) for each, value in row.points)
    return drawn + (f'<path class="line l{row.series}" d="M{points}"/>' if points else "")


# Pieces


def _rect(x: float, y: float, width: float, height: float, series: int, words: str = "") -> str:
    title = f"<title>{html.escape(words)}</title>" if words else ""
    box = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height}"'
    return f'<rect class="s{series}" {box} rx="2">{title}</rect>'


def _text(x: float, y: float, words: str, anchor: str, kind: str = "label") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _cut(words: str, room: float) -> str:
    letters = max(round(room / _LETTER), 4)
    return words if len(words) <= letters else f"{words[: letters - 1]}…"
