"""Supervises background tasks: the only place where tasks start that no caller awaits.

A background task that fails is reported and counted, and ends nothing else: no other task, no server. (A task group of
asyncio cancels all others instead.) What is a failure, and what ends a task on purpose, is decided in `is_failure`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

#: The pause before an endless task restarts.
RESTART_PAUSE_S: Final = 1.0

Found = TypeVar("Found")
Arguments = ParamSpec("Arguments")
Work = Callable[[], Awaitable[None]]
#: Called with the name of a task and what it raised.
Report = Callable[[str, BaseException], None]


class BackgroundTasks:
    """Some background tasks. As a context it ends when all of them have ended; an error inside cancels them."""

    def __init__(self, report: Report) -> None:
        """Report each failure by `report`; if that fails, by the exception handler of the loop."""
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()
        #: Failures by name of the task; 0 for those that never failed.
        self.failures: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._cancel_all()
        try:
            await self._all_ended()
        except asyncio.CancelledError:
            self._cancel_all()
            await self._all_ended()
            raise

    def start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[bool]":
        """Do `work` once; the task returns as `attempt`."""
        task = self._started(self.attempt(work, name), name)
        # A coroutine that is cancelled before its first step would warn that it was never awaited.
        task.add_done_callback(lambda _: work.close())
        return task

    def keep_running(self, work: Work, name: str, pause_s: float = RESTART_PAUSE_S) -> "asyncio.Task[None]":
        """Do `work`, which runs for ever; where it fails or ends, begin again after `pause_s`."""
        return self._started(self._repeat(work, name, pause_s), name)

    async def attempt(self, work: Awaitable[None], name: str) -> bool:
        """Return True once `work` is done, False where it failed, which is reported as a failure of `name`."""
        try:
            await work
        except BaseException as error:  # `is_failure` says what is let through
            if not is_failure(error):
                raise
            self.report(name, error)
            return False
        return True

    def report(self, name: str, error: BaseException) -> None:
        """Count and report a failure of `name`; never raises."""
        self.failures[name] += 1
        try:
            self._report(name, error)
        except Exception as fault:  # noqa: BLE001  # the report may be what fails
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": f"a failure of {name} cannot be reported", "exception": fault})

    def _started(self, supervised: Coroutine[Any, Any, Found], name: str) -> "asyncio.Task[Found]":
        self.failures.setdefault(name, 0)
        task = asyncio.get_running_loop().create_task(supervised, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _all_ended(self) -> None:
        # Tasks that end may start others.
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _repeat(self, work: Work, name: str, pause_s: float) -> None:
        await self.attempt(_after(0, work), name)
        while True:
            await self.attempt(_after(pause_s, work), name)


def is_failure(error: BaseException) -> bool:
    """Return False if `error` ends the running task on purpose: it was cancelled, or the process is to end.

    KeyboardInterrupt and SystemExit come from signals before the servers take these themselves. RecursionError and
    MemoryError are failures as any other, and so is a CancelledError of something that the task waited for, while the
    task itself was not cancelled.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return not isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)


async def _after(seconds: float, work: Work) -> None:
    await asyncio.sleep(seconds)
    await work()


async def all_results(works: Iterable[Coroutine[Any, Any, Found]]) -> list[Found]:
    """Do `works` at the same time and return their results in order; where one fails, cancel the others and raise.

    Not background tasks: the caller waits for them, and their failure is the caller's, in an exception group. Nothing
    of them runs any more afterwards.
    """
    # No TaskGroup and no gather: of a cancellation and a failure at the same moment these raise the failure alone, and
    # a caller that goes on after failures would never end.
    # The list first: where it cannot be made, nothing has begun.
    started = [start_task(each) for each in list(works)]
    try:
        if started:
            await asyncio.wait(started, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await _cancel(started)
    ended = [each for each in started if not each.cancelled()]
    if failures := [error for each in ended if (error := each.exception()) is not None]:
        raise BaseExceptionGroup("failures of works at the same time", failures)
    return [each.result() for each in started]


async def _cancel(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks and wait until they have ended, also if the caller is cancelled meanwhile."""
    pending = {each for each in tasks if not each.done()}
    for each in pending:
        each.cancel()
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def start_task(work: Coroutine[Any, Any, Found]) -> "asyncio.Task[Found]":
    """Start `work` as a task that callers await, by `asyncio.shield` if they are several: its failure is theirs."""
    return asyncio.get_running_loop().create_task(work)


def on_loop(call: Callable[Arguments, object]) -> Callable[Arguments, None]:
    """Make `call` callable from any thread: it runs in the present event loop, or not at all once that has ended."""
    loop = asyncio.get_running_loop()

    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(partial(call, *args, **kwargs))

    return called
