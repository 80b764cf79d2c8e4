"""Whose long work is next: departures go first, and connections share what is left by time."""

import asyncio
import itertools

import pytest

from namesrv.wire import cooperative_runner
from namesrv.wire.cooperative_runner import CooperativeRunner


class Clock:
    """Moves on by what the works take."""

    now_ns = 0

    def __call__(self):
        return self.now_ns


@pytest.fixture
def clock(monkeypatch):
    own = Clock()
    monkeypatch.setattr(cooperative_runner, "timer_ns", own)
    return own


@pytest.fixture
def order():
    """The names of the works, a name for each slice."""
    return []


def a_work(clock, order, name, slices, *, fails=False):
    """Return steps that take so many slices of the loop."""
    for _ in range(slices):
        clock.now_ns += 2_000_000
        order.append(name)
        yield
    if fails:
        raise ValueError(name)
    return name


async def test_urgent_work_runs_between_the_slices_of_other_work(clock, order):
    runner = CooperativeRunner()
    async with asyncio.TaskGroup() as tasks:
        works = [
            tasks.create_task(runner.run(a_work(clock, order, name, 3), number, 0)) for number, name in enumerate("ab")
        ]
        await asyncio.sleep(0)
        works.append(tasks.create_task(runner.run_first(a_work(clock, order, "left", 1))))
    assert [work.result() for work in works] == ["a", "b", "left"]
    assert order.index("left") <= 2
    assert [name for name in order if name != "left"] == list("aaabbb")


async def test_short_urgent_work_does_not_wait_for_long_urgent_work(clock, order):
    runner = CooperativeRunner()
    await asyncio.gather(
        runner.run_first(a_work(clock, order, "long", 50)), runner.run_first(a_work(clock, order, "short", 1))
    )
    assert order.index("short") == 1


async def test_endless_urgent_work_leaves_a_share_to_other_work(clock, order):
    runner = CooperativeRunner()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(runner.run_first(a_work(clock, order, "left", 100)))
        tasks.create_task(runner.run(a_work(clock, order, "a", 5), 1, 0))
    assert order.index("a") == 3
    assert order[:20].count("a") == 5


async def test_connection_that_had_the_least_time_is_next(clock, order):
    runner = CooperativeRunner()

    async def again(number):
        for _ in range(3):
            await runner.run(a_work(clock, order, number, 10), number, 0)

    async with asyncio.TaskGroup() as tasks:
        for number in range(10):
            tasks.create_task(again(number))
        # Each had its turn, and each waits again.
        while len(order) < 105:
            await asyncio.sleep(0)
        begun = len(order)
        tasks.create_task(runner.run(a_work(clock, order, "late", 1), 99, 0))
    assert order.index("late") - begun <= 10


async def test_smallest_work_is_next_among_connections_that_had_no_time(clock, order):
    runner = CooperativeRunner()
    sizes = {"present": 0, "large": 16_000_000, "small": 500_000, "small too": 500_000}
    await asyncio.gather(
        *(runner.run(a_work(clock, order, name, 1), number, size) for number, (name, size) in enumerate(sizes.items()))
    )
    assert order == ["present", "small", "small too", "large"]


async def test_endless_new_connections_do_not_starve_waiting_work(clock, order):
    runner = CooperativeRunner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(a_work(clock, order, "large", 1), 0, 160_000))
        for number in range(1, 200):
            tasks.create_task(runner.run(a_work(clock, order, number, 1), number, 0))
            # Three of them wait at a time.
            while number - len(order) >= 3:
                await asyncio.sleep(0)
    # It is as large as eight of them.
    assert order.index("large") < 100


@pytest.mark.parametrize("is_anew", [False, True], ids=["the same connections", "new ones each time"])
async def test_many_small_registrations_do_not_starve_a_large_one(clock, order, is_anew):
    runner = CooperativeRunner()
    numbers = itertools.count(1000)

    async def again(number):
        while "large" not in order and len(order) < 5000:
            await runner.run(a_work(clock, order, number, 2), next(numbers) if is_anew else number, 70_000)

    async with asyncio.TaskGroup() as tasks:
        for number in range(100):
            tasks.create_task(again(number))
        while len(order) < 500:
            await asyncio.sleep(0)
        begun = len(order)
        tasks.create_task(runner.run(a_work(clock, order, "large", 2), 0, 16_000_000))
    # At most the four-fold of what waited before it.
    assert order.index("large") - begun < 800


async def test_small_registration_does_not_wait_for_many_large_ones(clock, order):
    runner = CooperativeRunner()
    async with asyncio.TaskGroup() as tasks:
        for number in range(1, 50):
            tasks.create_task(runner.run(a_work(clock, order, number, 100), number, 16_000_000))
        while len(order) < 1000:
            await asyncio.sleep(0)
        begun = len(order)
        tasks.create_task(runner.run(a_work(clock, order, "little", 1), 0, 70_000))
    # One that was begun, and one that waited longest.
    assert order.index("little") - begun <= 200
    assert not runner._by_share


async def test_order_drops_entries_that_wait_no_more(clock, order):
    runner = CooperativeRunner()
    least = itertools.count(1000)

    async def again(number):
        for _ in range(30):
            await runner.run(a_work(clock, order, number, 2), next(least), 16_000_000 if number < 5 else 70_000)

    async with asyncio.TaskGroup() as tasks:
        for number in range(50):
            tasks.create_task(again(number))
        while runner._waiting or not order:
            await asyncio.sleep(0)
            assert len(runner._by_share) <= 2 * 50 + cooperative_runner._STALE_MAX + 1


async def test_failed_work_raises_at_its_waiter_and_other_work_goes_on(clock, order):
    runner = CooperativeRunner()
    failed, done = await asyncio.gather(
        runner.run(a_work(clock, order, "a", 2, fails=True), 1, 0),
        runner.run(a_work(clock, order, "b", 2), 2, 0),
        return_exceptions=True,
    )
    assert (repr(failed), done) == ("ValueError('a')", "b")


async def test_cancelled_work_is_dropped(clock, order):
    runner = CooperativeRunner()
    waiting = asyncio.create_task(runner.run(a_work(clock, order, "a", 1_000), 1, 0))
    while not order:
        await asyncio.sleep(0)
    waiting.cancel()
    assert await runner.run(a_work(clock, order, "b", 1), 2, 0) == "b"
    assert order.count("a") < 10


async def test_times_of_connections_are_limited(clock, order, monkeypatch):
    monkeypatch.setattr(cooperative_runner, "_REMEMBERED", 10)
    runner = CooperativeRunner()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runner.run(a_work(clock, order, "end", 2), 0, 0))
        for number in range(100):
            tasks.create_task(runner.run(a_work(clock, order, number, 1), number, 0))
        while len(order) < 100:
            await asyncio.sleep(0)
            assert len(runner._had_ns) <= 102
    assert not runner._had_ns
