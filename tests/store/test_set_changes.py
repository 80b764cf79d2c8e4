"""Which sets have changed since when, and the wait for the next change."""

import asyncio

import pytest
from controller_builders import SET, a_set
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.sets.stored_set import StoredSet
from store import set_changes
from store.set_changes import SetChanges, TooManyWaits
from store.store import SetStore, VersionedEntry

#: Longer than any test lasts.
LONG_MS = 30_000


def waiting(changes, revision=None, within_ms=LONG_MS, client="c"):
    return asyncio.create_task(changes.wait(revision or changes.revision, within_ms, client=client))


async def turns():
    for _ in range(3):
        await asyncio.sleep(0)


def test_sets_that_have_changed_since_a_revision_come_once_each():
    changes = SetChanges()
    first = changes.revision
    for name in ("a", "b", "a"):
        changes.set_changed(name)
    second = changes.revision
    changes.set_changed("c")
    assert changes.since(first) == ["c", "a", "b"]
    assert changes.since(second) == ["c"]
    assert changes.since(changes.revision) == []


@pytest.mark.parametrize("ending", ["", "0", ":", ":-1", ":1.0", ":²", ":2", ":" + "9" * 5_000, ":0:0"])
def test_revision_that_was_never_given_is_not_known(ending):
    changes = SetChanges()
    changes.set_changed("a")
    run = changes.revision.partition(":")[0]
    assert changes.since(f"{run}:1") == []
    assert changes.since(run + ending) is None


def test_revision_of_another_run_is_not_known():
    changes, other = SetChanges(), SetChanges()
    assert changes.since(other.revision) is None
    before = changes.revision
    changes.begin_anew()
    assert changes.since(before) is None


def test_only_so_many_changes_are_remembered(monkeypatch):
    monkeypatch.setattr(set_changes, "CHANGES_MAX", 2)
    changes = SetChanges()
    revisions = [changes.revision]
    for name in ("a", "b", "c"):
        changes.set_changed(name)
        revisions.append(changes.revision)
    assert [changes.since(each) for each in revisions] == [None, ["c", "b"], ["c"], []]


@settings(max_examples=200)
@given(st.lists(st.sampled_from("abcde")), st.integers(1, 5), st.data())
def test_whoever_applies_all_answers_misses_no_change_or_is_given_all_sets(names, remembered, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(set_changes, "CHANGES_MAX", remembered)
        changes = SetChanges()
        revision, due = changes.revision, set()
        for name in names:
            changes.set_changed(name)
            due.add(name)
            if data.draw(st.booleans()):
                answered = changes.since(revision)
                assert (len(due) > remembered) if answered is None else (sorted(answered) == sorted(due))
                revision, due = changes.revision, set()


# Waits


async def test_wait_ends_with_the_next_change():
    changes = SetChanges()
    tasks = [waiting(changes), waiting(changes)]
    await turns()
    assert not any(each.done() for each in tasks)
    changes.set_changed("a")
    await asyncio.wait_for(asyncio.gather(*tasks), 5)


async def test_wait_without_a_change_ends_with_its_time():
    changes = SetChanges()
    began = asyncio.get_running_loop().time()
    await changes.wait(changes.revision, 50, client="c")
    assert asyncio.get_running_loop().time() - began >= 0.049


@pytest.mark.parametrize("what", ["a change", "no time", "another run", "an end"])
async def test_nobody_waits_for_what_is_there_already(what):
    changes = SetChanges()
    revision, within_ms = changes.revision, LONG_MS
    match what:
        case "a change":
            changes.set_changed("a")
        case "no time":
            within_ms = 0
        case "another run":
            changes.begin_anew()
        case "an end":
            changes.close()
    await asyncio.wait_for(changes.wait(revision, within_ms, client="c"), 5)


@pytest.mark.parametrize("end", [SetChanges.begin_anew, SetChanges.end_waits, SetChanges.close])
async def test_wait_ends_when_the_sets_are_loaded_anew_or_the_lead_or_the_process_ends(end):
    changes = SetChanges()
    task = waiting(changes)
    await turns()
    end(changes)
    await asyncio.wait_for(task, 5)


async def test_only_so_many_wait_and_those_that_left_leave_their_places(monkeypatch):
    monkeypatch.setattr(set_changes, "WAITS_MAX", 2)
    changes = SetChanges()
    tasks = [waiting(changes), waiting(changes)]
    await turns()
    with pytest.raises(TooManyWaits, match="As many requests wait as may, 2"):
        await changes.wait(changes.revision, LONG_MS, client="c")
    # What is there already needs no wait.
    await changes.wait("older", LONG_MS, client="c")
    tasks[0].cancel()
    await turns()
    third = waiting(changes)
    await turns()
    assert not third.done()
    changes.set_changed("a")
    await asyncio.wait_for(asyncio.gather(tasks[1], third), 5)


# Of a store


def keep(store, revision, name=SET, **values):
    store.entry_changed(name, VersionedEntry(StoredSet(broker_set=a_set(broker_name=name, **values)), revision))


def test_every_change_of_a_stored_set_moves_the_revision_and_nothing_else_does():
    store = SetStore(None)
    keep(store, 1)
    before = store.changes.revision
    keep(store, 1, master_epoch=6)
    keep(store, 2)
    assert store.changes.revision == before
    keep(store, 3, master_epoch=6)
    keep(store, 1, "other")
    assert store.changes.since(before) == ["other", SET]
    removed = store.changes.revision
    store.entry_changed(SET, VersionedEntry(StoredSet(), 4))
    assert store.changes.since(removed) == [SET]


async def test_loading_all_sets_begins_anew():
    class Empty:
        async def load(self):
            return {}

    store = SetStore(Empty())
    before = store.changes.revision
    await store.load(lambda: False)
    assert store.changes.since(before) == []
    await store.load()
    assert store.changes.since(before) is None


async def test_one_client_does_not_take_the_places_of_others(monkeypatch):
    monkeypatch.setattr(set_changes, "CLIENT_WAITS_MAX", 1)
    changes = SetChanges()
    tasks = [waiting(changes, client="10.0.0.1"), waiting(changes, client="10.0.0.2")]
    await turns()
    assert changes.waits == len(tasks)
    with pytest.raises(TooManyWaits, match=r"As many requests of 10\.0\.0\.1 wait as may, 1: "):
        await changes.wait(changes.revision, LONG_MS, client="10.0.0.1")
    changes.end_waits()
    await asyncio.gather(*tasks)
    assert (changes.waits, len(changes._waits)) == (0, 0)
