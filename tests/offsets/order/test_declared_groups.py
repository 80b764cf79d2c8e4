"""Groups that are declared orderly outlive the manager, and are stored before they count."""

import pytest
from fakes.order_site import StoredGroups
from orderly_builders import CLUSTER, ORDERLY

from offsets.order import declared as module
from offsets.order.declared import FILE_NAME, Declared, DeclaredFile, GroupRefused
from offsets.order.events import OrderlyChanged
from offsets.order.holders import OrderlyGroup
from store.store import StoreError

OTHER = OrderlyGroup(CLUSTER, "tenant%g2")


@pytest.fixture
def events():
    return []


async def test_declared_groups_are_in_the_file_and_each_change_is_told(tmp_path, events):
    declared = Declared(DeclaredFile(tmp_path), events.append)
    assert declared.groups is None
    await declared.load()
    assert declared.groups == frozenset()
    assert await declared.declare(ORDERLY, "alice")
    assert not await declared.declare(ORDERLY, "alice")
    assert await declared.declare(OTHER, "alice")
    assert await declared.undeclare(ORDERLY, "bob")
    assert not await declared.undeclare(ORDERLY, "bob")
    assert [(event.writer, event.group, event.orderly) for event in events] == [
        ("alice", "g1", True),
        ("alice", "tenant%g2", True),
        ("bob", "g1", False),
    ]
    assert all(type(event) is OrderlyChanged and event.audit for event in events)
    again = Declared(DeclaredFile(tmp_path), events.append)
    await again.load()
    assert again.groups == {OTHER} == declared.groups


@pytest.mark.parametrize("content", [b"[[1]]", b"{", b"\xff", b'[["one"]]'])
async def test_damaged_file_is_named_and_kept(tmp_path, events, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    declared = Declared(DeclaredFile(tmp_path), events.append)
    for work in (declared.load(), declared.declare(ORDERLY, "alice")):
        with pytest.raises(StoreError, match="cannot be read"):
            await work
    assert (declared.groups, (tmp_path / FILE_NAME).read_bytes(), events) == (None, content, [])


async def test_folder_that_cannot_be_used_is_named(tmp_path, events):
    (tmp_path / "file").write_text("")
    declared = Declared(DeclaredFile(tmp_path / "file"), events.append)
    with pytest.raises(StoreError):
        await declared.declare(ORDERLY, "alice")
    assert declared.groups is None


async def test_change_that_is_not_stored_changes_nothing(events):
    store = StoredGroups()
    declared = Declared(store, events.append)
    await declared.declare(ORDERLY, "alice")
    store.fails = "the disk is full"
    with pytest.raises(StoreError):
        await declared.declare(OTHER, "alice")
    assert (declared.groups, len(events)) == ({ORDERLY}, 1)


async def test_change_is_made_to_what_is_stored_now(events):
    store = StoredGroups()
    declared, elsewhere = Declared(store, events.append), Declared(store, events.append)
    await declared.load()
    await elsewhere.declare(ORDERLY, "alice")
    await declared.declare(OTHER, "alice")
    assert declared.groups == {ORDERLY, OTHER}


@pytest.mark.parametrize("name", ["", " ", "g" * 256, "g\n1"])
async def test_name_that_no_group_has_is_refused(events, name):
    declared = Declared(StoredGroups(), events.append)
    with pytest.raises(GroupRefused):
        await declared.declare(OrderlyGroup(CLUSTER, name), "alice")
    with pytest.raises(GroupRefused):
        await declared.declare(OrderlyGroup(name, "g1"), "alice")
    assert events == []


async def test_more_groups_than_the_limit_are_refused_and_can_be_taken_back(events, monkeypatch):
    monkeypatch.setattr(module, "GROUPS_MAX", 1)
    declared = Declared(StoredGroups(), events.append)
    await declared.declare(ORDERLY, "alice")
    with pytest.raises(GroupRefused, match="1 groups"):
        await declared.declare(OTHER, "alice")
    assert await declared.undeclare(ORDERLY, "alice")
