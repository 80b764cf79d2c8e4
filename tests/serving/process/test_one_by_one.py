"""Work that is asked for at any moment is done once, in order, one after another."""

import asyncio

import pytest
from fakes.background import background_tasks

from remoting.background_tasks import BackgroundTasks
from serving.process.one_by_one import OneByOne


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
        queue = OneByOne(work, "work", tasks)
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
        queue = OneByOne(work, "work", tasks)
        for number in range(4):
            queue.put(number)
    assert done == [0, 3]
    assert failures == [("work", MemoryError), ("work", asyncio.CancelledError)]
