"""Rows, structs of one type whose fields are the columns, in the four forms of output. Pure: rows in, text out."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from remoting.protocol.plain_text import escaped_json
from rmq.output.printable import printable, terminal_columns

#: Fields that say which thing a row is about: `row_key` of its type, for --watch.
RowKey = tuple[str, ...]
Row = TypeVar("Row", bound=msgspec.Struct)
_UNIX_MS: Final = "_unix_ms"
_TIME_DIGITS: Final = "milliseconds"
#: Of what `datetime` knows, the last moment of 9999.
_UNIX_MS_MAX: Final = 253_402_300_799_999
OutputFormat = Literal["table", "json", "jsonl", "csv"]
_GAP: Final = "  "
_BOLD: Final = "\x1b[1m"
_GREEN: Final = "\x1b[32m"
_YELLOW: Final = "\x1b[33m"
_RED: Final = "\x1b[31m"
_END: Final = "\x1b[0m"
#: By the text of a cell in a column of this title.
_COLOURED_TITLES: Final = frozenset({"state", "role"})
_COLOURS: Final = {
    "ok": _GREEN,
    "done": _GREEN,
    "master": _GREEN,
    "leader": _GREEN,
    "acting_master": _YELLOW,
    "differs": _YELLOW,
    "unknown": _YELLOW,
    "leads": _GREEN,
    "fresh": _GREEN,
    "stale": _YELLOW,
    "copies_nothing": _YELLOW,
    "not_proved": _YELLOW,
    "would_change": _RED,
    "no_master": _RED,
    "failed": _RED,
    "not_sent": _RED,
}
#: Cells that say nothing: a column of a table that has no others is left out.
_BLANK: Final[tuple[object, ...]] = (None, "", [])
#: What spreadsheets take for a formula, and run: at the beginning of a cell, and behind a semicolon, where cells end in
#: many countries. Some take the wide signs of East Asia (U+FF1D and others) as well.
_FORMULA: Final = re.compile(r"(^|;)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
_MINUS: Final = "-"


class OutputColumn(msgspec.Struct, frozen=True):
    #: Of the struct's field.
    field: str
    title: str
    is_time: bool


def row_type(shape: type[msgspec.Struct], *names: str, key: RowKey | None = None) -> type[msgspec.Struct]:
    """Return the type of rows that show these fields of an answer, in this order, with the `row_key` of --watch."""
    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    shown = [(name, fields[name].type, msgspec.field(name=fields[name].encode_name)) for name in names]
    namespace = {"row_key": key}
    return msgspec.defstruct(f"{shape.__name__}Row", shown, namespace=namespace, frozen=True, kw_only=True)


def row_of(kind: type[Row], found: object, /, **more: Any) -> Row:
    """Return a row of what is found, whose fields have the same names, with `more` beside or instead of them."""
    same = {name: getattr(found, name) for name in kind.__struct_fields__ if name not in more and hasattr(found, name)}
    return kind(**same, **more)


def rows_of(kind: type[Row], found: Iterable[object]) -> list[Row]:
    return [row_of(kind, each) for each in found]


def columns_of(kind: type[msgspec.Struct]) -> tuple[OutputColumn, ...]:
    return tuple(map(_column, msgspec.structs.fields(kind)))


def cells_of(row: msgspec.Struct, columns: Sequence[OutputColumn]) -> list[str]:
    """Return the text of each cell; blank for None."""
    return [_cell_text(getattr(row, each.field), is_time=each.is_time) for each in columns]


def _column(field: msgspec.structs.FieldInfo) -> OutputColumn:
    is_time = f"_{field.name}".endswith(_UNIX_MS)
    title = field.encode_name[: -len("UnixMs")] or "time" if is_time else field.encode_name
    return OutputColumn(field.name, title, is_time)


def _cell_text(value: Any, *, is_time: bool) -> str:
    if value is None:
        return ""
    if is_time:
        return iso_time(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def iso_time(unix_ms: int) -> str:
    """Return a moment as ISO 8601 in UTC, or the number itself where it is none."""
    # Only where there is a time: the import takes 3 ms.
    from datetime import UTC, datetime  # noqa: PLC0415

    if not 0 <= unix_ms <= _UNIX_MS_MAX:
        return str(unix_ms)
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec=_TIME_DIGITS).replace("+00:00", "Z")


class Style(msgspec.Struct, frozen=True, kw_only=True):
    output_format: OutputFormat = "table"
    has_header: bool = True
    has_colour: bool = False
    #: Columns of the terminal; None for a file or a pipe, which get a table of any width.
    width: int | None = None


def rendered(rows: Sequence[msgspec.Struct], kind: type[msgspec.Struct], style: Style) -> str:
    """Return the rows, all of one kind, in the form that was chosen, with a line end."""
    match style.output_format:
        case "json":
            return escaped_json(msgspec.json.format(msgspec.json.encode({"items": rows}), indent=2).decode()) + "\n"
        case "jsonl":
            return "".join(f"{escaped_json(msgspec.json.encode(row).decode())}\n" for row in rows)
        case "csv":
            return _csv(rows, columns_of(kind), style)
        case "table":
            return _table(rows, columns_of(kind), style)


def _csv(rows: Sequence[msgspec.Struct], columns: Sequence[OutputColumn], style: Style) -> str:
    import csv  # noqa: PLC0415  # tables and JSON do not need it
    import io  # noqa: PLC0415

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    if style.has_header:
        writer.writerow([each.title for each in columns])
    writer.writerows([_csv_cell(each) for each in cells_of(row, columns)] for row in rows)
    return file.getvalue()


def _csv_cell(text: str) -> str:
    is_number = text.startswith(_MINUS) and text[1:].replace(".", "", 1).isdigit()
    return printable(text if is_number else _FORMULA.sub(r"\1'", text))


def _table(rows: Sequence[msgspec.Struct], columns: Sequence[OutputColumn], style: Style) -> str:
    # What no row has is left out: reasons, where everything is well.
    shown = [each for each in columns if any(getattr(row, each.field) not in _BLANK for row in rows)] or list(columns)
    cells = [[printable(cell) for cell in cells_of(row, shown)] for row in rows]
    titles = [each.title for each in shown]
    widths = [max(map(terminal_columns, column)) for column in zip(titles, *cells, strict=True)]
    if style.width is not None and rows and sum(widths) + len(_GAP) * (len(widths) - 1) > style.width:
        return "\n".join(_record(titles, row, style) for row in cells)
    right = [_is_number_column(rows, each) for each in shown]
    lines = (
        [_line(titles, widths, right, [_BOLD if style.has_colour else ""] * len(titles))] if style.has_header else []
    )
    lines += [_line(row, widths, right, _colours(titles, row, style)) for row in cells]
    return "".join(f"{line}\n" for line in lines)


def _record(titles: Sequence[str], row: Sequence[str], style: Style) -> str:
    """Return one row, a line for each cell: nothing is cut off where a terminal is narrow."""
    width = max(map(len, titles))
    colours = _colours(titles, row, style)
    lines = (
        f"{title:<{width}}{_GAP}{_coloured(cell, colour)}\n"
        for title, cell, colour in zip(titles, row, colours, strict=True)
    )
    return "".join(lines)


def _is_number_column(rows: Sequence[msgspec.Struct], column: OutputColumn) -> bool:
    values = [getattr(row, column.field) for row in rows]
    return not column.is_time and all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values
    )


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], colours: Sequence[str]) -> str:
    parts: Iterator[str] = (
        " " * (width - terminal_columns(cell)) + _coloured(cell, colour)
        if is_right
        else _coloured(cell, colour) + " " * (width - terminal_columns(cell))
        for cell, width, is_right, colour in zip(cells, widths, right, colours, strict=True)
    )
    return _GAP.join(parts).rstrip()


def _colours(titles: Sequence[str], row: Sequence[str], style: Style) -> list[str]:
    if not style.has_colour:
        return [""] * len(row)
    return [
        _COLOURS.get(cell, "") if title in _COLOURED_TITLES else "" for title, cell in zip(titles, row, strict=True)
    ]


def _coloured(cell: str, colour: str) -> str:
    return f"{colour}{cell}{_END}" if colour else cell
