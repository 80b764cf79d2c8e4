"""Work that would hold the event loop for too long, written so that it can be done in slices.

It is a generator that yields wherever it may rest; it changes something only in one step, when all of the change is
worked out. `whole` does it at once, `cooperative_runner.py` between other things.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

#: Topics worked on at a time; takes about a millisecond.
PART_TOPICS: Final = 4096

Item = TypeVar("Item")
Result = TypeVar("Result")
Steps = Generator[None, None, Result]


def whole(steps: Steps[Result]) -> Result:
    """Do all the work and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: Result = done.value
            return result


def in_parts(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Return the items in lists of a few thousand."""
    rest = iter(items)
    while part := list(islice(rest, PART_TOPICS)):
        yield part
