"""Lets others run while one task goes through a long list: a million entries at once would stop the server."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


async def in_slices(items: Iterable[Item], size: int) -> AsyncIterator[tuple[Item, ...]]:
    """Yield `items` in order, `size` of them at a time, and let others run after each full slice.

    Slices instead of single items: an asynchronous loop costs more per turn than a plain one inside it.
    """
    left = iter(items)
    while part := tuple(islice(left, size)):
        yield part
        if len(part) == size:
            await asyncio.sleep(0)
