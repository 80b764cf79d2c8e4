"""The size of the store is the latest answer, and unknown while there is none."""

import asyncio

import pytest
from fakes.leadership_listener import eventually

from controller.app import service
from controller.app.service import StoreSize
from store.store import StoreError

SOON_S = 20


class StoreOfSizes:
    """A store with these sizes, one for each request; None fails."""

    def __init__(self, *sizes):
        self.sizes = list(sizes)
        self.requests = 0

    async def size_bytes(self):
        self.requests += 1
        size = self.sizes[min(self.requests, len(self.sizes)) - 1]
        if size is None:
            raise StoreError("etcd does not answer")
        return size


@pytest.mark.parametrize(
    ("sizes", "latest"),
    [((4096, 8192), 8192), ((4096, None), None), ((None, 8192), 8192)],
    ids=["the latest counts", "an old one does not", "the next answer does"],
)
async def test_store_size_is_the_latest_answer_or_unknown(monkeypatch, sizes, latest):
    monkeypatch.setattr(service, "_POLL_S", 0)
    store = StoreOfSizes(*sizes)
    size = StoreSize(store)
    assert size.latest is None
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(size.poll_store_size())
        # At the third request the second answer has been recorded.
        await eventually(lambda: store.requests > len(sizes), seconds=SOON_S, what="it requested the size")
        asking.cancel()
    assert size.latest == latest
