"""The JSON of the Java side: what fastjson writes beyond the standard, and what it forgives when reading.

Answers to `RemotingSerializable` and fastjson's `JSON.parseObject`/`toJSONString` (remoting.md section 12). Only text
and plain values live here; which struct a text becomes is decided in `codec.py`.
"""

import re
from enum import Enum
from typing import Any, Final

import msgspec

from remoting.errors import BodyError


class Dialect(Enum):
    """How integer map keys are written: `{0:"a"}` (fastjson's default) or `{"0":"a"}` (standard JSON)."""

    BARE_INTEGER_KEYS = "bare"
    STANDARD = "standard"


#: Text up to this size is also read with fastjson's rarer liberties (comments, single quotes, trailing commas, bare
#: words as keys), token by token. No known peer uses them; the limit keeps a hostile text from holding the server.
LIBERTIES_BYTES_MAX: Final = 64 * 1024

_encoder = msgspec.json.Encoder()

# A bare integer key follows `{` or `,`. Inside a string the same characters can occur too: quoting them there ends the
# string before a digit, which no JSON allows, so a wrong match is always noticed as a syntax error.
_BARE_INTEGER_KEY: Final = re.compile(rb"([{,]\s*)(-?\d+)(?=\s*:)")

_TOKEN: Final = re.compile(
    rb"""
      (?P<blank>\s+ | /\*.*?\*/ | //[^\n]*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<single>'(?:[^'\\]|\\.)*')
    | (?P<mark>[{}\[\]:,])
    | (?P<word>[^\s"'{}\[\]:,/]+)
    """,
    re.VERBOSE | re.DOTALL,
)


def encode(value: object, dialect: Dialect) -> bytes:
    """Return `value` as compact JSON in the dialect, maps in the order they have."""
    if dialect is Dialect.STANDARD:
        return _encoder.encode(value)
    return _encoder.encode(_with_bare_integer_keys(msgspec.to_builtins(value)))


def parse(text: bytes) -> Any:
    """Return the plain value that fastjson would read from `text`; nulls in objects count as absent.

    Raises BodyError with the position or the reason if it is no JSON even for fastjson.
    """
    try:
        try:
            value = msgspec.json.decode(_BARE_INTEGER_KEY.sub(rb'\1"\2"', text))
        except msgspec.DecodeError:
            if len(text) > LIBERTIES_BYTES_MAX:
                raise
            value = msgspec.json.decode(_without_liberties(text))
        return _without_nulls(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(f"not readable as JSON: {error}") from None
    except RecursionError:
        raise BodyError("not readable as JSON: nested too deeply") from None


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


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_liberties(text: bytes) -> bytes:
    """Return `text` as standard JSON: comments and trailing commas dropped, keys and strings in double quotes."""
    out: list[bytes] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise BodyError(f"not readable as JSON: unexpected byte at {at}")
        at = token.end()
        kind, word = token.lastgroup, token.group()
        if kind == "blank":
            continue
        if word in b"}]" and out and out[-1] == b",":
            out.pop()
        if kind == "single":
            word = _double_quoted(word)
        if word == b":" and out and not out[-1].startswith((b'"', b":")):
            out[-1] = b'"' + out[-1] + b'"'
        out.append(word)
    return b"".join(out)


def _double_quoted(single: bytes) -> bytes:
    inner = single[1:-1].replace(b"\\'", b"'")
    return b'"' + inner.replace(b'"', b'\\"') + b'"'
