"""A background task that fails, in whatever way, is reported and counted, and ends nothing else."""

import asyncio

import pytest

from remoting.background_tasks import BackgroundTasks, all_results


class OddFailure(BaseException):
    """Not even an Exception."""


FAILURES = [RuntimeError, MemoryError, RecursionError, asyncio.CancelledError, TimeoutError, OddFailure]
SOON_S = 20


@pytest.fixture
def reported():
    return []


@pytest.fixture
def tasks(reported):
    return BackgroundTasks(lambda name, error: reported.append((name, type(error))))


async def fail(failure, steps=0):
    for _ in range(steps):
        await asyncio.sleep(0)
    raise failure


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("steps", range(3))
async def test_a_failure_is_reported_once_and_the_other_tasks_go_on(tasks, reported, failure, steps):
    done = []

    async def other():
        await asyncio.sleep(0.01)
        done.append(True)

    async with tasks:
        failing = tasks.start(fail(failure, steps), "failing")
        tasks.start(other(), "other")
        await failing
    assert reported == [("failing", failure)]
    assert tasks.failures == {"failing": 1, "other": 0}
    assert done == [True]


@pytest.mark.parametrize("failure", FAILURES)
async def test_endless_task_restarts_after_each_failure(tasks, reported, failure):
    faults = [failure] * 3
    runs_again = asyncio.Event()

    def work():
        # The first fails before there is anything to wait for, the last at once where it is waited for.
        if len(faults) == 3:
            raise faults.pop()
        return run()

    async def run():
        if faults:
            await fail(faults.pop(), len(faults))
        runs_again.set()
        await asyncio.Event().wait()

    async with tasks:
        running = tasks.keep_running(work, "work", pause_s=0)
        await asyncio.wait_for(runs_again.wait(), SOON_S)
        running.cancel()
    assert reported == [("work", failure)] * 3
    assert running.cancelled()


async def test_endless_task_that_ends_restarts_after_a_pause(tasks, reported):
    begun = asyncio.Semaphore(0)

    async def work():
        begun.release()

    async with tasks:
        running = tasks.keep_running(work, "work", pause_s=0.001)
        async with asyncio.timeout(SOON_S):
            for _ in range(3):
                await begun.acquire()
        running.cancel()
    assert reported == []


async def test_endless_task_restarts_not_before_the_pause_is_over(tasks):
    begun = []

    async def work():
        begun.append(work)

    async with tasks:
        running = tasks.keep_running(work, "work", pause_s=3600)
        for _ in range(100):  # turns of the loop: without a pause it would have begun in each
            await asyncio.sleep(0)
        running.cancel()
    assert len(begun) == 1


@pytest.mark.parametrize("steps", range(3))
async def test_a_task_that_is_cancelled_ends_and_is_no_failure(tasks, reported, steps):
    async with tasks:
        running = [tasks.start(asyncio.sleep(3600), "sleep"), tasks.keep_running(asyncio.Event().wait, "wait")]
        for _ in range(steps):
            await asyncio.sleep(0)
        for each in running:
            each.cancel()
    assert all(each.cancelled() for each in running)
    assert reported == []


async def test_the_end_waits_for_all_tasks_and_for_those_that_they_start(tasks):
    done = []

    async def first():
        await asyncio.sleep(0.01)
        tasks.start(second(), "second")

    async def second():
        await asyncio.sleep(0.01)
        done.append(True)

    async with tasks:
        tasks.start(first(), "first")
    assert done == [True]


async def test_an_error_of_the_server_itself_cancels_its_tasks_and_is_raised(tasks, reported):
    running = []

    async def serve():
        async with tasks:
            running.append(tasks.start(asyncio.sleep(3600), "sleep"))
            raise OSError("port in use")

    with pytest.raises(OSError, match="port in use"):
        await serve()
    assert running[0].cancelled()
    assert reported == []


async def test_a_server_that_is_cancelled_while_it_waits_for_its_tasks_cancels_them(tasks):
    async def server():
        async with tasks:
            tasks.start(asyncio.sleep(3600), "sleep")

    serving = asyncio.create_task(server())
    await asyncio.sleep(0.01)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not tasks._tasks


async def test_report_that_fails_reaches_the_exception_handler_of_the_loop():
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))

    def report(name, error):
        raise OSError("the disk is full")

    async with BackgroundTasks(report) as tasks:
        await tasks.start(fail(RuntimeError), "failing")
    assert tasks.failures == {"failing": 1}
    assert reported == ["a failure of failing cannot be reported"]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_exit_of_the_process_passes_through_tasks(end):
    async def serve():
        async with BackgroundTasks(lambda *_: None) as tasks:
            tasks.start(fail(end), "ending")
            await asyncio.sleep(3600)

    with pytest.raises(end):
        asyncio.run(serve())


async def test_all_results_come_in_order():
    async def number(value):
        await asyncio.sleep(0.001 * (3 - value))
        return value

    assert await all_results(number(value) for value in range(3)) == [0, 1, 2]


async def test_all_results_raise_the_first_failure():
    with pytest.raises(ExceptionGroup) as raised:
        await all_results([fail(KeyError("x")), asyncio.sleep(3600)])
    assert raised.group_contains(KeyError)


@pytest.mark.parametrize("steps", range(8))
async def test_task_that_goes_on_after_failures_ends_where_one_comes_with_its_cancellation(steps):
    begun, left = asyncio.Event(), [1, 2, 3]

    async def failing():
        begun.set()
        await fail(KeyError("x"), 3)

    async def work():
        # It ends by itself where its cancellation is lost.
        while left.pop():
            try:
                await all_results([failing(), asyncio.sleep(3600)])
            except ExceptionGroup:
                await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(work())
    await begun.wait()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_nothing_runs_any_more_after_a_failure_or_a_cancellation():
    ended = []

    async def ends_slowly():
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            ended.append(True)

    with pytest.raises(ExceptionGroup):
        await all_results([fail(KeyError("x"), 1), ends_slowly()])
    assert ended == [True]
    task = asyncio.get_running_loop().create_task(all_results([ends_slowly(), ends_slowly()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True] * 3


async def test_no_works_have_no_results():
    assert await all_results([]) == []
