"""What any server does at intervals for as long as it serves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from remoting.background_tasks import BackgroundTasks
from serving.logging.logs import Logs
from serving.logging.server_events import CHORE_FAILED
from serving.metrics.server_counters import ServerCounts

#: A timer of the loop that comes late tells how long the loop was held.
_LAG_TIMER_MS: Final = 100
_HELD_LINES_S: Final = 1.0
_FREE_MEMORY_LOOK_S: Final = 10.0

Chore = Callable[[], Awaitable[None]]


def logged_tasks(logs: Logs) -> BackgroundTasks:
    """Return what runs background tasks, each failure of which is a log line."""
    return BackgroundTasks(lambda name, error: logs.write(CHORE_FAILED, chore=name, exc_info=error))


async def measure_lag(counts: ServerCounts) -> None:
    """Count by how much a timer of the loop comes late."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _LAG_TIMER_MS / 1000
        await asyncio.sleep(_LAG_TIMER_MS / 1000)
        counts.observe_lag(max(0.0, loop.time() - due_s))


async def write_held_lines(logs: Logs) -> None:
    """Write the errors that were held back and whose time has come."""
    while True:
        await asyncio.sleep(_HELD_LINES_S)
        logs.write_held()


async def give_memory_back(give_back: Callable[[], bool]) -> None:
    """Give free memory back to the system when it is very much."""
    while True:
        await asyncio.sleep(_FREE_MEMORY_LOOK_S)
        await asyncio.to_thread(give_back)
