"""What is told of the size of the store: the newest answer, and nothing while there is none."""

import asyncio

import pytest
from fakes.leadership_listener import eventually

from controller.recording import store_size
from controller.recording.store_size import StoreSize
from controller.storage.store import StoreError

SOON_S = 20


class Telling:
    """A store that tells its size; None fails."""

    def __init__(self, *sizes):
        self.sizes = list(sizes)
        self.asked = 0

    async def size_bytes(self):
        self.asked += 1
        size = self.sizes[min(self.asked, len(self.sizes)) - 1]
        if size is None:
            raise StoreError("etcd does not answer")
        return size


@pytest.mark.parametrize(
    ("sizes", "told"),
    [((4096, 8192), 8192), ((4096, None), None), ((None, 8192), 8192)],
    ids=["the newest counts", "an old one is not told again", "the next answer is"],
)
async def test_store_size_is_the_latest_answer_or_unknown(monkeypatch, sizes, told):
    monkeypatch.setattr(store_size, "_ASK_S", 0)
    store = Telling(*sizes)
    size = StoreSize(store)
    assert size.latest is None
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(size.ask_for_store_size())
        # Asked a third time, it has told what it learned the second time.
        await eventually(lambda: store.asked > len(sizes), seconds=SOON_S, what="it asked")
        asking.cancel()
    assert size.latest == told
