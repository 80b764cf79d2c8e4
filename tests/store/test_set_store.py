"""What a controller knows of its sets, and how long it tries, over stores that answer late or with something else."""

import asyncio

import pytest
from controller_builders import SET, a_set, replicas

from controller.sets.broker_set import MasterLost
from controller.sets.stored_set import SetDecision, StoredSet
from store.store import EntryMoved, SetStore, StoreError, VersionedEntry

OLD = VersionedEntry(StoredSet(broker_set=a_set()), 5)
NEW = VersionedEntry(StoredSet(broker_set=a_set(master=None, master_epoch=6)), 6)
WITHIN_S = 0.2


class SlowStore:
    """Each answer waits until a test lets it go; what is read was read when it was asked for."""

    def __init__(self):
        self.stored = {SET: OLD}
        self.waiting = []
        self.commits = 0
        self.commit_s = 0.0
        self.read_s = 0.0

    async def load(self):
        found, gate = dict(self.stored), asyncio.Event()
        self.waiting.append(gate)
        await gate.wait()
        return found

    async def read(self, broker_name):
        await asyncio.sleep(self.read_s)
        return self.stored[broker_name]

    async def commit(self, broker_name, entry, revision):
        self.commits += 1
        await asyncio.sleep(self.commit_s)
        raise EntryMoved(f"{broker_name} moved")


@pytest.fixture
def backend():
    return SlowStore()


@pytest.fixture
async def store(backend):
    store = SetStore(backend)
    store.entry_changed(SET, OLD)
    return store


def lose_master(_):
    return SetDecision(reply=None, events=(MasterLost(),))


async def test_set_store_follows_a_restored_store_to_older_revisions(store):
    older = VersionedEntry(StoredSet(broker_set=a_set(master_epoch=1)), OLD.revision - 1)
    store.entry_changed(SET, older)
    assert store.entry(SET) == OLD.entry
    store.put_back()
    assert store.entry(SET) == OLD.entry
    store.entry_changed(SET, older)
    assert store.entry(SET) == older.entry


async def test_set_store_drops_what_was_loaded_for_an_ended_term(backend, store):
    terms = [True, True]
    loads = [asyncio.create_task(store.load(lambda n=n: terms[n])) for n in range(2)]
    await asyncio.sleep(0)
    terms[0] = False
    store.entry_changed(SET, NEW)
    backend.waiting[0].set()
    await loads[0]
    assert store.get(SET) == NEW.entry.broker_set
    backend.stored[SET] = NEW
    backend.waiting[1].set()
    await loads[1]
    assert [each.broker_name for each in store.sets()] == [SET]


async def test_unreadable_entry_is_refused_until_readable_and_hides_no_other(backend):
    backend.stored = {SET: VersionedEntry(revision=7, problem="the entry is nonsense"), "other": OLD}
    store = SetStore(backend)
    loading = asyncio.create_task(store.load())
    await asyncio.sleep(0)
    backend.waiting[0].set()
    await loading
    assert store.problems() == {SET: "the entry is nonsense"}
    assert store.get("other") == OLD.entry.broker_set
    store.check_readable("other")
    with pytest.raises(StoreError, match="the entry is nonsense"):
        store.check_readable(SET)
    with pytest.raises(StoreError, match="the entry is nonsense"):
        await store.change(SET, lose_master)
    assert backend.commits == 0
    store.entry_changed(SET, VersionedEntry(OLD.entry, 8))
    store.check_readable(SET)
    assert store.problems() == {}


async def test_no_commit_begins_after_its_deadline(backend, store):
    # The first one takes most of the time, and reading what has become of the set the rest.
    backend.commit_s, backend.read_s = 0.75 * WITHIN_S, 0.75 * WITHIN_S
    # On a busy machine already the reading may come too late.
    with pytest.raises(StoreError, match=r"no time was left|did not answer in time"):
        await store.change(SET, lose_master, WITHIN_S)
    assert backend.commits == 1


async def test_number_of_members_follows_every_change_of_sets(store):
    assert store.members == 3
    store.entry_changed("broker-b", VersionedEntry(StoredSet(broker_set=a_set(broker_name="broker-b")), 7))
    assert store.members == 6
    store.entry_changed(SET, VersionedEntry(StoredSet(broker_set=a_set(replicas=replicas(1, 2))), 8))
    assert store.members == 5
    store.entry_changed("broker-b", VersionedEntry(StoredSet(), 9))
    assert store.members == 2
