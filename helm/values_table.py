"""Writes the table of values into the chart's README from the comments of values.yaml: `python helm/values_table.py`.

A comment that begins with `# --` describes the key on the line below it. A test fails while the table is another.
"""
# ruff: noqa: INP001 -- a program of its own, no part of a package

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml  # type: ignore[import-untyped]  # its stubs are nobody else's need

CHART: Final = Path(__file__).resolve().parent / "rocketmq-control-plane"
README: Final = CHART / "README.md"
BEGIN: Final = "<!-- values: written by helm/values_table.py -->\n"
END: Final = "<!-- end of values -->\n"

_MARK: Final = "# -- "
_DEFAULT_CHARS_MAX: Final = 60
_KEY: Final = re.compile(r"( *)([A-Za-z]+):")


class Row(NamedTuple):
    """One value that can be set."""

    path: str
    default: Any
    meaning: str


def rows(text: str) -> Iterator[Row]:
    """Yield what is described, in order; raises ValueError if a comment stands above no key."""
    values = yaml.safe_load(text)
    above: list[str] = []
    meaning = ""
    for line in text.splitlines():
        if line.lstrip().startswith(_MARK):
            meaning = line.strip().removeprefix(_MARK)
        elif key := _KEY.match(line):
            above = [*above[: len(key[1]) // 2], key[2]]
            if meaning:
                yield Row(".".join(above), _at(values, above), meaning)
            meaning = ""
        elif meaning:
            raise ValueError(f"no key below the comment: {meaning}")


def table(text: str) -> str:
    """Return the rows as Markdown."""
    lines = ["| value | default | meaning |", "|---|---|---|"]
    lines += [f"| `{row.path}` | {_shown(row.default)} | {row.meaning.replace('|', ' ')} |" for row in rows(text)]
    return "\n".join(lines) + "\n"


def with_table(readme: str, text: str) -> str:
    """Return the README with the table of these values between its marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(text)}\n{END}{after}"


def main() -> None:
    """Renew the table."""
    README.write_text(with_table(README.read_text(), (CHART / "values.yaml").read_text()))


def _at(values: Any, path: list[str]) -> Any:
    for name in path:
        values = values[name]
    return values


def _shown(default: Any) -> str:
    text = json.dumps(default)
    return f"`{text}`" if len(text) <= _DEFAULT_CHARS_MAX else "see values.yaml"


if __name__ == "__main__":
    main()
