"""A process in virtual time: an event loop of asyncio that never waits, and threads that run when their time has come.

All processes of a world share one thread and one queue of moments; each has a clock and an event loop of its own, so
that one can stand still, or be killed, while the others go on. What blocks in a thread of the product (a call of gRPC,
an event) runs in a greenlet, which is left until the world comes to the moment at which it goes on.
"""

import asyncio
from asyncio import events
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from math import ceil
from types import SimpleNamespace

from greenlet import GreenletExit, getcurrent, greenlet

#: What a wait ends with whose time is over.
TIME_IS_OVER = object()
#: A float that should be a whole number of ms may be a little above it.
_ROUNDING_MS = 1e-6


class Handle:
    """Something that a loop is to call, unless it is cancelled before."""

    __slots__ = ("args", "callback", "is_cancelled", "loop", "when_s")

    def __init__(self, loop, callback, args, when_s=0.0):
        self.loop, self.callback, self.args, self.when_s = loop, callback, args, when_s
        self.is_cancelled = False

    def cancel(self):
        self.is_cancelled = True
        self.callback = self.args = None

    def cancelled(self):
        return self.is_cancelled

    def when(self):
        return self.when_s

    def come(self):
        """Let the loop call it now; a loop that stands still does so later."""
        loop = self.loop
        if self.is_cancelled or loop.is_dead:
            return
        if loop.is_frozen:
            loop.timers_due.append(self)
        else:
            loop.ready.append(self)
            loop.drain()


class Process(asyncio.AbstractEventLoop):
    """The event loop of one process, and its threads."""

    def __init__(self, world, clock_offset_ms):
        self.world = world
        self.offset_ms = clock_offset_ms
        self.wall_offset_ms = 0
        self.ready = deque()
        #: What came, and which timers were due, while it stood still.
        self.inbox, self.timers_due = [], []
        self.is_frozen = self.is_dead = self.is_draining = False
        self.hub = getcurrent()
        self.threads_alive = set()
        self.pools = {}
        self.tasks = set()
        self.threads = SimpleNamespace(Event=partial(Event, self), Thread=partial(Thread, self))

    # Clock

    def now_ms(self):
        return self.world.now_ms + self.offset_ms

    def unix_ms(self):
        return self.world.now_ms + self.wall_offset_ms

    def time(self):
        return (self.world.now_ms + self.offset_ms) / 1000

    # What asyncio asks of a loop

    def call_soon(self, callback, *args, context=None):
        handle = Handle(self, callback, args)
        self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None):
        world = self.world
        handle = Handle(self, callback, args, self.time() + delay)
        world.at(world.now_ms + max(0, ceil(delay * 1000 - _ROUNDING_MS)), handle.come)
        return handle

    def call_at(self, when, callback, *args, context=None):
        world = self.world
        handle = Handle(self, callback, args, when)
        world.at(max(world.now_ms, ceil(when * 1000 - _ROUNDING_MS) - self.offset_ms), handle.come)
        return handle

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, coro, *, name=None, context=None):
        return asyncio.Task(coro, loop=self, name=name or "work")

    def get_debug(self):
        return False

    def is_running(self):
        return True

    def is_closed(self):
        return self.is_dead

    def call_exception_handler(self, context):
        if not self.is_dead:
            self.world.note_failure(f"{context.get('message')}: {context.get('exception')!r}")

    def run_in_executor(self, executor, func, *args):
        """Run a function in a thread, when one of the executor is free."""
        future = self.create_future()
        limit = executor._max_workers if isinstance(executor, ThreadPoolExecutor) else 8
        pool = self.pools.setdefault(id(executor), _Pool(self, limit, executor))
        pool.submit(future, func, args)
        return future

    # Running

    def receive(self, callback, *args):
        """Let something happen that comes from outside."""
        if self.is_dead:
            return
        if self.is_frozen:
            self.inbox.append(Handle(self, callback, args))
            return
        self.ready.append(Handle(self, callback, args))
        if not self.is_draining:
            self.drain()

    def drain(self):
        """Call all that is to be called now."""
        if self.is_draining or self.is_frozen:
            return
        ready = self.ready
        self.is_draining = True
        if self.world.running is not self:
            # It stays so until another loop of the world runs: nothing else does meanwhile.
            self.world.running = self
            events._set_running_loop(self)
        try:
            while ready:
                handle = ready.popleft()
                if not handle.is_cancelled:
                    handle.callback(*handle.args)
                    if self.is_frozen:
                        break
        finally:
            self.is_draining = False

    def freeze(self):
        self.is_frozen = True

    def thaw(self):
        """Go on: an event loop looks at its sockets first, and then at its timers."""
        if self.is_frozen and not self.is_dead:
            self.is_frozen = False
            self.ready.extend(self.inbox)
            self.ready.extend(self.timers_due)
            self.inbox, self.timers_due = [], []
            self.drain()

    def kill(self):
        """End it as SIGKILL does: nothing that it does from now on reaches anybody."""
        if self.is_dead:
            return
        self.is_dead, self.is_frozen = True, False
        for thread in list(self.threads_alive):
            thread.throw(GreenletExit)
        tasks = asyncio.all_tasks(self)
        self.ready.clear()
        for _ in range(20):
            for task in tasks:
                task.cancel()
            self.drain()
            tasks = {each for each in tasks if not each.done()}
            if not tasks:
                break
        self.ready.clear()

    # Threads

    def start_thread(self, run):
        thread = greenlet(partial(self._run_thread, run), parent=self.hub)
        self.threads_alive.add(thread)
        self.call_soon(thread.switch)
        return thread

    def _run_thread(self, run):
        try:
            run()
        finally:
            self.threads_alive.discard(getcurrent())

    def waiting(self):
        """Return what the running thread can wait for."""
        return Waiting(self)


