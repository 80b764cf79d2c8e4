"""fastjson's keys made readable: `{{"queueId":0}:7}` and `{0:7}`. Each becomes a string that holds its text. Pure.

Names in a key may hold braces and quotes, so strings are skipped whole. What is no JSON even so is found out by
whoever reads the result.
"""

import re
from typing import Final

import msgspec

from remoting.protocol.errors import BodyError

#: A string, which has no end where a text was cut; a brace; or an integer before a colon, which makes it a key. Of a
#: closing brace also the colon behind it, which shows that what is closed was a key.
_PIECE: Final = re.compile(
    rb'"(?>(?:[^"\\]++|\\.)*)"?|(?P<opens>\{)|(?P<closes>\})(?P<colon>\s*+:)?|(?P<integer>-?[0-9]++)(?=\s*+:)',
    re.DOTALL,
)

_BRACE: Final = ord("{")

_encode: Final = msgspec.json.Encoder().encode


def with_quoted_keys(text: bytes) -> bytes:
    """Return `text` with each key that is an object or an integer in quotes; raises BodyError if it is not UTF-8."""
    out: list[bytes] = []
    open_at: list[int] = []
    at = 0
    for piece in _PIECE.finditer(text):
        began, end = piece.span()
        if piece["opens"]:
            open_at.append(began)
        elif piece["closes"] and open_at:
            began, end = open_at.pop(), piece.end("closes")
        if piece["integer"] or (piece["colon"] and text[began] == _BRACE):
            out += (text[at:began], _quoted(text[began:end]))
            at = end
    return b"".join((*out, text[at:]))


def _quoted(key: bytes) -> bytes:
    try:
        return _encode(key.decode())
    except UnicodeDecodeError as error:
        raise BodyError(f"not readable as JSON: {error}") from None
