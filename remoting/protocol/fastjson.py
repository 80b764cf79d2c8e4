"""The JSON of the Java side: what fastjson writes beyond the standard, and what it forgives when reading.

Answers to `RemotingSerializable` and fastjson's `JSON.parseObject`/`toJSONString` (docs/protocol/remoting.md 12). Only
text and plain values live here; which struct a text becomes is decided in `codec.py`.
"""

import re
from enum import Enum
from typing import Any, Final

import msgspec

from remoting.protocol.errors import BodyError


class Dialect(Enum):
    """How integer map keys are written: `{0:"a"}` (fastjson's default) or `{"0":"a"}` (standard JSON)."""

    BARE_INTEGER_KEYS = "bare"
    STANDARD = "standard"


#: Longer text is read only as standard JSON. Finding bare integer keys takes up to 0.5 us a byte, and what a hostile
#: peer sends must not hold the server; registrations, which have such keys, are read in pieces below this size.
BARE_KEYS_BYTES_MAX: Final = 64 * 1024

#: Text up to this size is also read into plain values, with fastjson's rarer liberties (comments, single quotes,
#: trailing commas, bare words as keys), token by token. No known peer uses them.
PARSE_BYTES_MAX: Final = 32 * 1024

_encoder = msgspec.json.Encoder()

# Everything up to the next bare integer key, and the key. Strings are skipped whole, and nothing is ever tried twice:
# by atomic groups, since Python before 3.11.5 matches possessive ones wrongly.
_BARE_INTEGER_KEY: Final = re.compile(
    rb"""
    ((?> (?: [^"{,]++ | "(?>(?:[^"\\]++|\\.)*)" | [{,](?!\s*+-?[0-9]++\s*+:) )* ) [{,]\s*+)
    (-?[0-9]++)
    (?=\s*+:)
    """,
    re.VERBOSE | re.DOTALL,
)

_TOKEN: Final = re.compile(
    rb"""
      (?P<blank>\s++ | /\*.*?\*/ | //[^\n]*+)
    | (?P<string>"(?>(?:[^"\\]++|\\.)*)" | '(?>(?:[^'\\]++|\\.)*)')
    | (?P<mark>[{}\[\]:,])
    | (?P<word>[^\s"'{}\[\]:,/]++)
    """,
    re.VERBOSE | re.DOTALL,
)

# What may not stand in a double-quoted string as it is; other escapes are matched whole, to be left alone.
_ODD_CHARACTER: Final = re.compile(rb"""\\.|["\x00-\x1f]""", re.DOTALL)


def encode(value: object, dialect: Dialect) -> bytes:
    """Return `value` as compact JSON in the dialect, maps in the order they have."""
    if dialect is Dialect.STANDARD:
        return _encoder.encode(value)
    return _encoder.encode(_with_bare_integer_keys(msgspec.to_builtins(value)))


def parse(text: bytes) -> Any:
    """Return the plain value that fastjson would read from `text`; nulls in objects count as absent.

    Raises BodyError with the position or the reason if it is no JSON even for fastjson, or over PARSE_BYTES_MAX.
    """
    if len(text) > PARSE_BYTES_MAX:
        raise BodyError(f"not readable as JSON: not of the standard kind, and over {PARSE_BYTES_MAX} bytes")
    return parse_quoted(text, with_quoted_integer_keys(text))


def parse_quoted(text: bytes, quoted: bytes) -> Any:
    """Return what `parse` does, where the bare integer keys of `text` are `quoted` already."""
    try:
        value = _plain_value(text, quoted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(f"not readable as JSON: {error}") from None
    except RecursionError:
        raise BodyError("not readable as JSON: nested too deeply") from None
    if b"null" in text:
        drop_nulls(value)
    return value


def with_quoted_integer_keys(text: bytes) -> bytes:
    """Return `text`, of at most BARE_KEYS_BYTES_MAX, with its bare integer keys in quotes."""
    assert len(text) <= BARE_KEYS_BYTES_MAX, "longer text is read as standard JSON or not at all"
    out: list[bytes] = []
    at = 0
    while (found := _BARE_INTEGER_KEY.match(text, at)) is not None:
        out.append(b'%b"%b"' % found.groups())
        at = found.end()
    return b"".join((*out, text[at:]))


def _with_bare_integer_keys(value: Any) -> Any:
    """Return `value` with every object keyed by integers already written out."""
    if isinstance(value, list):
        return [_with_bare_integer_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value and isinstance(next(iter(value)), int):
        items = (b"%d:%b" % (key, _encoder.encode(_with_bare_integer_keys(item))) for key, item in value.items())
        return msgspec.Raw(b"{" + b",".join(items) + b"}")
    return {key: _with_bare_integer_keys(item) for key, item in value.items()}


def _plain_value(text: bytes, quoted: bytes) -> Any:
    try:
        return msgspec.json.decode(quoted)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The reason given is the one of the text as it came, not of the text made of it.
        if (standard := _without_liberties(text)) is None:
            raise
        try:
            return msgspec.json.decode(standard)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        raise


def drop_nulls(value: Any) -> None:
    """Remove null entries from every object in `value`; null elements of lists stay, as Java keeps them."""
    open_values = [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            for key in [key for key, item in value.items() if item is None]:
                del value[key]
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)


def _without_liberties(text: bytes) -> bytes | None:
    """Return `text` as standard JSON, without comments and single quotes; None if it cannot be cut into tokens."""
    out: list[bytes] = []
    last_kind, at = None, 0
    for token in iter(_TOKEN.scanner(text).match, None):  # type: ignore[attr-defined]  # typeshed lacks scanner
        kind, word, at = token.lastgroup, token.group(), token.end()
        if kind == "blank":
            continue
        if kind == "string":
            word = _double_quoted(word)
        elif word in b"}]" and out and out[-1] == b",":
            out.pop()
        elif word == b":" and last_kind == "word":
            out[-1] = b'"%b"' % out[-1]
        out.append(word)
        last_kind = kind
    # Joined by blanks: what was two words does not become one.
    return b" ".join(out) if at == len(text) else None


def _double_quoted(string: bytes) -> bytes:
    return b'"%b"' % _ODD_CHARACTER.sub(_standard_character, string[1:-1])


def _standard_character(found: re.Match[bytes]) -> bytes:
    odd = found.group()
    if odd.startswith(b"\\"):
        return b"'" if odd == b"\\'" else odd
    return b'\\"' if odd == b'"' else b"\\u%04x" % ord(odd)