class Waiting:
    """One wait of one thread."""

    __slots__ = ("is_over", "process", "thread")

    def __init__(self, process):
        self.process, self.thread, self.is_over = process, getcurrent(), False

    def wait(self, seconds=None):
        """Return what it is woken with, TIME_IS_OVER after so long."""
        process = self.process
        if process.is_dead:
            raise GreenletExit
        timer = None if seconds is None else process.call_later(seconds, self._end, TIME_IS_OVER)
        value = process.hub.switch()
        if timer is not None:
            timer.cancel()
        return value

    def wake(self, value=None):
        self.process.receive(self._end, value)

    def _end(self, value):
        if not self.is_over:
            self.is_over = True
            self.thread.switch(value)


class _Pool:
    def __init__(self, process, limit, executor):
        self.process, self.free, self.queue = process, limit, deque()
        # No other one gets its number.
        self.executor = executor

    def submit(self, future, func, args):
        self.queue.append((future, func, args))
        self._next()

    def _next(self):
        if self.free and self.queue:
            self.free -= 1
            self.process.start_thread(partial(self._run, *self.queue.popleft()))

    def _run(self, future, func, args):
        try:
            if not future.cancelled():
                result, error = func(*args), None
        except Exception as raised:  # noqa: BLE001  # it is for who waits
            result, error = None, raised
        finally:
            self.free += 1
        if self.process.is_dead:
            return
        if not future.done():
            future.set_exception(error) if error is not None else future.set_result(result)
        self._next()


class Event:
    """Stands for `threading.Event`."""

    def __init__(self, process):
        self.process, self.is_it, self.waiters = process, False, []

    def is_set(self):
        # Threads of a process that was killed end.
        return self.is_it or self.process.is_dead

    def set(self):
        self.is_it = True
        waiters, self.waiters = self.waiters, []
        for each in waiters:
            each.wake(True)

    def clear(self):
        self.is_it = False

    def wait(self, timeout=None):
        if self.is_set():
            return True
        waiting = self.process.waiting()
        self.waiters.append(waiting)
        return waiting.wait(timeout) is not TIME_IS_OVER


class Thread:
    """Stands for `threading.Thread`."""

    _numbers = count()

    def __init__(self, process, target, name, *, daemon):
        self.process, self.target = process, target
        self.ended = Event(process)

    def start(self):
        self.process.start_thread(self._run)

    def _run(self):
        try:
            self.target()
        finally:
            self.ended.set()

    def is_alive(self):
        return not self.ended.is_set()

    def join(self, seconds):
        self.ended.wait(seconds)
