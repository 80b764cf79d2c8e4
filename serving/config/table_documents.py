"""Reads documents that are a list of tables, such as `[[policy]]` of TOML; mistakes are named, and none is passed over.

What the properties of a table are, and what goes with what, is the business of each kind of document.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from serving.config.checks import shortened

DOCUMENT_CHARS_MAX: Final = 1024 * 1024

#: Mistakes of one document that are named.
MISTAKES_MAX: Final = 50
#: Longer integers have too many digits to be shown.
_SHOWN_BITS_MAX: Final = 64

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_PROPERTY: Final = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


class TableMistake(NamedTuple):
    #: Line of a file, from 1; None in JSON, or where it cannot be known.
    line: int | None
    #: As in `policy 2: max`.
    place: str
    #: What stands there, and what may.
    problem: str

    def __str__(self) -> str:
        where = self.place if self.line is None else f"line {self.line}, {self.place}"
        return f"{where}: {self.problem}" if where else self.problem


class TablesRefused(Exception):
    """A document has mistakes, so nothing of it holds; the one before stays in force."""

    def __init__(self, mistakes: Sequence[TableMistake]) -> None:
        self.mistakes = tuple(mistakes[:MISTAKES_MAX])
        others = ("there are more of them",) if len(mistakes) > MISTAKES_MAX else ()
        super().__init__("; ".join((*map(str, self.mistakes), *others)))


class WrongValue(Exception):
    """A value of a property is not allowed; the text says what is."""


class PropertyReader(NamedTuple):
    #: The field that takes the value.
    field: str
    #: Returns the value as it is kept; raises WrongValue.
    read: Callable[[Any], Any]


class TableKind(msgspec.Struct, frozen=True):
    """What the tables of a document are called, how many there may be, and which properties they have."""

    name: str
    plural: str
    tables_max: int
    readers: Mapping[str, PropertyReader]

    def values(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a table without mistakes."""
        return {self.readers[name].field: self.readers[name].read(value) for name, value in table.items()}


#: A property, blank for the whole table, and what is wrong with it.
Problem = tuple[str, str]


class TableLines:
    """Where the tables of a TOML file and their properties stand."""

    def __init__(self, text: str, name: str) -> None:
        header = re.compile(rf"\s*\[\[\s*[\"']?{name}[\"']?\s*\]\]")
        self._tables: list[dict[str, int]] = []
        for number, line in enumerate(text.split("\n"), start=1):
            if header.match(line):
                self._tables.append({"": number})
            elif self._tables and (found := _PROPERTY.match(line)):
                self._tables[-1].setdefault(found[1], number)

    def line_of(self, position: int, name: str, count: int) -> int | None:
        """Return the line of a property, else that of its table; None where text of a value looks like a header."""
        if len(self._tables) != count:
            return None
        there = self._tables[position]
        return there.get(name, there[""])


def toml_document(text: str) -> Any:
    """Return what a TOML text says; raises TablesRefused."""
    check_length(text)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Beside mistakes of TOML: an integer of thousands of digits.
        raise TablesRefused([TableMistake(None, "", f"not TOML: {error}")]) from error


def json_document(text: str) -> Any:
    """Return what a JSON text says; raises TablesRefused."""
    check_length(text)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TablesRefused([TableMistake(None, "", f"not JSON: {error}")]) from error


def check_length(text: str) -> None:
    if len(text) > DOCUMENT_CHARS_MAX:
        problem = f"{len(text)} characters are too many; the limit is {DOCUMENT_CHARS_MAX}"
        raise TablesRefused([TableMistake(None, "", problem)])


def tables_of(
    document: Any, kind: TableKind, lines: TableLines | None, problems_of: Callable[[Any, int], Iterable[Problem]]
) -> list[Mapping[str, Any]]:
    """Return the tables of a document; raises TablesRefused with what `problems_of` a table and its position finds.

    It is called for one table after another, from position 0 on.
    """
    tables = document.get(kind.name, []) if isinstance(document, Mapping) else None
    if not isinstance(tables, list) or not isinstance(document, Mapping) or document.keys() - {kind.name}:
        problem = f'the document is a list of {kind.plural}: [[{kind.name}]] in TOML, {{"{kind.name}": [...]}} in JSON'
        raise TablesRefused([TableMistake(None, "", problem)])
    if len(tables) > kind.tables_max:
        problem = f"{len(tables)} {kind.plural} are too many; the limit is {kind.tables_max}"
        raise TablesRefused([TableMistake(None, "", problem)])
    mistakes: list[TableMistake] = []
    for position, table in enumerate(tables):
        for name, problem in islice(problems_of(table, position), MISTAKES_MAX + 1):
            line = lines.line_of(position, name, len(tables)) if lines else None
            place = f": {shortened(name)}" if name else ""
            mistakes.append(TableMistake(line, f"{kind.name} {position + 1}{place}", problem))
        if len(mistakes) > MISTAKES_MAX:
            break
    if mistakes:
        raise TablesRefused(mistakes)
    return tables


def read_properties(table: Any, kind: TableKind) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values of a table by property, and what is wrong with the others."""
    if not isinstance(table, Mapping):
        return {}, [("", f"{shown(table)} is no {kind.name}, but a table of {', '.join(kind.readers)} is")]
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in table.items():
        if len(problems) > MISTAKES_MAX:
            break
        if name not in kind.readers:
            problems.append((name, f"is no property of a {kind.name}; those are {', '.join(kind.readers)}"))
            continue
        try:
            values[name] = kind.readers[name].read(value)
        except WrongValue as wrong:
            problems.append((name, f"{shown(value)} is not allowed, but {wrong} is"))
    return values, problems


def shown(value: Any) -> str:
    """Return a value as a sentence repeats it: of what is nested or long only what it is."""
    if isinstance(value, list | Mapping):
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS_MAX:
        return f"an integer of {value.bit_length()} bits"
    return shortened(repr(value))


def duration(least_ms: int, most_ms: int) -> Callable[[Any], int]:
    """Return what reads a time within limits, in ms."""

    def read(value: Any) -> int:
        duration_ms = _ms(value)
        if duration_ms is None or not least_ms <= duration_ms <= most_ms:
            raise WrongValue(f'a time such as "90s", "15m", "1d", or a number of ms, from {least_ms} to {most_ms} ms')
        return duration_ms

    return read


def _ms(value: Any) -> int | None:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        return int(found[1]) * _UNIT_MS[found[2]]
    return value if isinstance(value, int) and not isinstance(value, bool) else None
