"""Who waits until the remote store has certain offsets."""

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Final

from controller.offsets.storage.formats.records import FlushedRow
from controller.offsets.values import GroupTopic

#: Per row and queue id: the record of the journal up to which the remote store is to have it.
Wanted = Mapping[GroupTopic, Mapping[int, int]]


class _Waiter:
    __slots__ = ("done", "remaining")

    def __init__(self, wanted: Wanted) -> None:
        self.remaining: Final = {of: dict(numbers) for of, numbers in wanted.items() if numbers}
        self.done: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()


class FlushWaiters:
    """Callers that wait for flushes, found by the rows they wait for; released in the order in which they came.

    One that waits for further rows is released later than those behind it.
    """

    def __init__(self) -> None:
        #: A dictionary keeps the order, as a set does not.
        self._waiting: dict[GroupTopic, dict[_Waiter, None]] = {}
        self._waiters: dict[_Waiter, None] = {}

    async def wait(self, wanted: Wanted) -> None:
        """Return once the remote store has all of it; raises what `fail` was called with."""
        waiter = _Waiter(wanted)
        if not waiter.remaining:
            return
        rows = tuple(waiter.remaining)
        self._waiters[waiter] = None
        for of in rows:
            self._waiting.setdefault(of, {})[waiter] = None
        try:
            await waiter.done
        finally:
            del self._waiters[waiter]
            for of in rows:
                self._discard(of, waiter)

    def first_rows(self, rows_max: int) -> list[GroupTopic]:
        """Return rows that callers wait for, of those first that wait for the fewest: a lock is not behind a batch."""
        rows: dict[GroupTopic, None] = {}
        for waiter in sorted(self._waiters, key=lambda each: len(each.remaining)):
            rows |= dict.fromkeys(islice(waiter.remaining, rows_max - len(rows)))
            if len(rows) == rows_max:
                break
        return list(rows)

    def flushed(self, row: FlushedRow) -> None:
        """Release those who waited for this alone."""
        for waiter in tuple(self._waiting.get(row.of, ())):
            remaining = waiter.remaining[row.of]
            for queue_id, number in row.numbers.items():
                if remaining.get(queue_id, number + 1) <= number:
                    del remaining[queue_id]
            if remaining:
                continue
            del waiter.remaining[row.of]
            self._discard(row.of, waiter)
            if not waiter.remaining and not waiter.done.done():
                waiter.done.set_result(None)

    def fail(self, error: Exception, of: GroupTopic | None = None) -> None:
        """Let those fail who wait for a row; None: for any."""
        rows = tuple(self._waiting) if of is None else (of,)
        for waiter in dict.fromkeys(each for row in rows for each in self._waiting.get(row, ())):
            if not waiter.done.done():
                waiter.done.set_exception(error)

    def _discard(self, of: GroupTopic, waiter: _Waiter) -> None:
        waiting = self._waiting.get(of)
        if waiting is None:
            return
        waiting.pop(waiter, None)
        if not waiting:
            del self._waiting[of]
