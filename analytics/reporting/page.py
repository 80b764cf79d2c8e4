"""The page: one file that opens without a network, light or dark, wide or narrow."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from analytics.reporting.figures import Figure, as_html
from analytics.reporting.results import JobResult
from analytics.reporting.wording import Row, text

_COLOURS: Final = "".join(
    f".s{n}{{fill:var(--s{n})}}.b{n}{{background:var(--s{n})}}.l{n}{{stroke:var(--s{n})}}" for n in range(7)
)
_STYLE: Final = f"\n{Path(__file__).with_name('page.css').read_text(encoding='utf-8')}{_COLOURS}"

#: So many rows of a table are shown; the others are in the result's Parquet.
ROWS_SHOWN: Final = 15

#: By heading, the column of a result that is shown as it is, or what makes the text of a row.
Columns = Mapping[str, str | Callable[[Row], str]]


def alike(shown: Callable[[Any], str], columns: str) -> Columns:
    """Return columns that are shown in the same way: `heading: column, ...`, or columns that name themselves."""

    def cell(column: str) -> Callable[[Row], str]:
        return lambda row: shown(row[column])

    named = (each.rpartition(": ") for each in columns.split(", "))
    return {heading or column.replace("_", " "): cell(column.removeprefix("#")) for heading, _, column in named}


class Table(NamedTuple):
    """Rows as text; a heading that begins with `#` is a number's and stands right."""

    caption: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, caption: str, rows: Iterable[Row], columns: Columns) -> "Table":
        """Return rows of a result as a table."""
        cells = columns.values()
        shown = [tuple(str(row[cell]) if isinstance(cell, str) else cell(row) for cell in cells) for row in rows]
        return cls(caption, tuple(columns), shown)


class Section(NamedTuple):
    """What one analysis has to say."""

    answer: str
    figures: Sequence[Figure]
    tables: Sequence[Table] = ()


class Told(NamedTuple):
    """A section of the report: its heading, and the result that it tells of."""

    title: str
    result: JobResult
    section: Section


class Advice(NamedTuple):
    """Something to change: why, and the commands that do it, in their order."""

    title: str
    #: Where it comes from.
    job_id: str
    words: str
    table: Table
    #: What each command is for, and the command.
    commands: Sequence[tuple[str, str]]


class ReportPage(NamedTuple):
    """The whole report before it is HTML."""

    subtitle: str
    happened: Sequence[tuple[str, str]]
    advice: Sequence[Advice]
    sections: Sequence[Told]


def as_page(page: ReportPage) -> str:
    """Return the page as HTML."""
    links = "".join(f'<li><a href="#{told.result.job}">{html.escape(told.title)}</a></li>' for told in page.sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        # Whatever a recorded name may hold: the page loads nothing and runs nothing.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>RocketMQ control plane: report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>RocketMQ control plane</h1><p>{html.escape(page.subtitle)}</p></header>\n"
        f'<nav aria-label="Analyses"><ul><li><a href="#happened">What happened</a></li>'
        f'<li><a href="#change">What to change</a></li>{links}</ul></nav>\n'
        f"{_happened(page.happened)}\n{_changes(page.advice)}\n"
        f"{chr(10).join(map(_section, page.sections))}\n</main>\n</body>\n</html>\n"
    )


def _happened(happened: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<li>{html.escape(words)} <a href="#{job_id}">{job_id}</a></li>' for job_id, words in happened)
    return f'<section id="happened"><h2>What happened</h2><ul class="facts">{items}</ul></section>'


def _changes(advice: Sequence[Advice]) -> str:
    advised = "".join(map(_advice, advice)) or "<p>Nothing needs to be changed.</p>"
    return f'<section id="change"><h2>What to change</h2>{advised}</section>'


def _advice(advice: Advice) -> str:
    steps = "".join(
        f"<li>{html.escape(why)}<pre><code>{html.escape(line)}</code></pre></li>" for why, line in advice.commands
    )
    commands = f"<details><summary>The commands, in order</summary><ol>{steps}</ol></details>" if steps else ""
    return (
        f'<article><h3>{html.escape(advice.title)} <a href="#{advice.job_id}">{advice.job_id}</a></h3>'
        f"<p>{html.escape(advice.words)}</p>{_table(advice.table)}{commands}</article>"
    )


def _section(told: Told) -> str:
    result, section = told.result, told.section
    figures = "".join(as_html(figure, f"{result.job}-{n}") for n, figure in enumerate(section.figures))
    return (
        f'<section id="{result.job}"><h2>{html.escape(told.title)} <small>{result.job}</small></h2>'
        f'<p class="question">{html.escape(result.question)}</p><p class="answer">{html.escape(section.answer)}</p>'
        f"{figures}{''.join(map(_table, section.tables))}"
        f'<p class="source">{html.escape(result.source())}</p></section>'
    )


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    kinds = [' class="n"' if heading.startswith("#") else "" for heading in table.headings]
    names = [heading.removeprefix("#") for heading in table.headings]
    head = "".join(f'<th scope="col"{kind}>{html.escape(name)}</th>' for kind, name in zip(kinds, names, strict=True))
    body = "".join(f"<tr>{_cells(row, kinds, names)}</tr>" for row in table.rows[:ROWS_SHOWN])
    left = len(table.rows) - ROWS_SHOWN
    more = f'<p class="more">and {left:,} more in the result\'s files</p>' if left > 0 else ""
    caption = f"<caption>{html.escape(table.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cells(row: tuple[str, ...], kinds: Sequence[str], names: Sequence[str]) -> str:
    # On a narrow page each cell stands in a line of its own, after its heading.
    cells = zip(row, kinds, names, strict=True)
    return "".join(f'<td{kind} data-name="{html.escape(name)}">{text(value)}</td>' for value, kind, name in cells)
