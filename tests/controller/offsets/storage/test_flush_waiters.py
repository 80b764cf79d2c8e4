"""Callers that wait for the remote store are released by the last of their offsets, and by nothing less."""

import asyncio

import pytest
from stored_offset_builders import row_name

from controller.offsets.storage.flush_waiters import FlushWaiters
from controller.offsets.storage.formats.records import FlushedRow

ONE, TWO = row_name("one"), row_name("two")


async def waiting(waiters, wanted):
    task = asyncio.create_task(waiters.wait(wanted))
    await asyncio.sleep(0)
    return task


async def is_done(task):
    for _ in range(3):
        await asyncio.sleep(0)
    return task.done()


async def test_caller_is_released_once_all_of_its_rows_are_flushed():
    waiters = FlushWaiters()
    task = await waiting(waiters, {ONE: {0: 5, 1: 5}, TWO: {0: 6}})
    waiters.flushed(FlushedRow(ONE, {0: 5}))
    waiters.flushed(FlushedRow(TWO, {0: 6, 3: 6}))
    assert not await is_done(task)
    waiters.flushed(FlushedRow(ONE, {1: 9}))
    assert await is_done(task)
    await task


async def test_flush_of_an_earlier_record_releases_nobody():
    waiters = FlushWaiters()
    task = await waiting(waiters, {ONE: {0: 5}})
    waiters.flushed(FlushedRow(ONE, {0: 4}))
    assert not await is_done(task)
    task.cancel()


async def test_who_gives_up_is_forgotten():
    waiters = FlushWaiters()
    task = await waiting(waiters, {ONE: {0: 5}, TWO: {0: 5}})
    task.cancel()
    assert await is_done(task)
    assert waiters._waiting == {}


async def test_row_that_cannot_be_written_fails_those_who_wait_for_it_alone():
    waiters = FlushWaiters()
    one, two = await waiting(waiters, {ONE: {0: 5}}), await waiting(waiters, {TWO: {0: 5}})
    waiters.fail(ValueError("too large"), ONE)
    with pytest.raises(ValueError, match="too large"):
        await one
    assert not await is_done(two)
    waiters.fail(ValueError("no leader"))
    with pytest.raises(ValueError, match="no leader"):
        await two


async def test_nothing_to_wait_for_returns_at_once():
    await FlushWaiters().wait({ONE: {}})


async def test_callers_are_released_in_the_order_in_which_they_came():
    waiters, released = FlushWaiters(), []

    async def wait(number):
        await waiters.wait({ONE: {0: number}})
        released.append(number)

    async with asyncio.TaskGroup() as callers:
        for number in range(100):
            callers.create_task(wait(number))
        await asyncio.sleep(0)
        waiters.flushed(FlushedRow(ONE, {0: 100}))
    assert released == list(range(100))


async def test_rows_of_callers_that_wait_for_few_come_first_and_no_more_than_wanted():
    waiters = FlushWaiters()
    rows = [row_name(f"row-{n}") for n in range(5)]
    tasks = [await waiting(waiters, {of: {0: 1} for of in each}) for each in (rows[:3], rows[3:4], rows[2:4], rows[4:])]
    assert waiters.first_rows(9) == [rows[3], rows[4], rows[2], rows[0], rows[1]]
    assert waiters.first_rows(2) == [rows[3], rows[4]]
    for task in tasks:
        task.cancel()
        assert await is_done(task)
    assert waiters.first_rows(9) == []
