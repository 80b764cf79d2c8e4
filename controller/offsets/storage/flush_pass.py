"""In which order one pass over the dirty rows writes them, and how many at a time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from controller.offsets.storage.flush_order import FlushOrder
from controller.offsets.storage.flush_waiters import FlushWaiters
from controller.offsets.storage.row_flusher import FLUSH_ROWS_MAX
from controller.offsets.values import GroupTopic

#: Of the FLUSH_ROWS_MAX rows of a part, those that callers wait for. The others follow the pass, so that however many
#: callers there are, a row that nobody waits for is written too.
WAITED_ROWS_MAX: Final = 200


class FlushPass:
    """The rows that were dirty when it began, and those that callers wait for meanwhile.

    A row that waits for others by the order is in a part behind all of them, or in a later one.
    """

    def __init__(self, rows: Iterable[GroupTopic], waiters: FlushWaiters, order: FlushOrder) -> None:
        names = tuple(rows)
        #: Rows that callers waited for. What is new of them since belongs to the next pass, or to who waits for it.
        self._came_first: set[GroupTopic] = set()
        self._left = self._rest(names)
        self._waiters = waiters
        self._order = order
        order.forget_clean()
        #: One part takes all rows in their order anyway.
        self._has_many_parts = len(names) > FLUSH_ROWS_MAX

    def next_part(self) -> list[GroupTopic]:
        """Return the rows to write next, each once, FLUSH_ROWS_MAX at most; empty after all were returned."""
        waited = self._waiters.first_rows(WAITED_ROWS_MAX) if self._has_many_parts else []
        if not waited:
            return list(dict.fromkeys(islice(self._left, FLUSH_ROWS_MAX)))
        first = list(islice(self._order.behind_first(waited), WAITED_ROWS_MAX))
        part = dict.fromkeys(first)
        self._came_first.update(first)
        is_over = True
        while more := tuple(islice(self._left, FLUSH_ROWS_MAX - len(part))):
            part |= dict.fromkeys(more)
            is_over = False
        return [] if is_over else list(part)

    def _rest(self, names: Sequence[GroupTopic]) -> Iterator[GroupTopic]:
        """Yield the rows that nobody waited for, those that are held back last.

        What these wait for comes before them, also a second time: it may have moved, or have become dirty since.
        """
        held = []
        for of in names:
            if of in self._came_first:
                continue
            if self._order.is_held(of):
                held.append(of)
            else:
                yield of
        yield from self._order.behind_first(held)
