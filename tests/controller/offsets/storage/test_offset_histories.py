"""Random histories of commits, resets, deletions, crashes and troubles: what was acknowledged is what is read again."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_offset_builders import an_offset, queue_key
from write_behind_site import site

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.values import DELETED
from store.store import StoreError

#: Without waits for the disk.
MEMORY = Path("/dev/shm")
GROUPS = ("g0", "g1")
QUEUES = 3

keys = st.builds(queue_key, st.integers(0, QUEUES - 1), st.sampled_from(GROUPS))
changes = st.tuples(
    st.sampled_from(["commit", "commit", "commit", "reset", "delete", "remove"]), keys, st.integers(0, 5)
)
events = st.one_of(
    st.lists(changes, min_size=1, max_size=4),
    st.sampled_from(["crash", "crash", "flush", "load", "trouble", "calm", "lose an answer", "stop"]),
)


class History:
    """The offsets as the manager's table has them, and the changes that follow from what is requested."""

    def __init__(self):
        self.offsets = {}

    def decided(self, kind, key, number):
        """Return the change of a request, None if it changes nothing; the table has it then."""
        before = self.offsets.get(key)
        if kind == "remove":
            if before is None:
                return None
            del self.offsets[key]
            return OffsetChange(key, before, None)
        epoch, offset = (0, 0) if before is None else (before.reset_epoch, max(before.offset, 0))
        if kind == "commit":
            after = an_offset(offset + number, epoch)
        else:
            after = an_offset(DELETED if kind == "delete" else number, epoch + 1)
        if after == before:
            return None
        self.offsets[key] = after
        return OffsetChange(key, before, after)


def read(rows):
    return {queue_key(queue_id, of.group): each for of, row in rows.items() for queue_id, each in row.queues.items()}


class Manager:
    """One run of a manager, and what may happen to it."""

    def __init__(self, at, history):
        self.at, self.history = at, history

    async def happens(self, event):
        if isinstance(event, str):
            await getattr(self, event.replace(" ", "_"))()
        else:
            decided = [self.history.decided(*each) for each in event]
            await self.at.behind.record([each for each in decided if each is not None])

    async def flush(self):
        if self.at.remote.error is None:
            await self.at.behind.flush_all()

    async def load(self):
        if self.at.remote.error is None and not self.at.remote.lost_answers:
            assert read(await self.at.behind.load()) == self.history.offsets

    async def trouble(self):
        self.at.remote.error = StoreError("no answer")

    async def calm(self):
        self.at.remote.error = None

    async def lose_an_answer(self):
        self.at.remote.lost_answers = 1

    async def stop(self):
        self.at.remote.error, self.at.remote.lost_answers = None, 0
        assert await self.at.behind.stop(within_s=20) == 0

    async def crash(self):
        """Nothing is flushed any more."""


async def lived_through(folder, history, wanted):
    """Let a manager do what is wanted until it ends."""
    async with site(folder, loaded=False) as at:
        manager = Manager(at, history)
        assert read(await at.behind.load()) == history.offsets
        while wanted:
            event = wanted.pop(0)
            await manager.happens(event)
            if event in ("crash", "stop"):
                return


async def live(folder, wanted):
    history = History()
    while wanted:
        await lived_through(folder, history, wanted)
    async with site(folder, loaded=False) as at:
        assert read(await at.behind.load()) == history.offsets
        await at.behind.flush_all()
        assert read((await at.remote.store.load_page(None)).rows) == history.offsets


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events, max_size=14))
def test_each_start_finds_what_was_acknowledged_before_whatever_happened(wanted):
    folder = Path(tempfile.mkdtemp(prefix="offsets-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        asyncio.run(live(folder, list(wanted)))
    finally:
        shutil.rmtree(folder)
