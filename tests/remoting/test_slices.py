"""A long list is gone through whole and in order, and others run in between."""

import asyncio

import pytest

from remoting.slices import in_slices


@pytest.mark.parametrize(
    ("items", "slices", "turns"),
    [
        (0, [], 0),
        (3, [(0, 1, 2)], 0),
        (4, [(0, 1, 2, 3)], 1),
        (9, [(0, 1, 2, 3), (4, 5, 6, 7), (8,)], 2),
    ],
)
async def test_others_run_after_each_full_slice_of_a_long_list(items, slices, turns):
    turned = 0

    async def other():
        nonlocal turned
        while True:
            await asyncio.sleep(0)
            turned += 1

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    assert [part async for part in in_slices(range(items), 4)] == slices
    task.cancel()
    assert turned == turns
