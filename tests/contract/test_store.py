"""What every store of a controller does; the same tests for each kind."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading

import pytest
from controller_builders import CLUSTER, SET, a_set
from fakes.leadership_listener import eventually

from controller.decisions.membership import Applicant, apply_id, new_set
from controller.refusals import BrokerIdInvalid
from controller.sets.broker_set import Floor, MasterElected, MasterLost
from controller.sets.stored_set import SetDecision, StoredSet
from store.embedded import BATCH_MAX, EmbeddedStore, StoreInUse
from store.store import Changed, EntryMoved, OutcomeUnknown, SetStore, StoreError, VersionedEntry

AN_ENTRY = StoredSet(broker_set=a_set())


# Backends


async def test_store_size_is_that_of_etcd_and_none_for_the_embedded_store(kind, backend, request):
    size = await backend.size_bytes()
    if kind == "embedded":
        assert size is None
        return
    status = request.getfixturevalue("etcd").ctl("endpoint", "status", "-w", "json").stdout
    assert size == json.loads(status)[0]["Status"]["dbSize"] > 0


async def test_new_store_is_empty(backend):
    assert dict(await backend.load()) == {}
    assert await backend.read(SET) == VersionedEntry()


@pytest.mark.parametrize(
    "entry",
    [
        AN_ENTRY,
        StoredSet(floor=Floor(master_epoch=9, next_broker_id=4)),
        StoredSet(broker_set=a_set(master=None, replicas={})),
    ],
)
async def test_committed_entry_survives_a_restart(opened, entry):
    backend = await opened()
    revision = await backend.commit(SET, entry, 0)
    backend = await opened()
    assert dict(await backend.load()) == {SET: VersionedEntry(entry, revision)}


async def test_entry_names_may_be_any_text(backend):
    for name in ("", "a/b", "%", "é中", "x" * 1000):
        revision = await backend.commit(name, AN_ENTRY, 0)
        assert revision > 0
        assert await backend.read(name) == VersionedEntry(AN_ENTRY, revision)
    assert len(await backend.load()) == 5


async def test_commit_with_another_revision_is_refused(backend):
    revision = await backend.commit(SET, AN_ENTRY, 0)
    for other in (0, revision - 1, revision + 1, revision + 9):
        with pytest.raises(EntryMoved, match=SET):
            await backend.commit(SET, StoredSet(), other)
    assert await backend.read(SET) == VersionedEntry(AN_ENTRY, revision)
    assert await backend.commit(SET, StoredSet(), revision) > revision


async def test_names_are_compared_exactly(backend):
    await backend.commit("a", AN_ENTRY, 0)
    assert await backend.read("A") == await backend.read("a/") == await backend.read("") == VersionedEntry()


async def test_one_of_many_simultaneous_commits_of_an_entry_succeeds(backend):
    commits = [backend.commit(SET, StoredSet(broker_set=a_set(master_epoch=n)), 0) for n in range(20)]
    results = await asyncio.gather(*commits, return_exceptions=True)
    assert sum(isinstance(each, int) for each in results) == 1
    assert sum(isinstance(each, EntryMoved) for each in results) == 19


async def test_many_entries_survive_a_restart(opened):
    backend = await opened()
    names = [f"broker-{n}" for n in range(600)]
    revisions = await asyncio.gather(*(backend.commit(name, AN_ENTRY, 0) for name in names[:10]))
    for begin in range(10, len(names), 40):
        part = names[begin : begin + 40]
        revisions += await asyncio.gather(*(backend.commit(name, AN_ENTRY, 0) for name in part))
    backend = await opened()
    assert dict(await backend.load()) == {
        name: VersionedEntry(AN_ENTRY, revision) for name, revision in zip(names, revisions, strict=True)
    }


async def test_own_commits_are_not_reported_to_the_listener(backend, listener):
    revision = 0
    for epoch in range(20):
        revision = await backend.commit(SET, StoredSet(broker_set=a_set(master_epoch=epoch)), revision)
    assert await backend.read(SET) == VersionedEntry(StoredSet(broker_set=a_set(master_epoch=19)), revision)
    assert listener.entries == []


async def test_single_controller_is_the_only_member(backend, listener, me):
    await eventually(lambda: listener.members == (me,), seconds=10, what="it is listed")


async def test_each_store_call_is_told(opened):
    calls = []

    def emit(event):
        assert 0 <= event.seconds < 60
        calls.append((event.operation, event.result))

    backend = await opened(emit=emit)
    calls.clear()
    await backend.commit(SET, AN_ENTRY, 0)
    with pytest.raises(EntryMoved):
        await backend.commit(SET, AN_ENTRY, 0)
    await backend.read(SET)
    await backend.load()
    observed = [each for each in calls if each[0] in ("commit", "read", "load")]
    assert observed == [("commit", "ok"), ("commit", "moved"), ("read", "ok"), ("load", "ok")]


# The store of sets over it


@pytest.fixture
async def store(backend):
    store = SetStore(backend)
    await store.load()
    return store


def applying(broker_id, check_code):
    def decide(entry):
        known = entry.broker_set
        begins = known or new_set(SET, CLUSTER, entry.floor)
        event = apply_id(
            begins,
            Applicant(
                cluster=CLUSTER, broker_name=SET, broker_id=broker_id, address="10.0.0.1:1", check_code=check_code
            ),
        )
        return SetDecision(reply="taken", begins=begins, events=() if event is None else (event,))

    return decide


async def test_decision_applies_once_it_is_stored(store, opened, backend):
    changed = await store.change(SET, applying(1, "me"))
    assert (changed.decision.reply, changed.before, changed.after) == ("taken", None, store.get(SET))
    assert (await backend.read(SET)).entry.broker_set == store.get(SET)
    assert list(store.sets()) == [changed.after]


async def test_decision_without_a_change_is_not_stored(store, backend):
    await store.change(SET, applying(1, "me"))
    before = await backend.read(SET)
    changed = await store.change(SET, applying(1, "me"))
    assert changed == Changed(changed.decision, before.entry.broker_set, before.entry.broker_set)
    assert await backend.read(SET) == before


async def test_refused_decision_stores_nothing(store, backend):
    with pytest.raises(BrokerIdInvalid):
        await store.change(SET, applying(7, "me"))
    assert store.get(SET) is None
    assert await backend.read(SET) == VersionedEntry()


async def test_simultaneous_applications_for_one_broker_id_have_one_success(store):
    results = await asyncio.gather(
        *(store.change(SET, applying(1, f"broker {n}")) for n in range(20)), return_exceptions=True
    )
    assert sum(isinstance(each, Changed) for each in results) == 1
    assert sum(isinstance(each, BrokerIdInvalid) for each in results) == 19


async def test_decision_on_a_set_changed_by_another_controller_is_repeated(store, backend):
    await store.change(SET, applying(1, "me"))
    theirs = StoredSet(broker_set=a_set(master_epoch=40))
    await backend.commit(SET, theirs, (await backend.read(SET)).revision)
    changed = await store.change(SET, lambda _: SetDecision(reply=None, events=(MasterLost(),)))
    assert changed.before == theirs.broker_set
    assert (changed.after.master, changed.after.master_epoch) == (None, 41)


async def test_cleaned_set_is_created_again_at_its_epoch_and_next_broker_id(store):
    await store.change(SET, applying(1, "me"))
    await store.change(SET, lambda _: SetDecision(reply=None, events=(MasterElected(1),)))
    gone = await store.change(SET, lambda _: SetDecision(reply=None, ends=True))
    assert (gone.after, store.get(SET), list(store.sets())) == (None, None, [])
    with pytest.raises(BrokerIdInvalid, match="the next is 2"):
        await store.change(SET, applying(1, "me"))
    again = await store.change(SET, applying(2, "me"))
    assert (again.after.master_epoch, again.after.next_broker_id, again.after.is_elected) == (1, 3, False)


# The embedded store


@pytest.fixture
def embedded(tmp_path):
    return EmbeddedStore(tmp_path / "store")


async def test_two_controllers_cannot_use_one_file(embedded, tmp_path):
    await embedded.commit(SET, AN_ENTRY, 0)
    with pytest.raises(StoreInUse, match="another controller"):
        EmbeddedStore(tmp_path / "store")
    await embedded.close()


async def test_error_of_an_unreadable_entry_names_it(embedded, tmp_path):
    await embedded.commit(SET, AN_ENTRY, 0)
    await embedded.close()
    with sqlite3.connect(tmp_path / "store" / "controller.db") as file:
        file.execute("UPDATE entries SET entry = '{'")
    file.close()
    with pytest.raises(StoreError, match=f"controller.db: the entry of {SET} cannot be read"):
        EmbeddedStore(tmp_path / "store")
    # Nothing of it holds the file: it can be mended, and the next start takes it.
    with sqlite3.connect(tmp_path / "store" / "controller.db") as file:
        file.execute("DELETE FROM entries")
    file.close()
    (tmp_path / "store" / "controller.mark").unlink()
    backend = EmbeddedStore(tmp_path / "store")
    assert dict(await backend.load()) == {}
    await backend.close()


class BusyDisk:
    """Keeps the thread of a store from its work, as a disk does that is slow."""

    def __init__(self, store):
        self._free = threading.Event()
        self._held = store._thread.submit(self._free.wait)

    def free(self):
        self._free.set()
        self._held.result()


async def begun(*work):
    """Begin this, and return once all of it waits for the disk."""
    tasks = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(0)
    return tasks


def transactions(store):
    """Return the list in which each transaction of a store will be noted."""
    found = []
    store._thread.submit(store._connection.set_trace_callback, found.append).result()
    return lambda: [each for each in found if each.startswith("BEGIN")]


async def test_waiting_commits_share_transactions_and_have_their_own_results(embedded):
    await embedded.commit("moved", AN_ENTRY, 0)
    seen, disk = transactions(embedded), BusyDisk(embedded)
    names = [f"broker-{n}" for n in range(100)]
    tasks = await begun(
        embedded.commit("moved", StoredSet(), 0), *(embedded.commit(name, AN_ENTRY, 0) for name in names)
    )
    disk.free()
    refused, *revisions = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, EntryMoved)
    assert revisions == [1] * 100
    assert len(seen()) == 1
    kept = await embedded.load()
    assert kept == {name: VersionedEntry(AN_ENTRY, 1) for name in ["moved", *names]}
    await embedded.close()


async def test_waiting_commits_of_one_entry_apply_in_their_order(embedded):
    disk = BusyDisk(embedded)
    epochs = [StoredSet(broker_set=a_set(master_epoch=n)) for n in range(3)]
    tasks = await begun(*(embedded.commit(SET, entry, n) for n, entry in enumerate(epochs)))
    disk.free()
    assert await asyncio.gather(*tasks) == [1, 2, 3]
    assert await embedded.read(SET) == VersionedEntry(epochs[2], 3)
    await embedded.close()


async def test_commits_of_one_transaction_are_limited(embedded):
    seen, disk = transactions(embedded), BusyDisk(embedded)
    tasks = await begun(*(embedded.commit(f"broker-{n}", AN_ENTRY, 0) for n in range(BATCH_MAX + 1)))
    disk.free()
    await asyncio.gather(*tasks)
    assert len(seen()) == 2
    await embedded.close()


async def test_failed_transaction_has_an_unknown_outcome_and_the_next_one_succeeds(embedded):
    await embedded.commit("a", AN_ENTRY, 0)

    def no_writing(action, *_):
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_UPDATE else sqlite3.SQLITE_OK

    embedded._thread.submit(embedded._connection.set_authorizer, no_writing).result()
    disk = BusyDisk(embedded)
    # Of the two the second alone cannot be written.
    tasks = await begun(
        embedded.commit("b", AN_ENTRY, 0), embedded.commit("a", StoredSet(floor=Floor(master_epoch=1)), 1)
    )
    disk.free()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [OutcomeUnknown, OutcomeUnknown]
    embedded._thread.submit(embedded._connection.set_authorizer, None).result()
    assert dict(await embedded.load()) == {"a": VersionedEntry(AN_ENTRY, 1)}
    assert await embedded.commit("b", AN_ENTRY, 0) == 1
    await embedded.close()


async def test_cancelled_commit_is_not_written(embedded):
    disk = BusyDisk(embedded)
    given_up, waits = await begun(embedded.commit("a", AN_ENTRY, 0), embedded.commit("b", AN_ENTRY, 0))
    given_up.cancel()
    await asyncio.sleep(0)
    disk.free()
    assert await waits == 1
    assert dict(await embedded.load()) == {"b": VersionedEntry(AN_ENTRY, 1)}
    await embedded.close()


KILLED_WHILE_COMMITTING = """
import asyncio, os, sys
from pathlib import Path
from controller.sets.stored_set import StoredSet
from controller.sets.broker_set import Floor
from store.embedded import EmbeddedStore

