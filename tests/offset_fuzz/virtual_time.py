"""An event loop of asyncio that never waits: its time is that of the next timer."""

import asyncio
import selectors


class _NoWait(selectors.DefaultSelector):
    """Ends every wait at once, and moves the time of its loop by it."""

    now_s = 0.0

    def select(self, timeout=None):
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self.now_s += max(timeout, 0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs one history; threads run at once."""

    def __init__(self):
        self._no_wait = _NoWait()
        super().__init__(self._no_wait)

    def time(self):
        return self._no_wait.now_s

    def run_in_executor(self, executor, func, *args):
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  # as an executor does
            done.set_exception(error)
        return done


class VirtualClock:
    """The clock of a loop; its time of day begins at a round number."""

    def __init__(self, loop, from_ms=1_000_000):
        self._loop, self._from_ms = loop, from_ms

    def now_ms(self):
        return self._from_ms + int(self._loop.time() * 1000)

    def unix_ms(self):
        return self.now_ms() + 1_800_000_000_000
