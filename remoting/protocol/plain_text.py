"""Text of peers, as a person may get it: what a terminal obeys or does not show is no part of a name. Pure.

Escape sequences in a name could clear a screen, and marks of direction could show one name as another.
"""

import re
import unicodedata
from typing import Final

#: Control characters, format marks (of direction, of no width), half characters, ends of lines and paragraphs.
_NOT_PLAIN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PERHAPS: Final = re.compile(r"[^\x20-\x7e]")
_BYTE_MAX: Final = 0xFF
_SHORT_MAX: Final = 0xFFFF


def is_plain(text: str) -> bool:
    """Return True for text that a terminal shows, and does not obey."""
    # Python's own property is true for none of the categories, and false for a few harmless ones, such as wide blanks.
    return text.isprintable() or not any(unicodedata.category(character) in _NOT_PLAIN for character in text)


def escaped(text: str, kept: str = "") -> str:
    r"""Return text with all that is not plain as `\xNN`, `\uNNNN` or `\UNNNNNNNN`, but for `kept` characters."""
    if text.isprintable():
        return text
    return _PERHAPS.sub(lambda found: found[0] if found[0] in kept or is_plain(found[0]) else escape_of(found[0]), text)


def escaped_json(text: str) -> str:
    r"""Return JSON with all in its strings that is not plain as `\uNNNN`: the same values."""
    return text if text.isprintable() else _PERHAPS.sub(_shown_in_json, text)


def escape_of(character: str) -> str:
    r"""Return `\xNN`, `\uNNNN` or `\UNNNNNNNN`."""
    number = ord(character)
    if number <= _BYTE_MAX:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= _SHORT_MAX else f"\\U{number:08x}"


def _shown_in_json(found: re.Match[str]) -> str:
    # Line ends stand between the parts of JSON, and never in a string.
    if found[0] == "\n" or is_plain(found[0]):
        return found[0]
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
