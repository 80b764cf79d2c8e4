"""Background tasks of any server, and items that take turns."""

import asyncio

import pytest
from fakes.background import background_tasks
from fakes.clock import FakeClock
from fakes.lines import Lines

from remoting.background_tasks import BackgroundTasks
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import SerialQueue, logged_tasks


async def test_failed_background_task_is_logged_and_started_again():
    lines = Lines()
    logs = Logs(lines, json_line(), FakeClock(), {})
    begun_again = asyncio.Event()
    faults = [OSError("disk gone")]

    async def look_around():
        if faults:
            raise faults.pop()
        begun_again.set()
        await asyncio.Event().wait()

    async with logged_tasks(logs) as tasks:
        running = tasks.keep_running(look_around, "look_around", pause_s=0)
        await asyncio.wait_for(begun_again.wait(), 5)
        running.cancel()
    (line,) = lines.decoded()
    assert (line["event"], line["task"]) == ("background_task_failed", "look_around")
    assert line["exception"][0]["exc_value"] == "disk gone"
    assert tasks.failures == {"look_around": 1}
    logs.close(1)


class Work:
    """Takes a few turns of the loop for each item, and notes how many are worked on at once."""

    def __init__(self, turns):
        self.done = []
        self.at_once = 0
        self._turns = turns

    async def __call__(self, item):
        self.at_once += 1
        assert self.at_once == 1
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self.at_once -= 1
        self.done.append(item)


@pytest.mark.parametrize("turns", range(3))
@pytest.mark.parametrize("pauses", [*([n] for n in range(6)), [0, 3, 1], [2, 2, 2], [1, 0, 4, 0]])
async def test_every_item_is_worked_on_once_in_order_whenever_it_comes(turns, pauses):
    work = Work(turns)
    async with background_tasks() as tasks:
        queue = SerialQueue(work, "work", tasks)
        for number, pause in enumerate([*pauses, *pauses]):
            queue.put(number)
            for _ in range(pause):
                await asyncio.sleep(0)
    assert work.done == list(range(2 * len(pauses)))


async def test_an_item_that_fails_costs_no_other_and_is_reported():
    failures, done = [], []

    async def work(item):
        if item == 1:
            raise MemoryError
        if item == 2:
            raise asyncio.CancelledError
        done.append(item)

    async with BackgroundTasks(lambda name, error: failures.append((name, type(error)))) as tasks:
        queue = SerialQueue(work, "work", tasks)
        for number in range(4):
            queue.put(number)
    assert done == [0, 3]
    assert failures == [("work", MemoryError), ("work", asyncio.CancelledError)]
