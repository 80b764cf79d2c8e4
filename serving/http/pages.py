"""Lists in pages: sorted, so that a page that was left off goes on at the same place while the list changes.

A cursor is the key of the last item, encoded so that nobody reads a meaning into it.
"""

import asyncio
import heapq
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000

#: So many names are sorted or merged before anybody else has a turn; some milliseconds.
_SLICE: Final = 10_000

_LAST_CHARACTER: Final = chr(0x10FFFF)

Key = TypeVar("Key", str, int, tuple[str, str, int])


class BadCursor(ValueError):
    """The text is no cursor of such a list."""


class ListPage(msgspec.Struct, Generic[Key], frozen=True):
    """A part of a sorted list of keys."""

    keys: Sequence[Key]
    #: All keys there are, on this page or not.
    total: int
    #: Where the next page begins; None on the last one.
    next_cursor: str | None


class PageRequest(msgspec.Struct, frozen=True):
    limit: int = LIMIT_DEFAULT
    #: Of the page before; None for the first page.
    cursor: str | None = None


def page_of(keys: Sequence[Key], request: PageRequest, kind: type[Key]) -> ListPage[Key]:
    """Return the part of sorted `keys` after the cursor; raises BadCursor."""
    start = 0 if request.cursor is None else bisect_right(keys, _key(request.cursor, kind))
    part = keys[start : start + request.limit]
    more = start + len(part) < len(keys)
    return ListPage(part, len(keys), _cursor(part[-1]) if more else None)


def with_prefix(names: Sequence[str], prefix: str) -> Sequence[str]:
    return names[bisect_left(names, prefix) : bisect_right(names, prefix + _LAST_CHARACTER)] if prefix else names


async def sorted_in_turns(keys: Iterable[Key]) -> list[Key]:
    """Return `keys` sorted, giving others a turn in between: a sort of a million would stop the server."""
    unsorted = list(keys)
    runs = []
    for at in range(0, len(unsorted), _SLICE):
        runs.append(sorted(unsorted[at : at + _SLICE]))
        await asyncio.sleep(0)
    if len(runs) <= 1:
        return runs[0] if runs else []
    merged: list[Key] = []
    merging = heapq.merge(*runs)
    while part := list(islice(merging, _SLICE)):
        merged += part
        await asyncio.sleep(0)
    return merged


def _cursor(key: Key) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _key(cursor: str, kind: type[Key]) -> Key:
    try:
        raw = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise BadCursor(str(error)) from error
