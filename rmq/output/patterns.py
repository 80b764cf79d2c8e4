"""Patterns by which lists are narrowed. Pure."""

from fnmatch import fnmatchcase
from typing import Final

_WILDCARDS: Final = "*?["


def matches(name: str, pattern: str | None) -> bool:
    """Return whether a name contains the pattern, or matches it where that has * or ?; no pattern matches all."""
    if pattern is None:
        return True
    return fnmatchcase(name, pattern) if any(each in pattern for each in _WILDCARDS) else pattern in name
