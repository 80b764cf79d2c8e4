"""What is read of a set to find out what has become of a commit does not hide what is told of the set meanwhile."""

import pytest
from controller_builders import SET, a_set

from controller.sets.broker_set import MasterLost
from controller.sets.stored_set import SetDecision, StoredSet
from store.store import OutcomeUnknown, SetStore, VersionedEntry

OLD = VersionedEntry(StoredSet(broker_set=a_set()), 5)
NEW = VersionedEntry(StoredSet(broker_set=a_set(master=None, master_epoch=6)), 6)


class SlowToRead:
    """A store whose first answer to a read comes after the commit, that was late, and after the news of it."""

    def __init__(self):
        self.witness = None
        self.stored = OLD

    async def load(self):
        return {SET: self.stored}

    async def commit(self, broker_name, entry, revision):
        raise OutcomeUnknown("no answer")

    async def read(self, broker_name):
        read, self.stored = self.stored, NEW
        self.witness.entry_changed(broker_name, NEW)
        return read


@pytest.fixture
async def store():
    backend = SlowToRead()
    backend.witness = SetStore(backend)
    await backend.witness.load()
    return backend.witness


async def test_newer_response_is_not_followed_by_an_older_one(store):
    changed = await store.change(SET, lambda _: SetDecision(reply=None, events=(MasterLost(),)))
    assert changed.after == NEW.entry.broker_set
    assert store.get(SET) == NEW.entry.broker_set
