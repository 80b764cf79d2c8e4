"""Background tasks of any server: what it does at intervals for as long as it serves, and items that take turns."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from remoting.background_tasks import BackgroundTasks
from serving.logging.logs import Logs
from serving.logging.server_events import BACKGROUND_TASK_FAILED
from serving.metrics.server_counters import ServerCounters

#: A timer of the loop that comes late shows how long the loop was blocked.
_LAG_TIMER_MS: Final = 100
_HELD_LINES_S: Final = 1.0
_FREE_MEMORY_LOOK_S: Final = 10.0

Item = TypeVar("Item")

BackgroundTask = Callable[[], Awaitable[None]]


def logged_tasks(logs: Logs) -> BackgroundTasks:
    return BackgroundTasks(lambda name, error: logs.write(BACKGROUND_TASK_FAILED, task=name, exc_info=error))


async def measure_lag(counters: ServerCounters) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _LAG_TIMER_MS / 1000
        await asyncio.sleep(_LAG_TIMER_MS / 1000)
        counters.observe_lag(max(0.0, loop.time() - due_s))


async def write_held_lines(logs: Logs) -> None:
    while True:
        await asyncio.sleep(_HELD_LINES_S)
        logs.write_held()


async def give_memory_back(give_back: Callable[[], bool]) -> None:
    while True:
        await asyncio.sleep(_FREE_MEMORY_LOOK_S)
        await asyncio.to_thread(give_back)


class SerialQueue(Generic[Item]):
    """Items that wait for the same work: one is done after another, and the loop has a turn in between."""

    def __init__(self, work: Callable[[Item], Awaitable[None]], name: str, tasks: BackgroundTasks) -> None:
        """Take what is done for each, and what it is called where it fails, which costs no more than the item."""
        self._work = work
        self._name = name
        self._tasks = tasks
        self._items: deque[Item] = deque()
        self._is_busy = False

    def put(self, item: Item) -> None:
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
