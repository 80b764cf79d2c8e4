"""The repository's documents and sources, as the tests of documents read them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

#: What is made, not written: environments, caches, and the copies that mutants are tried in.
_MADE: Final = frozenset({"__pycache__", "build", "dist", "mutants", "node_modules", "target"})

_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def files(*endings: str, under: Path = ROOT) -> Iterator[Path]:
    """Every written file whose name ends so, in the order of names."""
    for folder, folders, names in os.walk(under):
        folders[:] = sorted(name for name in folders if name not in _MADE and not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(endings))


def prose(document: Path) -> str:
    """A document without its blocks of code, whose brackets are no links."""
    return _FENCE.sub("", document.read_text())
