r"""java.util.Properties text: the bodies of requests 318 and 319, and configuration files.

Answers to `java.util.Properties.load` (JDK 17) and to `MixAll.string2Properties` and `properties2String`. What a key
means does not enter here.

Bytes are read as ISO-8859-1, as Java reads them: an ISO-8859-1 file means the same to both servers, and other
characters are written as `\uXXXX`. UTF-8 text is not an error: like with Java, each of its bytes is one character.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from remoting.protocol.errors import RemotingError

#: A text over this is refused before it is taken apart; a full configuration is under 4 KiB.
TEXT_BYTES_MAX: Final = 256 * 1024

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_WITH_END: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# A backslash takes the next character into the key, whatever it is; the first separator outside one ends the key.
# The groups are possessive: no text makes them go back, so reading is linear in its length.
_KEY_AND_VALUE: Final = re.compile(r"((?>[^\\=: \t\f]*+(?:\\.[^\\=: \t\f]*+)*))[ \t\f]*+[=:]?+[ \t\f]*+(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_SHORT_ESCAPES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_NOT_PLAIN: Final = re.compile(r"[^ -\[\]-~]")
_NOT_PLAIN_IN_KEY: Final = re.compile(r"[^!-~]|[\\=:#!]")
_LEADING_BLANK: Final = re.compile(r"\A ")


class PropertiesError(RemotingError):
    """The text cannot be read as properties."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        self.problem = problem
        super().__init__(f"line {line}: {problem}")


class Property(msgspec.Struct, frozen=True):
    """One key with its value, and where it stood."""

    key: str
    value: str
    #: Number of the line on which it begins, from 1; 0 if it did not come from a text.
    line: int = 0


def parse(text: bytes) -> list[Property]:
    r"""Return the properties in their order; a key that comes again counts as it stands last.

    A surrogate without its other half becomes U+FFFD, as no UTF-8 could carry it on. Raises PropertiesError for a
    `\u` without four hexadecimal digits, which is the only mistake that Java knows too, and for a text over
    TEXT_BYTES_MAX.
    """
    if len(text) > TEXT_BYTES_MAX:
        raise PropertiesError(1, f"the text has {len(text)} bytes, more than the limit of {TEXT_BYTES_MAX}")
    return [_property_of(line, whole) for line, _, whole in _logical_lines(text.decode("iso-8859-1"))]


def listing_text(items: Mapping[str, str]) -> str:
    """Return one line per property, sorted by key, as Java answers request 319: nothing is escaped.

    It is made to be looked at. A value with a backslash, a line end or a leading blank does not survive `parse`.
    """
    return "".join(f"{key}={value}\n" for key, value in sorted(items.items()))


def file_text(items: Mapping[str, str]) -> str:
    """Return one line per property, sorted by key, in plain ASCII; `parse` gives back the same keys and values."""
    return "".join(f"{_escaped_key(key)}={_escaped_value(value)}\n" for key, value in sorted(items.items()))


def text_with(text: bytes, values: Mapping[str, str], meant: Callable[[str], str]) -> bytes:
    """Return a text with these values; each byte of comments, other properties and their order stays.

    The first line of a property takes its value, further ones go, and who has none gets one at the end. `meant` gives
    the key for each name that a line may have. Raises as `parse`.
    """
    decoded = text.decode("iso-8859-1")
    names = {each.line: meant(each.key) for each in parse(text)}
    lines = _WITH_END.findall(decoded)
    line_end = next(iter(_LINE_END.findall(decoded)), "\n")
    missing = {key: f"{_escaped_key(key)}={_escaped_value(value)}{line_end}" for key, value in values.items()}
    for first, last, _ in _logical_lines(decoded):
        if names[first] in values:
            lines[first - 1 : last] = [missing.pop(names[first], ""), *[""] * (last - first)]
    return _appended("".join(lines), "".join(missing.values()), line_end).encode("iso-8859-1")


def _appended(text: str, more: str, line_end: str) -> str:
    """Put lines at the end; a comment or a value that stands there without a line end does not swallow them."""
    apart = [whole for _, _, whole in (*_logical_lines(text), *_logical_lines(more))]
    candidates = (text + line_end * ends + more for ends in range(3))
    return next(each for each in candidates if [whole for _, _, whole in _logical_lines(each)] == apart)


def _logical_lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each line with the numbers it begins and ends on: without comments, blanks before it, and joined."""
    parts: list[str] = []
    first = number = 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANKS)
        if not any(parts):
            if not line or line[0] in "#!":
                continue
            parts.clear()
            first = number
        # An even number of backslashes is so many escaped ones; the odd one out continues the line.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            parts.append(line[:-1])
            continue
        parts.append(line)
        yield first, number, "".join(parts)
        parts.clear()
    if any(parts):
        yield first, number, "".join(parts)


def _property_of(line: int, text: str) -> Property:
    match = _KEY_AND_VALUE.fullmatch(text)
    # Every backslash in a logical line has a character after it, so the pattern takes any of them.
    assert match, "a logical line never ends within an escape"
    return Property(_unescaped(match[1], line), _unescaped(match[2], line), line)


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text

    def meaning(escape: re.Match[str]) -> str:
        meant = escape[1]
        if meant == "u":
            raise PropertiesError(line, "\\u must be followed by four hexadecimal digits")
        return chr(int(meant[1:], 16)) if len(meant) > 1 else _ESCAPED.get(meant, meant)

    units = _ESCAPE.sub(meaning, text)
    # Java's characters are UTF-16 units: two escapes may make up one character.
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escaped_key(key: str) -> str:
    return _NOT_PLAIN_IN_KEY.sub(_escape, key)


def _escaped_value(value: str) -> str:
    return _LEADING_BLANK.sub("\\\\ ", _NOT_PLAIN.sub(_escape, value))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if short := _SHORT_ESCAPES.get(character):
        return short
    if " " <= character <= "~":
        return "\\" + character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
