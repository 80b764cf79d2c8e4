"""fastjson's objects as keys, `{{"queueId":0}:7}`, made readable: each becomes a string that holds its text. Pure.

Names in such a key may hold braces and quotes, so strings are skipped whole. What is no JSON even so is found out by
whoever reads the result.
"""

import re
from typing import Final

import msgspec

from remoting.protocol.errors import BodyError

#: A string, or a brace; of a closing one also the colon behind it, which shows that what is closed was a key.
_PIECE: Final = re.compile(rb'"(?>(?:[^"\\]++|\\.)*)"|(?P<opens>\{)|(?P<closes>\})(?P<colon>\s*+:)?', re.DOTALL)

_encode: Final = msgspec.json.Encoder().encode


def with_quoted_object_keys(text: bytes) -> bytes:
    """Return `text` with each key that is an object in quotes; raises BodyError if it is not UTF-8."""
    out: list[bytes] = []
    open_at: list[int] = []
    at = 0
    for piece in _PIECE.finditer(text):
        if piece["opens"]:
            open_at.append(piece.start())
        elif piece["closes"] and open_at:
            began, end = open_at.pop(), piece.end("closes")
            if piece["colon"]:
                out += (text[at:began], _quoted(text[began:end]))
                at = end
    return b"".join((*out, text[at:]))


def _quoted(key: bytes) -> bytes:
    try:
        return _encode(key.decode())
    except UnicodeDecodeError as error:
        raise BodyError(f"not readable as JSON: {error}") from None
