"""Rows: structs of one type, whose fields are the columns. Pure.

The names of fields are those of the JSON of our HTTP API, where it has them. A field `unix_ms` or `…_unix_ms` is a
time, which tables and CSV show as ISO 8601.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

#: Fields that say which thing a row is about: `row_key` of its type, for --watch.
RowKey = tuple[str, ...]

_UNIX_MS: Final = "_unix_ms"
_TIME_DIGITS: Final = "milliseconds"
#: Of what `datetime` knows, the last moment of 9999.
_UNIX_MS_MAX: Final = 253_402_300_799_999


class OutputColumn(msgspec.Struct, frozen=True):
    """A column of a table."""

    #: Of the struct's field.
    field: str
    title: str
    is_time: bool


def row_type(shape: type[msgspec.Struct], *names: str) -> type[msgspec.Struct]:
    """Return the type of rows that show these fields of an answer, in this order."""
    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    shown = [(name, fields[name].type, msgspec.field(name=fields[name].encode_name)) for name in names]
    return msgspec.defstruct(f"{shape.__name__}Row", shown, frozen=True, kw_only=True)


def rows_of(kind: type[msgspec.Struct], found: Iterable[msgspec.Struct]) -> list[msgspec.Struct]:
    """Return parts of an answer as such rows."""
    return [msgspec.convert(row, kind, from_attributes=True) for row in found]


def columns_of(kind: type[msgspec.Struct]) -> tuple[OutputColumn, ...]:
    """Return the columns of rows of this type."""
    return tuple(map(_column, msgspec.structs.fields(kind)))


def cells_of(row: msgspec.Struct, columns: Sequence[OutputColumn]) -> list[str]:
    """Return the text of each cell; blank for None."""
    return [_text(getattr(row, each.field), is_time=each.is_time) for each in columns]


def _column(field: msgspec.structs.FieldInfo) -> OutputColumn:
    is_time = f"_{field.name}".endswith(_UNIX_MS)
    title = field.encode_name[: -len("UnixMs")] or "time" if is_time else field.encode_name
    return OutputColumn(field.name, title, is_time)


def _text(value: Any, *, is_time: bool) -> str:
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
