"""Does what many ask for at once one after another, and gives the loop back in between."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from remoting.background_tasks import BackgroundTasks

Item = TypeVar("Item")


class OneByOne(Generic[Item]):
    """Items that wait for the same work."""

    def __init__(self, work: Callable[[Item], Awaitable[None]], name: str, tasks: BackgroundTasks) -> None:
        """Take what is done for each, and what it is called where it fails, which costs no more than the item."""
        self._work = work
        self._name = name
        self._tasks = tasks
        self._items: deque[Item] = deque()
        self._is_busy = False

    def put(self, item: Item) -> None:
        """Let an item have its turn."""
        self._items.append(item)
        if not self._is_busy:
            self._is_busy = True
            self._tasks.start(self._run(), self._name)

    async def _run(self) -> None:
        while self._items:
            await self._tasks.attempt(self._do_next(), self._name)
        self._is_busy = False

    async def _do_next(self) -> None:
        await self._work(self._items.popleft())
        await asyncio.sleep(0)
