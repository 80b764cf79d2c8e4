"""Background tasks of a test, none of which may fail."""

from contextlib import asynccontextmanager

from remoting.background_tasks import BackgroundTasks


@asynccontextmanager
async def background_tasks():
    failed = []
    async with BackgroundTasks(lambda name, error: failed.append((name, error))) as tasks:
        yield tasks
    assert failed == []
