"""The order in which rows are read page by page: that in which they were made. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller.offsets.commits.refusals import PageExpired
from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.values import GroupTopic

_GroupKey = tuple[str, str, str]


class PageCursor(NamedTuple):
    """Where the next page begins."""

    #: Positions mean something within one generation.
    generation: int
    position: int


class PageOrder:
    """Positions of rows: one for each, for good until the next `rebuild`."""

    def __init__(self) -> None:
        self._order: list[GroupTopic] = []
        self._of_group: dict[_GroupKey, list[int]] = {}
        self._generation = 0

    def __len__(self) -> int:
        return len(self._order)

    def add(self, of: GroupTopic) -> None:
        """Put a new row at the end."""
        self._of_group.setdefault(of[:3], []).append(len(self._order))
        self._order.append(of)

    def rebuild(self, rows: Iterable[GroupTopic]) -> None:
        """Keep these rows alone; cursors made before are refused from now on."""
        self._order, self._of_group = [], {}
        self._generation += 1
        for of in rows:
            self.add(of)

    def cursor(self, position: int) -> PageCursor:
        """Return the cursor of a position."""
        return PageCursor(self._generation, position)

    def start(self, cursor: PageCursor | None) -> int:
        """Return the position of a cursor, 0 without one. Raises PageExpired."""
        if cursor is None:
            return 0
        if cursor.generation != self._generation:
            raise PageExpired
        return max(cursor.position, 0)

    def of_scope(self, scope: OffsetScope) -> Iterator[GroupTopic]:
        """Return all rows of a scope."""
        return (of for _, of in self.walk(scope, 0) if of is not None)

    def walk(self, scope: OffsetScope, start: int) -> Iterator[tuple[int, GroupTopic | None]]:
        """Return positions and rows from a position on, None for a row out of the scope.

        With a group in the scope others are not looked at.
        """
        if scope.group is None:
            positions: Iterable[int] = range(start, len(self._order))
        else:
            of_group = self._of_group.get((scope.cluster, scope.namespace, scope.group), [])
            positions = of_group[bisect_left(of_group, start) :]
        for position in positions:
            of = self._order[position]
            yield position, of if scope.covers(of) else None
