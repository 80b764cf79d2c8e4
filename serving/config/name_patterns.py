"""Names that operators write for several at once: `*` stands for any characters, `?` for one.

Names come from whoever creates a topic or starts a broker. `fnmatch.translate` makes expressions that never go back to
an earlier `*`: plain ones take minutes for `*-*-*-*-*-a` and a name of dashes.
"""

import re
from fnmatch import translate


def is_pattern(text: str) -> bool:
    """Return whether a text is about all names that match it, not about one name."""
    return "*" in text or "?" in text


def literal_length(pattern: str) -> int:
    """Return how many characters of a pattern stand for themselves; of two that match, the longer one is preferred."""
    return len(pattern) - pattern.count("*") - pattern.count("?")


class NamePattern:
    """A pattern that is compiled once; it has no `[`, which would begin a class of characters."""

    __slots__ = ("_expression",)

    def __init__(self, pattern: str) -> None:
        self._expression = re.compile(translate(pattern))

    def matches(self, name: str) -> bool:
        return self._expression.fullmatch(name) is not None
