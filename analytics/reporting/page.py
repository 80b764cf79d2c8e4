"""The page: one file that opens without a network, light or dark, wide or narrow."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from analytics.reporting.figures import Figure, as_html
from analytics.reporting.results import JobResult
from analytics.reporting.wording import Row, text

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


_STYLE: Final = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d0d7de;--box:#f6f8fa;--link:#0550ae;
--s0:#0072b2;--s1:#c24a00;--s2:#00795a;--s3:#9a4a85;--s4:#8a6100;--s5:#3b7ea1;--s6:#6b6b6b;--limit:#cf222e}
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--soft:#9da7b3;--rule:#30363d;--box:#161b22;
--link:#79b8ff;--s0:#58a6ff;--s1:#ff9248;--s2:#3fc49a;--s3:#e28bcb;--s4:#e3b341;--s5:#8ecae6;--s6:#a8b0b8;--limit:#ff7b72}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:832px;margin:0 auto;padding:16px}
h1{margin:.2em 0;font-size:1.8em;line-height:1.2}
h2{margin:2em 0 .3em;padding-top:.6em;border-top:1px solid var(--rule);font-size:1.35em;line-height:1.25}
h3{margin:1.4em 0 .3em;font-size:1.1em}
small,.question,.source,.more,header p{color:var(--soft)}
small{font-weight:400;font-size:.65em}
p{margin:.4em 0}
.answer{font-size:1.08em;font-weight:600}
.source,.more{font-size:.85em}
a{color:var(--link)}
nav ul{display:flex;flex-wrap:wrap;gap:.3em 1em;margin:.8em 0;padding:0;list-style:none;font-size:.9em}
.facts li{margin:.35em 0}
article{margin:1em 0;padding:.2em 1em 1em;border:1px solid var(--rule);border-radius:8px}
pre{margin:.3em 0 .8em;padding:.6em .8em;background:var(--box);border-radius:6px;white-space:pre-wrap;font-size:.85em}
summary{cursor:pointer;margin:.6em 0}
table{width:100%;margin:1em 0 .4em;border-collapse:collapse;font-size:.88em}
caption{text-align:left;font-weight:600;padding:.3em 0}
th,td{padding:.32em .5em;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600}
th,td{overflow-wrap:normal}
.n{text-align:right;font-variant-numeric:tabular-nums}
td.n{white-space:nowrap}
figure{margin:1.2em 0}
figcaption{font-weight:600;margin-bottom:.3em}
.legend{display:flex;flex-wrap:wrap;gap:.2em 1.2em;margin:.2em 0 .5em;padding:0;list-style:none;font-size:.88em}
.legend span{display:inline-block;width:.85em;height:.85em;margin-right:.4em;border-radius:2px}
svg{display:block;max-width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
svg .tick,svg .axis{fill:var(--soft)}
.grid,.lane{stroke:var(--rule);fill:none}
.limit{stroke:var(--limit);stroke-width:2;stroke-dasharray:5 4;fill:none}
.line{fill:none;stroke-width:2}
.band{opacity:.22}
.none{fill:var(--box);stroke:var(--rule)}
.narrow{display:none}
@media (max-width:800px){.wide{display:none}.narrow{display:block}}
@media (max-width:800px){thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
tr{display:block;padding:.4em 0;border-bottom:1px solid var(--rule)}
td,td.n{display:flex;gap:1em;justify-content:space-between;text-align:right;padding:.1em 0;border:0}
td::before{content:attr(data-name);color:var(--soft);text-align:left;flex:none;max-width:45%}}
@media print{nav{display:none}section{break-inside:avoid}}
""" + "".join(f".s{n}{{fill:var(--s{n})}}.b{n}{{background:var(--s{n})}}.l{n}{{stroke:var(--s{n})}}" for n in range(7))
