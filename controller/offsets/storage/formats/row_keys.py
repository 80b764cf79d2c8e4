"""The key of a row, as a path of five escaped names. Pure.

`%` stands for all but letters, digits, `.`, `_`, `-` and `~` (RFC 3986, as UTF-8), so a slash in a name ends no part,
and what begins with `/rmq-offsets/a/` belongs to no group but `a`.
"""

import sys
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from controller.offsets.values import GroupTopic

_PARTS: Final = len(GroupTopic._fields)
#: Rows that are written again and again are escaped once.
_PATHS_KEPT: Final = 20_000


class ForeignKey(ValueError):
    """A key that is no row's."""


@lru_cache(maxsize=_PATHS_KEPT)
def path_of(of: GroupTopic) -> str:
    """Return the path of a row; raises UnicodeEncodeError for names that UTF-8 cannot encode."""
    return "/".join(quote(name, safe="") for name in of)


def row_of(path: str) -> GroupTopic:
    """Return whose path that is; raises ForeignKey."""
    parts = path.split("/")
    if len(parts) != _PARTS:
        raise ForeignKey(f"{path} has {len(parts)} parts, and the key of a row has {_PARTS}")
    try:
        # Many rows have the same names: a million offsets take less memory with one copy of each.
        of = GroupTopic(*(sys.intern(unquote(each, errors="strict")) for each in parts))
    except UnicodeDecodeError:
        raise ForeignKey(f"{path} is not escaped UTF-8") from None
    # Two keys of one row would take each other's offsets back.
    if path_of(of) != path:
        raise ForeignKey(f"{path} is not escaped as this release does")
    return of
