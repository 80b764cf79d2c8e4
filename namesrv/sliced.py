"""Does long work of `slices.py` between other things: a few milliseconds at a time, one work after another."""

import asyncio
from typing import Final

from namesrv.slices import Result, Steps
from remoting.statistics import timer_ns

#: So long the loop is held at a time.
_SLICE_NS: Final = 2_000_000


class Slices:
    """Works that wait for each other, so that however many there are, the loop is held by one slice at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def do(self, steps: Steps[Result]) -> Result:
        """Do the work between other things and return its result; what does not rest is done at once."""
        result: Result
        try:
            next(steps)
            async with self._turn:
                end_ns = timer_ns() + _SLICE_NS
                while True:
                    next(steps)
                    if timer_ns() > end_ns:
                        await asyncio.sleep(0)
                        end_ns = timer_ns() + _SLICE_NS
        except StopIteration as done:
            result = done.value
        return result
