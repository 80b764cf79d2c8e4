"""Does long work of `slices.py` between other things: a few milliseconds at a time, then everybody has a turn."""

import asyncio
from typing import Final

from namesrv.slices import Result, Steps
from remoting.statistics import timer_ns

#: So long the loop is held at a time.
_SLICE_NS: Final = 2_000_000


async def sliced(steps: Steps[Result]) -> Result:
    """Do the work between other things and return its result."""
    end_ns = timer_ns() + _SLICE_NS
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result
        if timer_ns() > end_ns:
            await asyncio.sleep(0)
            end_ns = timer_ns() + _SLICE_NS
