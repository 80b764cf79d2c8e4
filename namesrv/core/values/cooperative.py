"""Cooperative tasks: work that would hold the event loop for too long, divided into steps of about a millisecond.

A task is a generator that yields wherever other work may run. It changes state only in its last step, when the whole
change is worked out. `run_to_completion` runs it at once; `cooperative_runner.py` interleaves it with other work.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

#: Topics handled per step; takes about a millisecond.
BATCH_TOPICS: Final = 4096

Item = TypeVar("Item")
Result = TypeVar("Result")
CooperativeTask = Generator[None, None, Result]


def run_to_completion(task: CooperativeTask[Result]) -> Result:
    """Run every step of `task` without a pause and return its result."""
    while True:
        try:
            next(task)
        except StopIteration as done:
            result: Result = done.value
            return result


def in_batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Return the items in lists of at most `BATCH_TOPICS`."""
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH_TOPICS)):
        yield batch
