"""Text of servers, as a terminal may get it, and patterns by which lists are narrowed. Pure."""

import unicodedata
from fnmatch import fnmatchcase
from typing import Final

from remoting.protocol.plain_text import escape_of, is_plain

#: What is not seen though it counts as a letter or an accent: fillers of Hangul, selectors of variants, joiners.
_IGNORED: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)
_WIDE: Final = frozenset({"W", "F"})
_NO_WIDTH: Final = frozenset({"Mn", "Me"})
_WILDCARDS: Final = "*?["


def printable(text: str) -> str:
    r"""Return text with what a terminal would obey, or not show, as `\xNN`, `\uNNNN` or `\UNNNNNNNN`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(escape_of(each) if each in _IGNORED or not is_plain(each) else each for each in text)


def terminal_columns(text: str) -> int:
    """Return how many columns of a terminal printable text takes: two for a Chinese character."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def matches(name: str, pattern: str | None) -> bool:
    """Return whether a name contains the pattern, or matches it where that has * or ?; no pattern matches all."""
    if pattern is None:
        return True
    return fnmatchcase(name, pattern) if any(each in pattern for each in _WILDCARDS) else pattern in name
