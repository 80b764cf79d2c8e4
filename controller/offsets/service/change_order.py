"""The order in which changes that are durable become visible: per row, that of the requests.

The journal answers in the order of the calls. Where a change also waits for the remote store, a later one of the same
row may be durable before it; it waits here, or readers would see the offset go back.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.values import GroupTopic


class ChangeTurn:
    """The place of one request in the order; `wait` before its changes become visible, `end` in any case."""

    def __init__(
        self, order: "ChangeOrder", rows: frozenset[GroupTopic], earlier: Sequence["asyncio.Future[None]"]
    ) -> None:
        self._order = order
        self.rows: Final = rows
        self._earlier = earlier
        self.done: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """Return once all earlier changes of the rows are visible, or have failed."""
        for each in self._earlier:
            await each

    def end(self) -> None:
        """Let those pass that wait for this one."""
        self._order.ended(self)
        self.done.set_result(None)


class ChangeOrder:
    """The requests that others have to wait for, by row; empty where nothing is written through."""

    def __init__(self, is_write_through: Callable[[GroupTopic], bool] | None) -> None:
        """Take what says which rows are written through; None: none is."""
        self._is_write_through = is_write_through
        self._last: dict[GroupTopic, ChangeTurn] = {}

    def take(self, changes: Sequence[OffsetChange]) -> ChangeTurn:
        """Return the place of changes that are recorded next."""
        if self._is_write_through is None:
            return ChangeTurn(self, frozenset(), ())
        rows = frozenset(each.key.of for each in changes)
        earlier = [self._last[of].done for of in rows if of in self._last] if self._last else []
        if not earlier and not any(map(self._is_write_through, rows)):
            return ChangeTurn(self, frozenset(), ())
        turn = ChangeTurn(self, rows, earlier)
        self._last.update(dict.fromkeys(rows, turn))
        return turn

    def ended(self, turn: ChangeTurn) -> None:
        """Forget a turn that is over."""
        for of in turn.rows:
            if self._last.get(of) is turn:
                del self._last[of]