async def commit_on(backend, name):
    revision = (await backend.read(name)).revision
    while True:
        revision = await backend.commit(name, StoredSet(floor=Floor(master_epoch=revision)), revision)
        os.write(1, b"%s %d\\n" % (name.encode(), revision))

async def main():
    backend = EmbeddedStore(Path(sys.argv[1]))
    await asyncio.gather(*(commit_on(backend, name) for name in "abcdefgh"))

asyncio.run(main())
"""


def test_acknowledged_commits_survive_a_kill_at_any_moment(tmp_path):
    for round_ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", KILLED_WHILE_COMMITTING, str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        ) as process:
            lines = [process.stdout.readline() for _ in range(100 + 37 * round_)]
            process.kill()
            lines += process.stdout.read().splitlines()
        acknowledged = {name: int(revision) for name, _, revision in (line.partition(" ") for line in lines)}

        async def reopened(acknowledged):
            backend = EmbeddedStore(tmp_path / "store")
            for name, at_least in acknowledged.items():
                kept = await backend.read(name)
                assert kept.revision >= at_least
                assert kept.entry.floor.master_epoch == kept.revision - 1
            await backend.close()

        assert len(acknowledged) == 8
        asyncio.run(reopened(acknowledged))


async def test_empty_entry_is_removed_and_can_be_created_again(opened):
    backend = await opened()
    sets = SetStore(backend)
    await sets.load()
    revision = await backend.commit(SET, AN_ENTRY, 0)
    sets.entry_changed(SET, VersionedEntry(AN_ENTRY, revision))
    with pytest.raises(EntryMoved):
        await backend.commit(SET, StoredSet(), revision + 7)
    await sets.change(SET, lambda _: SetDecision(reply=None, expires=True))
    assert len(sets) == 0
    assert await backend.read(SET) == VersionedEntry()
    assert await (await opened()).load() == {}
    again = SetStore(await opened())
    await again.load()
    begun = await again.change(SET, lambda _: SetDecision(reply=None, begins=new_set(SET, CLUSTER, Floor())))
    assert begun.after == new_set(SET, CLUSTER, Floor())
