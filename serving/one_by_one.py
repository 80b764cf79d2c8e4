"""Does what many ask for at once one after another, and gives the loop back in between."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Generic, TypeVar

Item = TypeVar("Item")


class OneByOne(Generic[Item]):
    """Items that wait for the same work."""

    def __init__(
        self, work: Callable[[Item], Awaitable[None]], spawn: Callable[[Coroutine[None, None, None]], object]
    ) -> None:
        """Take what is done for each, which raises nothing, and what runs a coroutine in the background."""
        self._work = work
        self._spawn = spawn
        self._items: deque[Item] = deque()
        self._is_busy = False

    def put(self, item: Item) -> None:
        """Let an item have its turn."""
        self._items.append(item)
        if not self._is_busy:
            self._is_busy = True
            self._spawn(self._run())

    async def _run(self) -> None:
        while self._items:
            await self._work(self._items.popleft())
            await asyncio.sleep(0)
        self._is_busy = False
